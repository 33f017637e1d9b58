//! The two engines, which run the calls of a case.

use std::path::Path;

use pumice_peer::{ReadSettings, WriteSettings};

use crate::stores::rocksdb;

/// What a case calls; errors are texts, as RocksDB's.
pub trait Engine: Sized {
    /// A fresh database with families `default`, `family1`, ..
    fn open(path: &Path, options: &str, families: usize) -> Result<Self, String>;
    fn put(&mut self, cf: usize, key: &[u8], value: &[u8]) -> Result<(), String>;
    fn delete(&mut self, key: &[u8]) -> Result<(), String>;
    fn single_delete(&mut self, key: &[u8]) -> Result<(), String>;
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, String>;
    fn flush(&mut self, cf: usize) -> Result<(), String>;
    fn compact(&mut self, begin: &[u8], end: &[u8]) -> Result<(), String>;
    fn settle(&mut self) -> Result<(), String>;
    fn tables(&mut self, cf: usize) -> Result<usize, String>;
    fn put_unlogged(&mut self, key: &[u8], value: &[u8]) -> Result<(), String>;
    /// The batches of the logs from `sequence` on, and how that ended.
    fn updates_since(&mut self, sequence: u64) -> Result<String, String>;
    /// The batches beyond those that were reported last.
    fn more_updates(&mut self) -> Result<String, String>;
}

/// A batch as an answer: its numbers, length and first bytes.
fn describe(sequence: u64, data: &[u8]) -> String {
    let shown = &data[..data.len().min(48)];
    format!("{sequence} ({} bytes) {}", data.len(), shown.escape_ascii())
}

fn updates(batches: &[String], status: Result<(), String>) -> String {
    let end = status.err().unwrap_or_else(|| "OK".to_string());
    format!("{}; {end}", batches.join(", "))
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn family_name(cf: usize) -> String {
    if cf == 0 { "default".to_string() } else { format!("family{cf}") }
}

pub struct Pumice {
    updates: Option<pumice::WalIterator>,
    db: pumice::Db,
    families: Vec<pumice::ColumnFamily>,
}

impl Engine for Pumice {
    fn open(path: &Path, options: &str, families: usize) -> Result<Self, String> {
        let mut parsed = pumice::Options::default();
        parsed.db.create_if_missing = true;
        parsed.set_from_text(options).map_err(text)?;
        let db = pumice::Db::open(&parsed, path).map_err(text)?;
        let mut handles = vec![db.default_column_family().clone()];
        for cf in 1..families {
            handles.push(db.create_column_family(&parsed.cf, &family_name(cf)).map_err(text)?);
        }
        Ok(Pumice { updates: None, db, families: handles })
    }
    fn put(&mut self, cf: usize, key: &[u8], value: &[u8]) -> Result<(), String> {
        let write = pumice::WriteOptions::default();
        self.db.put_cf_opt(&write, &self.families[cf], key, value).map_err(text)
    }
    fn delete(&mut self, key: &[u8]) -> Result<(), String> {
        self.db.delete_opt(&pumice::WriteOptions::default(), key).map_err(text)
    }
    fn single_delete(&mut self, key: &[u8]) -> Result<(), String> {
        self.db.single_delete_opt(&pumice::WriteOptions::default(), key).map_err(text)
    }
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let found = self.db.get_opt(&pumice::ReadOptions::default(), key).map_err(text)?;
        Ok(found.map(|value| value.to_vec()))
    }
    fn flush(&mut self, cf: usize) -> Result<(), String> {
        self.db.flush_cfs_opt(&pumice::FlushOptions::default(), &[&self.families[cf]]).map_err(text)
    }
    fn compact(&mut self, begin: &[u8], end: &[u8]) -> Result<(), String> {
        let options = pumice::CompactRangeOptions::default();
        self.db.compact_range(&options, Some(begin), Some(end)).map_err(text)
    }
    fn settle(&mut self) -> Result<(), String> {
        self.db.wait_for_compact(&pumice::WaitForCompactOptions::default()).map_err(text)?;
        // The last job may not have deleted its obsolete files yet.
        self.db.disable_file_deletions();
        self.db.enable_file_deletions();
        Ok(())
    }
    fn tables(&mut self, cf: usize) -> Result<usize, String> {
        let files = self.db.live_files_metadata();
        let name = family_name(cf);
        Ok(files.iter().filter(|file| file.column_family_name == name).count())
    }
    fn put_unlogged(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let write = pumice::WriteOptions { disable_wal: true, ..pumice::WriteOptions::default() };
        self.db.put_opt(&write, key, value).map_err(text)
    }
    fn updates_since(&mut self, sequence: u64) -> Result<String, String> {
        self.updates = Some(self.db.get_updates_since(sequence).map_err(text)?);
        self.more_updates()
    }
    fn more_updates(&mut self) -> Result<String, String> {
        let Some(iterator) = &mut self.updates else { return Err("no iterator".to_string()) };
        let mut batches = Vec::new();
        while let Some(Ok((sequence, batch))) = iterator.next() {
            batches.push(describe(sequence, batch.data()));
        }
        Ok(updates(&batches, iterator.status().map_err(text)))
    }
}

pub struct RocksDb {
    updates: Option<pumice_peer::WalIterator>,
    unlogged: pumice_peer::WriteOptions,
    write: pumice_peer::WriteOptions,
    read: pumice_peer::ReadOptions,
    families: Vec<pumice_peer::ColumnFamily>,
    db: pumice_peer::Db,
}

impl Engine for RocksDb {
    fn open(path: &Path, options: &str, families: usize) -> Result<Self, String> {
        let peer = rocksdb::load()?;
        let mut parsed = pumice_peer::Options::new(&peer);
        parsed.set_many(&format!("create_if_missing=true;{options}")).map_err(text)?;
        let db = pumice_peer::Db::open(&parsed, path).map_err(text)?;
        let mut handles = vec![db.default_column_family().clone()];
        for cf in 1..families {
            handles.push(db.create_column_family(&parsed, &family_name(cf)).map_err(text)?);
        }
        let write = pumice_peer::WriteOptions::new(&peer, &WriteSettings::default());
        let read = pumice_peer::ReadOptions::new(&peer, &ReadSettings::default());
        let settings = WriteSettings { disable_wal: true, ..WriteSettings::default() };
        let unlogged = pumice_peer::WriteOptions::new(&peer, &settings);
        Ok(RocksDb { updates: None, unlogged, write, read, families: handles, db })
    }
    fn put(&mut self, cf: usize, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.db.put(&self.write, &self.families[cf], key, value).map_err(text)
    }
    fn delete(&mut self, key: &[u8]) -> Result<(), String> {
        self.db.delete(&self.write, &self.families[0], key).map_err(text)
    }
    fn single_delete(&mut self, key: &[u8]) -> Result<(), String> {
        self.db.single_delete(&self.write, &self.families[0], key).map_err(text)
    }
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut found = Vec::new();
        let there = self.db.get(&self.read, &self.families[0], key, &mut found).map_err(text)?;
        Ok(there.then_some(found))
    }
    fn flush(&mut self, cf: usize) -> Result<(), String> {
        self.db.flush(&self.families[cf]).map_err(text)
    }
    fn compact(&mut self, begin: &[u8], end: &[u8]) -> Result<(), String> {
        let settings = pumice_peer::CompactRangeSettings::default();
        self.db.compact_range(&self.families[0], Some(begin), Some(end), &settings);
        Ok(())
    }
    fn settle(&mut self) -> Result<(), String> {
        self.db.wait_for_compact(false).map_err(text)
    }
    fn tables(&mut self, cf: usize) -> Result<usize, String> {
        let name = family_name(cf);
        Ok(self.db.live_files().iter().filter(|file| file.column_family == name).count())
    }
    fn put_unlogged(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.db.put(&self.unlogged, &self.families[0], key, value).map_err(text)
    }
    fn updates_since(&mut self, sequence: u64) -> Result<String, String> {
        let iterator = self.db.updates_since(sequence).map_err(text)?;
        Ok(drain(self.updates.insert(iterator)))
    }
    fn more_updates(&mut self) -> Result<String, String> {
        let Some(iterator) = &mut self.updates else { return Err("no iterator".to_string()) };
        iterator.next();
        Ok(drain(iterator))
    }
}

fn drain(iterator: &mut pumice_peer::WalIterator) -> String {
    let mut batches = Vec::new();
    while let Some((sequence, batch)) = iterator.batch() {
        batches.push(describe(sequence, batch.data()));
        iterator.next();
    }
    updates(&batches, iterator.status().map_err(text))
}
