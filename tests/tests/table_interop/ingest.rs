//! Ingestion on both engines: each ingests the other's files, continues in the other's database,
//! puts files on the same levels with the same sequence numbers, and refuses with the same texts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pumice_peer as theirs;
use pumice_peer::Peer;

use super::peer;

pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// A record of an external file.
#[derive(Clone)]
pub enum Record {
    Put(&'static str, &'static str),
    Merge(&'static str, &'static str),
    Delete(&'static str),
    DeleteRange(&'static str, &'static str),
}

use Record::{Delete, DeleteRange, Merge, Put};

/// One engine on one directory.
pub trait Engine {
    fn write(&mut self, record: &Record);
    fn flush(&mut self);
    fn compact(&mut self);
    fn take_snapshot(&mut self);
    fn drop_snapshots(&mut self);
    fn ingest(&mut self, files: &[&Path], settings: &theirs::IngestSettings) -> Result<(), String>;
    /// Levels of all files, sorted.
    fn levels(&self) -> Vec<usize>;
    fn sequence(&self) -> u64;
    fn scan(&self) -> State;
    fn make(&self, path: &Path, records: &[Record]);
    fn reopen(self: Box<Self>) -> Box<dyn Engine>;
}

struct Theirs {
    peer: Peer,
    options: theirs::Options,
    path: PathBuf,
    wo: theirs::WriteOptions,
    snapshots: Vec<theirs::Snapshot>,
    db: theirs::Db,
}

struct Ours {
    options: pumice::Options,
    path: PathBuf,
    snapshots: Vec<pumice::Snapshot>,
    db: pumice::Db,
}

pub fn open_theirs(peer: &Peer, path: &Path, format: u32) -> Box<dyn Engine> {
    open_theirs_with(peer, path, format, false)
}

fn open_theirs_with(peer: &Peer, path: &Path, format: u32, behind: bool) -> Box<dyn Engine> {
    let mut options = theirs::Options::new(peer);
    let base = "create_if_missing=true;allow_fallocate=false;\
                disable_auto_compactions=true;merge_operator=stringappend";
    options.set_many(base).unwrap();
    if behind {
        options.set("cf_allow_ingest_behind", "true").unwrap();
        options.set("level_compaction_dynamic_level_bytes", "false").unwrap();
    }
    options.set_table(&format!("format_version={format};filter_policy=bloomfilter:10")).unwrap();
    let wo = theirs::WriteOptions::new(peer, &theirs::WriteSettings::default());
    let db = theirs::Db::open(&options, path).unwrap();
    let (peer, path) = (peer.clone(), path.to_path_buf());
    Box::new(Theirs { peer, options, path, wo, snapshots: Vec::new(), db })
}

fn open_ours(path: &Path, format: u32) -> Box<dyn Engine> {
    open_ours_with(path, format, false)
}

fn open_ours_with(path: &Path, format: u32, behind: bool) -> Box<dyn Engine> {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options.cf.cf_allow_ingest_behind = behind;
    options.cf.level_compaction_dynamic_level_bytes = !behind;
    options.cf.merge_operator = pumice::options::merge_operator_by_name("stringappend");
    options.cf.table_factory.set("format_version", &format.to_string()).unwrap();
    options.cf.table_factory.set("filter_policy", "bloomfilter:10:false").unwrap();
    let db = pumice::Db::open(&options, path).unwrap();
    Box::new(Ours { options, path: path.to_path_buf(), snapshots: Vec::new(), db })
}

impl Engine for Theirs {
    fn write(&mut self, record: &Record) {
        let (db, wo, cf) = (&self.db, &self.wo, self.db.default_column_family());
        match record {
            Put(key, value) => db.put(wo, cf, key.as_bytes(), value.as_bytes()),
            Merge(key, value) => db.merge(wo, cf, key.as_bytes(), value.as_bytes()),
            Delete(key) => db.delete(wo, cf, key.as_bytes()),
            DeleteRange(begin, end) => db.delete_range(wo, cf, begin.as_bytes(), end.as_bytes()),
        }
        .unwrap();
    }
    fn flush(&mut self) {
        self.db.flush(self.db.default_column_family()).unwrap();
    }
    fn compact(&mut self) {
        let all = theirs::CompactRangeSettings { bottommost_level: 2, ..Default::default() };
        self.db.compact_range(self.db.default_column_family(), None, None, &all);
    }
    fn take_snapshot(&mut self) {
        self.snapshots.push(self.db.snapshot());
    }
    fn drop_snapshots(&mut self) {
        self.snapshots.clear();
    }
    fn ingest(&mut self, files: &[&Path], settings: &theirs::IngestSettings) -> Result<(), String> {
        let done = self.db.ingest_with(self.db.default_column_family(), files, settings);
        done.map_err(|error| error.to_string())
    }
    fn levels(&self) -> Vec<usize> {
        let mut levels: Vec<usize> =
            self.db.live_files().iter().map(|file| file.level as usize).collect();
        levels.sort_unstable();
        levels
    }
    fn sequence(&self) -> u64 {
        self.db.latest_sequence_number()
    }
    fn scan(&self) -> State {
        let ro = theirs::ReadOptions::new(&self.peer, &theirs::ReadSettings::default());
        let mut iter = self.db.iter(&ro, self.db.default_column_family());
        let mut state = State::new();
        iter.seek_to_first();
        while iter.valid() {
            state.insert(iter.key().to_vec(), iter.value().to_vec());
            iter.next();
        }
        iter.status().unwrap();
        for (key, value) in &state {
            let mut found = Vec::new();
            let cf = self.db.default_column_family();
            assert!(self.db.get(&ro, cf, key, &mut found).unwrap());
            assert_eq!(&found, value);
        }
        state
    }
    fn make(&self, path: &Path, records: &[Record]) {
        let mut writer = theirs::SstFileWriter::new(&self.options);
        writer.open(path).unwrap();
        for record in records {
            match record {
                Put(key, value) => writer.put(key.as_bytes(), value.as_bytes()),
                Merge(key, value) => writer.merge(key.as_bytes(), value.as_bytes()),
                Delete(key) => writer.delete(key.as_bytes()),
                DeleteRange(begin, end) => writer.delete_range(begin.as_bytes(), end.as_bytes()),
            }
            .unwrap();
        }
        writer.finish().unwrap();
    }
    fn reopen(self: Box<Self>) -> Box<dyn Engine> {
        let Theirs { peer, options, path, wo, snapshots, db } = *self;
        drop((snapshots, db));
        let db = theirs::Db::open(&options, &path).unwrap();
        Box::new(Theirs { peer, options, path, wo, snapshots: Vec::new(), db })
    }
}

impl Engine for Ours {
    fn write(&mut self, record: &Record) {
        let (db, wo) = (&self.db, &pumice::WriteOptions::default());
        match record {
            Put(key, value) => db.put_opt(wo, key.as_bytes(), value.as_bytes()),
            Merge(key, value) => db.merge_opt(wo, key.as_bytes(), value.as_bytes()),
            Delete(key) => db.delete_opt(wo, key.as_bytes()),
            DeleteRange(begin, end) => db.delete_range_opt(wo, begin.as_bytes(), end.as_bytes()),
        }
        .unwrap();
    }
    fn flush(&mut self) {
        self.db.flush_opt(&pumice::FlushOptions::default()).unwrap();
    }
    fn compact(&mut self) {
        let all = pumice::CompactRangeOptions {
            bottommost_level_compaction: pumice::BottommostLevelCompaction::Force,
            ..Default::default()
        };
        self.db.compact_range(&all, None, None).unwrap();
    }
    fn take_snapshot(&mut self) {
        self.snapshots.push(self.db.snapshot());
    }
    fn drop_snapshots(&mut self) {
        self.snapshots.clear();
    }
    fn ingest(&mut self, files: &[&Path], settings: &theirs::IngestSettings) -> Result<(), String> {
        let options = pumice::IngestExternalFileOptions {
            move_files: settings.move_files,
            snapshot_consistency: settings.snapshot_consistency,
            allow_global_seqno: settings.allow_global_seqno,
            allow_blocking_flush: settings.allow_blocking_flush,
            ingest_behind: settings.ingest_behind,
            fail_if_not_bottommost_level: settings.fail_if_not_bottommost_level,
            ..Default::default()
        };
        self.db.ingest_external_file(&options, files).map_err(|error| error.to_string())
    }
    fn levels(&self) -> Vec<usize> {
        let mut levels: Vec<usize> =
            self.db.live_files_metadata().iter().map(|file| file.level).collect();
        levels.sort_unstable();
        levels
    }
    fn sequence(&self) -> u64 {
        self.db.latest_sequence_number()
    }
    fn scan(&self) -> State {
        let mut iter = self.db.cursor_opt(&Default::default()).unwrap();
        let mut state = State::new();
        iter.seek_to_first();
        while iter.valid() {
            state.insert(iter.key().unwrap().to_vec(), iter.value().unwrap().to_vec());
            iter.next();
        }
        iter.status().unwrap();
        drop(iter);
        for (key, value) in &state {
            let found = self.db.get_opt(&Default::default(), key).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]));
        }
        self.db.verify_checksum().unwrap();
        state
    }
    fn make(&self, path: &Path, records: &[Record]) {
        let mut writer = pumice::SstFileWriter::new(&self.options).unwrap();
        writer.open(path).unwrap();
        for record in records {
            match record {
                Put(key, value) => writer.put(key.as_bytes(), value.as_bytes()),
                Merge(key, value) => writer.merge(key.as_bytes(), value.as_bytes()),
                Delete(key) => writer.delete(key.as_bytes()),
                DeleteRange(begin, end) => writer.delete_range(begin.as_bytes(), end.as_bytes()),
            }
            .unwrap();
        }
        writer.finish().unwrap();
    }
    fn reopen(self: Box<Self>) -> Box<dyn Engine> {
        self.db.close().unwrap();
        let (options, path) = (self.options.clone(), self.path.clone());
        drop(self);
        let db = pumice::Db::open(&options, &path).unwrap();
        Box::new(Ours { options, path, snapshots: Vec::new(), db })
    }
}

/// What is done to both engines, in turn.
enum Step {
    Write(Record),
    Flush,
    Compact,
    Snapshot,
    Release,
    /// Files of one call.
    Ingest(Vec<Vec<Record>>),
    /// The same, whether it succeeds or not: the outcome must be the same on both.
    Try(Vec<Vec<Record>>, theirs::IngestSettings),
    Reopen,
}

fn steps() -> Vec<Step> {
    use Step::{Compact, Flush, Ingest, Release, Reopen, Snapshot, Try, Write};
    let settings = theirs::IngestSettings::default;
    let no_flush = theirs::IngestSettings { allow_blocking_flush: false, ..settings() };
    let no_seqno = theirs::IngestSettings { allow_global_seqno: false, ..settings() };
    let last_level = theirs::IngestSettings { fail_if_not_bottommost_level: true, ..settings() };
    let behind = theirs::IngestSettings { ingest_behind: true, ..settings() };
    vec![
        Ingest(vec![vec![Put("d", "1"), Put("g", "1")]]),
        Write(Put("e", "memory")),
        Try(vec![vec![Put("e", "x")]], no_flush),
        Try(vec![vec![Put("e", "x")]], no_seqno),
        Try(vec![vec![Put("e", "x")]], last_level),
        Try(vec![vec![Put("zz", "x")]], behind),
        Try(vec![], settings()),
        Ingest(vec![vec![Put("e", "2"), Merge("g", "m"), Delete("h")]]),
        Ingest(vec![vec![Put("x", "3")], vec![Put("y", "3")]]),
        Reopen,
        Ingest(vec![
            vec![Put("a", "4"), Put("c", "4")],
            vec![Put("b", "5"), Put("c", "5")],
            vec![Put("p", "5")],
            vec![DeleteRange("b", "c"), Merge("c", "6")],
        ]),
        Snapshot,
        Ingest(vec![vec![Put("q", "7"), Put("r", "7")]]),
        Ingest(vec![vec![DeleteRange("q", "r"), Put("qa", "8")]]),
        Release,
        Flush,
        Try(vec![vec![Put("k", "1")], vec![Put("k", "2")]], no_seqno),
        Ingest(vec![vec![DeleteRange("s", "v")]]),
        Write(Put("t", "9")),
        Reopen,
        Compact,
        Ingest(vec![vec![Put("t", "10")], vec![Put("zz", "10")]]),
        Try(vec![vec![Put("zzz", "11")]], last_level),
        Write(Merge("zz", "12")),
        Ingest(vec![vec![DeleteRange("a", "c"), Put("b", "13"), Put("s", "13")]]),
        Compact,
        Ingest(vec![vec![Put("bb", "14")], vec![Put("s", "14")], vec![Put("s", "15")]]),
        Reopen,
    ]
}

/// The result of a call. RocksDB prints one of its texts without filling in the name.
fn words(result: Result<(), String>) -> String {
    result.map_or_else(|error| error.replace("%s", "default"), |()| "OK".to_string())
}

/// Does `step` on both; files begin with `prefix`, and each gets those that the other made.
fn do_step(
    engines: [Box<dyn Engine>; 2],
    step: &Step,
    prefix: &Path,
    what: &str,
) -> [Box<dyn Engine>; 2] {
    let (files, settings) = match step {
        Step::Ingest(files) => (files.as_slice(), theirs::IngestSettings::default()),
        Step::Try(files, settings) => (files.as_slice(), *settings),
        _ => (&[][..], theirs::IngestSettings::default()),
    };
    let made = [1, 0].map(|maker: usize| {
        let made = files.iter().enumerate().map(|(f, records)| {
            let path = PathBuf::from(format!("{}-{f}-{maker}.sst", prefix.display()));
            engines[maker].make(&path, records);
            path
        });
        made.collect::<Vec<PathBuf>>()
    });
    let mut outcomes = Vec::new();
    let engines = engines.map(|mut engine| {
        match step {
            Step::Write(record) => engine.write(record),
            Step::Flush => engine.flush(),
            Step::Compact => engine.compact(),
            Step::Snapshot => engine.take_snapshot(),
            Step::Release => engine.drop_snapshots(),
            Step::Reopen => engine = engine.reopen(),
            Step::Ingest(_) | Step::Try(..) => {
                let mine: Vec<&Path> = made[outcomes.len()].iter().map(PathBuf::as_path).collect();
                outcomes.push(words(engine.ingest(&mine, &settings)));
            }
        }
        engine
    });
    if matches!(step, Step::Ingest(_)) {
        assert_eq!(outcomes[0], "OK", "{what}");
    }
    assert!(outcomes.is_empty() || outcomes[0] == outcomes[1], "{what}: {outcomes:?}");
    engines
}

/// The same steps on both, with each other's files.
#[pumice_test_macros::test]
fn both_engines_ingest_alike() {
    let Some(peer) = peer() else { return };
    for format in [5, 6, 7] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut engines =
            [open_theirs(&peer, &path("theirs"), format), open_ours(&path("ours"), format)];
        for (n, step) in steps().iter().enumerate() {
            let what = format!("format {format}, step {n}");
            let prefix = folder.path().join(n.to_string());
            engines = do_step(engines, step, &prefix, &what);
            let [a, b] = &engines;
            assert_eq!(a.scan(), b.scan(), "{what}");
            assert_eq!(a.levels(), b.levels(), "{what}");
            assert_eq!(a.sequence(), b.sequence(), "{what}");
        }
        let state = engines[0].scan();
        assert!(state.len() > 8);
        drop(engines);
        // Each continues in the other's database.
        for (mut engine, name) in [
            (open_ours(&path("theirs"), format), "theirs"),
            (open_theirs(&peer, &path("ours"), format), "ours"),
        ] {
            assert_eq!(engine.scan(), state, "{name}");
            let file = path(&format!("last-{name}.sst"));
            engine.make(&file, &[Put("a", "last"), DeleteRange("d", "f")]);
            engine.ingest(&[&file], &Default::default()).unwrap();
            let mut expected = state.clone();
            expected.retain(|key, _| !(&b"d"[..]..&b"f"[..]).contains(&&key[..]));
            expected.insert(b"a".to_vec(), b"last".to_vec());
            assert_eq!(engine.scan(), expected, "{name}");
            engine.compact();
            assert_eq!(engine.scan(), expected, "{name}");
            let engine = engine.reopen();
            assert_eq!(engine.scan(), expected, "{name}");
        }
    }
}

/// Files ingested behind, next to plain ones. With fixed level targets, because with dynamic ones
/// RocksDB 10.10 still compacts into the last level, and then has no room there. Without range
/// deletions, which it drops in compactions although files may be ingested behind them.
#[pumice_test_macros::test]
fn both_engines_ingest_behind_alike() {
    use Step::{Compact, Flush, Ingest, Reopen, Try, Write};
    let Some(peer) = peer() else { return };
    let behind = theirs::IngestSettings { ingest_behind: true, ..Default::default() };
    let steps = [
        Write(Put("b", "first")),
        Write(Put("c", "first")),
        Flush,
        Write(Delete("c")),
        Compact,
        Write(Put("h", "memory")),
        Try(vec![vec![Put("a", "1"), Put("b", "1"), Put("c", "1"), Put("f", "1")]], behind),
        Try(vec![vec![Put("c", "2")]], behind),
        Try(vec![vec![Put("x", "2")], vec![Put("x", "3")]], behind),
        Try(vec![vec![Put("g", "2"), Put("h", "2")]], behind),
        Compact,
        Reopen,
        Ingest(vec![vec![Put("c", "4"), Put("d", "4")]]),
        Compact,
        Try(vec![vec![Put("y", "5")]], behind),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut engines =
        [open_theirs_with(&peer, &path("theirs"), 6, true), open_ours_with(&path("ours"), 6, true)];
    for (n, step) in steps.iter().enumerate() {
        let what = format!("step {n}");
        engines = do_step(engines, step, &path(&n.to_string()), &what);
        let [a, b] = &engines;
        assert_eq!(a.scan(), b.scan(), "{what}");
        assert_eq!(a.sequence(), b.sequence(), "{what}");
    }
    let state = engines[0].scan();
    let value = |key: &str| state.get(key.as_bytes()).map(Vec::as_slice);
    assert_eq!(
        (value("a"), value("b"), value("f")),
        (Some(&b"1"[..]), Some(&b"first"[..]), Some(&b"1"[..]))
    );
}

/// Files that do not fit are refused with the same words, ours with the file's name before them.
#[pumice_test_macros::test]
fn both_engines_refuse_alike() {
    let Some(peer) = peer() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut reverse = theirs::Options::new(&peer);
    reverse.set("comparator", "rocksdb.ReverseBytewiseComparator").unwrap();
    let mut writer = theirs::SstFileWriter::new(&reverse);
    writer.open(&path("reverse.sst")).unwrap();
    writer.put(b"b", b"1").unwrap();
    writer.put(b"a", b"1").unwrap();
    writer.finish().unwrap();
    for own in ["theirs", "ours"] {
        let mut engine = match own {
            "theirs" => open_theirs(&peer, &path(own), 6),
            _ => open_ours(&path(own), 6),
        };
        engine.write(&Put("k", "v"));
        engine.flush();
        drop(engine.reopen());
        let tables = std::fs::read_dir(path(own)).unwrap().map(|entry| entry.unwrap().path());
        let table = tables.into_iter().find(|path| path.extension().is_some_and(|e| e == "sst"));
        std::fs::copy(table.unwrap(), path(&format!("{own}.sst"))).unwrap();
    }
    let mut engines = [open_theirs(&peer, &path("a"), 6), open_ours(&path("b"), 6)];
    for name in ["reverse.sst", "theirs.sst", "ours.sst"] {
        let [a, b] = engines.each_mut().map(|engine| {
            let error = engine.ingest(&[&path(name)], &Default::default());
            error.err().unwrap_or_else(|| format!("{name} was taken"))
        });
        let named = format!("{}: ", path(name).display());
        assert_eq!(a, b.replace(&named, ""), "{name}");
        assert!(b.contains(name), "{b}");
    }
}
