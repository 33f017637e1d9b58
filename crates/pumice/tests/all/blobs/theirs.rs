//! RocksDB's C library, 11.8.1, on the directory of a test, with blob files.

use std::path::{Path, PathBuf};

use pumice_peer::{
    CompactRangeSettings, Peer, ReadOptions, ReadSettings, WriteBatch, WriteOptions, WriteSettings,
};

/// Keys and values in order.
pub type Contents = Vec<(Vec<u8>, Vec<u8>)>;

/// The library, where it is installed.
pub fn peer() -> Option<Peer> {
    pumice_peer::installed_11_8().map(|library| Peer::load(library).unwrap())
}

/// An open database of RocksDB's.
pub struct Theirs<'a> {
    peer: &'a Peer,
    pub db: pumice_peer::Db,
    write: WriteOptions,
    read: ReadOptions,
}

impl<'a> Theirs<'a> {
    /// Opens `path` with `text` over a merge operator and no automatic compactions.
    pub fn open(peer: &'a Peer, path: &Path, text: &str) -> Self {
        let mut options = pumice_peer::Options::new(peer);
        let base = "create_if_missing=true;merge_operator=stringappend;\
                    disable_auto_compactions=true";
        options.set_many(base).unwrap();
        options.set_many(text).unwrap();
        let db = pumice_peer::Db::open(&options, path).unwrap();
        let write = WriteOptions::new(peer, &WriteSettings::default());
        let read = ReadOptions::new(peer, &ReadSettings::default());
        Theirs { peer, db, write, read }
    }

    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put(&self.write, self.db.default_column_family(), key, value).unwrap();
    }

    pub fn merge(&self, key: &[u8], operand: &[u8]) {
        self.db.merge(&self.write, self.db.default_column_family(), key, operand).unwrap();
    }

    pub fn delete(&self, key: &[u8]) {
        self.db.delete(&self.write, self.db.default_column_family(), key).unwrap();
    }

    pub fn delete_range(&self, from: &[u8], to: &[u8]) {
        self.db.delete_range(&self.write, self.db.default_column_family(), from, to).unwrap();
    }

    /// Writes an entity of these columns, by name ascending.
    pub fn put_entity(&self, key: &[u8], columns: &[(&[u8], &[u8])]) {
        let mut entity = vec![1, columns.len() as u8];
        for (name, value) in columns {
            sized(&mut entity, name);
            pumice_base::coding::put_varint32(&mut entity, value.len() as u32);
        }
        columns.iter().for_each(|(_, value)| entity.extend_from_slice(value));
        let mut data = vec![0; 12];
        data[8] = 1;
        data.push(0x16);
        sized(&mut data, key);
        sized(&mut data, &entity);
        self.db.write(&self.write, &WriteBatch::from_data(self.peer, &data)).unwrap();
    }

    pub fn flush(&self) {
        self.db.flush(self.db.default_column_family()).unwrap();
    }

    /// Rewrites everything, once.
    pub fn compact(&self) {
        let forced = CompactRangeSettings { bottommost_level: 3, ..Default::default() };
        self.db.compact_range(self.db.default_column_family(), None, None, &forced);
    }

    pub fn property(&self, name: &str) -> String {
        self.db.property(self.db.default_column_family(), name).unwrap()
    }

    pub fn contents(&self) -> Contents {
        let mut iter = self.db.iter(&self.read, self.db.default_column_family());
        let mut all = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            all.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status().unwrap();
        all
    }
}

fn sized(to: &mut Vec<u8>, bytes: &[u8]) {
    pumice_base::coding::put_length_prefixed(to, bytes);
}

/// Copies the files of a closed database into a new directory.
pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// The blob files in a directory.
pub fn blob_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut blobs: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "blob")).collect();
    blobs.sort();
    blobs
}
