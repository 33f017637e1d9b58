//! The two engines behind one set of calls, for what both must answer alike.

use std::path::{Path, PathBuf};

use pumice::{
    BYTEWISE_U64_TS, BottommostLevelCompaction, CompactRangeOptions, Cursor, Db, Options,
    ReadOptions, WriteBatch,
};
use pumice_peer::{CompactRangeSettings, Peer, ReadSettings, WriteOptions, WriteSettings};

/// A key, the time of its version and its value.
pub type Row = (Vec<u8>, u64, Vec<u8>);
/// A key, the time of its version, and its value, None for a deletion.
pub type VersionRow = (Vec<u8>, u64, Option<Vec<u8>>);

/// A range of keys, walked from the end if `backward`; from `seek` on if that is set.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
    pub backward: bool,
    pub seek: Option<Vec<u8>>,
}

/// An engine with one database.
pub trait Side {
    fn name(&self) -> &'static str;
    /// Applies a batch of whole keys.
    fn write(&mut self, batch: &WriteBatch);
    fn get(&self, time: u64, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>, String>;
    fn walk(&self, time: u64, walk: &Walk) -> Result<Vec<Row>, String>;
    fn versions(&self, from: u64, time: u64, walk: &Walk) -> Result<Vec<VersionRow>, String>;
    fn flush(&self);
    fn compact(&self, range: Option<(&[u8], &[u8])>);
    fn raise(&self, low: u64) -> Result<(), String>;
    /// Closes and opens again.
    fn reopen(&mut self);
    /// Reads and checks all files.
    fn check_files(&self) {}
    /// Waits for compactions, and for files that nobody needs to go.
    fn settle(&self) {}
}

fn number(timestamp: &[u8]) -> u64 {
    u64::from_le_bytes(timestamp.try_into().unwrap())
}

/// A version as iterators with a start time show it.
fn version(key: &[u8], value: &[u8]) -> VersionRow {
    let (user, rest) = key.split_at(key.len() - 16);
    let deleted = rest[8] == 0x14 || rest[8] == 0x07 || rest[8] == 0;
    (user.to_vec(), number(&rest[..8]), (!deleted).then(|| value.to_vec()))
}

/// Pumice.
pub struct Ours {
    options: Options,
    path: PathBuf,
    db: Option<Db>,
}

impl Ours {
    pub fn open(options: Options, path: &Path) -> Self {
        let db = Some(Db::open(&options, path).unwrap());
        Ours { options, path: path.to_path_buf(), db }
    }
    pub fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }
    fn cursor(&self, options: ReadOptions, walk: &Walk) -> Result<Vec<Row>, String> {
        let options = ReadOptions {
            iterate_lower_bound: walk.lower.clone(),
            iterate_upper_bound: walk.upper.clone(),
            ..options
        };
        let mut cursor = self.db().cursor_opt(&options).map_err(|e| e.to_string())?;
        match (&walk.seek, walk.backward) {
            (None, false) => cursor.seek_to_first(),
            (None, true) => cursor.seek_to_last(),
            (Some(key), false) => cursor.seek(key),
            (Some(key), true) => cursor.seek_for_prev(key),
        }
        let mut rows = Vec::new();
        while let Some((key, value)) = cursor.item() {
            rows.push((key.to_vec(), number(cursor.timestamp().unwrap()), value.to_vec()));
            if walk.backward { Cursor::prev(&mut cursor) } else { Cursor::next(&mut cursor) }
        }
        cursor.status().map_err(|e| e.to_string())?;
        Ok(rows)
    }
}

impl Side for Ours {
    fn name(&self) -> &'static str {
        "Pumice"
    }
    fn write(&mut self, batch: &WriteBatch) {
        self.db().write(&mut WriteBatch::from_data(batch.data()).unwrap()).unwrap();
    }
    fn get(&self, time: u64, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>, String> {
        let found = self.db().at(time).get_with_timestamp(key).map_err(|e| e.to_string())?;
        let value = found.as_ref().map(|(value, _)| &value[..]);
        // Of several keys at once.
        for together in self.db().at(time).multi_get(&[key, b"another", key]).iter().step_by(2) {
            assert_eq!(together.as_ref().unwrap().as_deref(), value);
        }
        Ok(found.map(|(value, time)| (value.to_vec(), number(&time))))
    }
    fn walk(&self, time: u64, walk: &Walk) -> Result<Vec<Row>, String> {
        self.cursor(self.db().at(time).read_options(), walk)
    }
    fn versions(&self, from: u64, time: u64, walk: &Walk) -> Result<Vec<VersionRow>, String> {
        let options = ReadOptions {
            iter_start_ts: Some(from.to_le_bytes().to_vec()),
            ..self.db().at(time).read_options()
        };
        let rows = self.cursor(options, walk)?;
        Ok(rows.iter().map(|(key, _, value)| version(key, value)).collect())
    }
    fn flush(&self) {
        self.db().flush().unwrap();
    }
    fn compact(&self, range: Option<(&[u8], &[u8])>) {
        let options = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        let (begin, end) = (range.map(|r| r.0), range.map(|r| r.1));
        self.db().compact_range(&options, begin, end).unwrap();
    }
    fn raise(&self, low: u64) -> Result<(), String> {
        let family = self.db().default_column_family();
        self.db().increase_full_history_ts_low(family, low).map_err(|e| e.to_string())
    }
    fn reopen(&mut self) {
        self.db.take().unwrap().close().unwrap();
        self.db = Some(Db::open(&self.options, &self.path).unwrap());
    }
    fn check_files(&self) {
        self.db().verify_checksum().unwrap();
    }
    fn settle(&self) {
        self.db().wait_for_compact(&Default::default()).unwrap();
        crate::common::let_files_go(self.db());
    }
}

/// RocksDB.
pub struct Theirs<'p> {
    peer: &'p Peer,
    path: PathBuf,
    text: String,
    db: Option<pumice_peer::Db>,
    write: WriteOptions,
}

impl<'p> Theirs<'p> {
    pub fn open(peer: &'p Peer, path: &Path, text: &str) -> Self {
        let text = format!(
            "comparator={BYTEWISE_U64_TS};create_if_missing=true;merge_operator=stringappend;{text}"
        );
        let write = WriteOptions::new(peer, &WriteSettings::default());
        let mut theirs = Theirs { peer, path: path.to_path_buf(), text, db: None, write };
        theirs.start();
        theirs
    }
    fn start(&mut self) {
        let mut options = pumice_peer::Options::new(self.peer);
        options.set_many(&self.text).unwrap();
        self.db = Some(pumice_peer::Db::open(&options, &self.path).unwrap());
    }
    pub fn db(&self) -> &pumice_peer::Db {
        self.db.as_ref().unwrap()
    }
    fn cursor(&self, settings: ReadSettings, walk: &Walk) -> Result<Vec<Row>, String> {
        let settings = ReadSettings {
            iterate_lower_bound: walk.lower.clone(),
            iterate_upper_bound: walk.upper.clone(),
            ..settings
        };
        let read = pumice_peer::ReadOptions::new(self.peer, &settings);
        let mut cursor = self.db().iter(&read, self.db().default_column_family());
        match (&walk.seek, walk.backward) {
            (None, false) => cursor.seek_to_first(),
            (None, true) => cursor.seek_to_last(),
            (Some(key), false) => cursor.seek(key),
            (Some(key), true) => cursor.seek_for_prev(key),
        }
        let mut rows = Vec::new();
        while cursor.valid() {
            let time = number(cursor.timestamp());
            rows.push((cursor.key().to_vec(), time, cursor.value().to_vec()));
            if walk.backward { cursor.prev() } else { cursor.next() }
        }
        cursor.status().map_err(|e| e.to_string())?;
        Ok(rows)
    }
}

fn at(time: u64) -> ReadSettings {
    ReadSettings { timestamp: Some(time.to_le_bytes().to_vec()), ..ReadSettings::default() }
}

impl Side for Theirs<'_> {
    fn name(&self) -> &'static str {
        "RocksDB"
    }
    fn write(&mut self, batch: &WriteBatch) {
        let batch = pumice_peer::WriteBatch::from_data(self.peer, batch.data());
        self.db().write(&self.write, &batch).unwrap();
    }
    fn get(&self, time: u64, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>, String> {
        let read = pumice_peer::ReadOptions::new(self.peer, &at(time));
        let found = self.db().get_at(&read, self.db().default_column_family(), key);
        let found = found.map_err(|e| e.to_string())?;
        Ok(found.map(|(value, time)| (value, number(&time))))
    }
    fn walk(&self, time: u64, walk: &Walk) -> Result<Vec<Row>, String> {
        self.cursor(at(time), walk)
    }
    fn versions(&self, from: u64, time: u64, walk: &Walk) -> Result<Vec<VersionRow>, String> {
        let from = Some(from.to_le_bytes().to_vec());
        let rows = self.cursor(ReadSettings { iter_start_ts: from, ..at(time) }, walk)?;
        Ok(rows.iter().map(|(key, _, value)| version(key, value)).collect())
    }
    fn flush(&self) {
        self.db().flush(self.db().default_column_family()).unwrap();
    }
    fn compact(&self, range: Option<(&[u8], &[u8])>) {
        let forced = CompactRangeSettings { bottommost_level: 2, ..Default::default() };
        let (begin, end) = (range.map(|r| r.0), range.map(|r| r.1));
        self.db().compact_range(self.db().default_column_family(), begin, end, &forced);
    }
    fn raise(&self, low: u64) -> Result<(), String> {
        let family = self.db().default_column_family();
        let low = low.to_le_bytes();
        self.db().increase_full_history_ts_low(family, &low).map_err(|e| e.to_string())
    }
    fn reopen(&mut self) {
        drop(self.db.take());
        self.start();
    }
}
