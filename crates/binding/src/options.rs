//! `rocksdb_options_t`: the options of a database and of a column family in one, with all of
//! RocksDB's names, and what of them the engine gets.
//!
//! Plain values are in a store; objects (comparators, caches, operators) and values without a
//! setter of their own are in the engine's options, which the store is written over at an open.
//!
//! Thread safety: plain data.

use pumice::options::text;
use pumice::{BlockBasedTableOptions, Error, Result};

use crate::overlay::{has_row, overlay, property_of, read_back};
use crate::store::{Fields, Store, Target};
use crate::value;

/// Options of a database and a column family.
#[derive(Clone, Debug)]
pub struct Options {
    store: Store,
    /// Objects, and values that have no property.
    pub engine: pumice::Options,
    /// The options of block-based tables.
    pub table: TableOptions,
    /// What was asked for and is replaced by something else, for the log.
    pub replaced: Vec<String>,
    /// What was given and cannot be used, for the open to say.
    pub refused: Option<Error>,
    /// Bits by number: file types whose checksums are handed to the file system.
    pub checksum_handoff_file_types: u64,
    /// Bits by number: compaction styles for which lifetimes of files are estimated.
    pub write_lifetime_hint_styles: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            store: Store::named("options"),
            engine: pumice::Options::default(),
            table: TableOptions::default(),
            replaced: Vec::new(),
            refused: None,
            checksum_handoff_file_types: 0,
            write_lifetime_hint_styles: 1,
        }
    }
}

impl Fields for Options {
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

impl Options {
    /// The engine's options, for an open.
    ///
    /// # Errors
    /// The first option that this build refuses, by its name.
    pub fn to_engine(&self) -> Result<pumice::Options> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        let mut engine = self.engine.clone();
        let ignored = overlay(&self.store, &mut engine)?;
        engine.db.skipped_options.extend(ignored);
        engine.db.skipped_options.extend(self.replaced.iter().cloned());
        for (name, field) in texts(&mut engine.db) {
            *field = String::from_utf8_lossy(self.store.text(name)).into_owned();
        }
        let (table, ignored) = self.table.to_engine()?;
        engine.db.skipped_options.extend(ignored);
        engine.cf.table_factory = table;
        Ok(engine)
    }

    /// Takes the values of `engine`, objects included.
    pub fn take_engine(&mut self, engine: pumice::Options) {
        read_back(&mut self.store, &engine);
        let mut engine = engine;
        for (name, field) in texts(&mut engine.db) {
            self.store.put_text(name, &*field);
        }
        self.table = TableOptions::from_engine(&engine.cf.table_factory);
        self.engine = engine;
    }

    /// Remembers that something else is used than what was asked for, for the log.
    pub fn set_replaced(&mut self, option: &str, line: String) {
        self.replaced.retain(|other| !other.starts_with(option));
        self.replaced.push(line);
    }

    /// A copy with options from `name=value;name=value;`.
    ///
    /// # Errors
    /// As `GetOptionsFromString`: InvalidArgument and NotSupported, naming the option.
    pub fn from_string(&self, text: &str) -> Result<Options> {
        let mut options = self.clone();
        for (name, text) in text::parse_map(text)? {
            options.set_by_name(&name, &text)?;
        }
        Ok(options)
    }

    fn set_by_name(&mut self, name: &str, text: &str) -> Result<()> {
        let own = property_of(self.store.class(), name);
        if let Some(property) = own.filter(|p| !matches!(p.target, Target::Row(..))) {
            let bits = value::to_bits(property.kind, None, text);
            let bad = || Error::invalid_argument(format!("Error parsing {name}: {text}"));
            self.store.set_number(property.place, bits.ok_or_else(bad)?);
            return Ok(());
        }
        if !has_row(name) {
            let text = format!("Could not find option: {name}");
            return Err(Error::invalid_argument(text));
        }
        let mut engine = self.to_engine()?;
        engine.db.skipped_options = self.engine.db.skipped_options.clone();
        engine.set(name, text)?;
        self.take_engine(engine);
        Ok(())
    }
}

/// The options of a database that are texts, by the names of their properties.
fn texts(db: &mut pumice::DbOptions) -> [(&'static str, &mut String); 4] {
    [
        ("db_log_dir", &mut db.db_log_dir),
        ("wal_dir", &mut db.wal_dir),
        ("db_host_id", &mut db.db_host_id),
        ("daily_offpeak_time_utc", &mut db.daily_offpeak_time_utc),
    ]
}

/// `rocksdb_block_based_table_options_t`.
#[derive(Clone, Debug)]
pub struct TableOptions {
    store: Store,
    /// The filter policy and the cache.
    pub engine: BlockBasedTableOptions,
}

impl Default for TableOptions {
    fn default() -> Self {
        let store = Store::named("block_based_table_options");
        TableOptions { store, engine: BlockBasedTableOptions::default() }
    }
}

impl Fields for TableOptions {
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

impl TableOptions {
    /// The engine's options and what has no effect.
    ///
    /// # Errors
    /// The first option that this build refuses, by its name.
    pub fn to_engine(&self) -> Result<(BlockBasedTableOptions, Vec<String>)> {
        let mut engine = self.engine.clone();
        let ignored = overlay(&self.store, &mut engine)?;
        let index = self.store.text("user_defined_index_factory_name");
        if !index.is_empty() {
            engine.set("user_defined_index_factory", &String::from_utf8_lossy(index))?;
        }
        Ok((engine, ignored))
    }

    /// The same from the engine's options.
    pub fn from_engine(engine: &BlockBasedTableOptions) -> TableOptions {
        let mut options = TableOptions { engine: engine.clone(), ..TableOptions::default() };
        read_back(&mut options.store, engine);
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_rocksdb_11() {
        let engine = Options::default().to_engine().expect("defaults are allowed");
        assert_eq!(engine.get("compression").expect("an option"), "kLZ4Compression");
        assert_eq!(engine.cf.table_factory.format_version, 7);
        assert!(engine.db.skipped_options.is_empty());
    }

    #[test]
    fn values_reach_the_engine_and_come_back() {
        let mut options = Options::default();
        options.store_mut().put("write_buffer_size", 1 << 20);
        options.store_mut().put("compaction_pri", 4);
        options.store_mut().put("compression_options_zstd_max_train_bytes", 99);
        options.store_mut().put("max_background_jobs", 0);
        options.store_mut().put("allow_mmap_reads", 1);
        let engine = options.to_engine().expect("allowed");
        assert_eq!(engine.cf.write_buffer_size, 1 << 20);
        assert_eq!(engine.get("compaction_pri").expect("an option"), "kRoundRobin");
        assert_eq!(engine.cf.compression_opts.zstd_max_train_bytes, 99);
        assert_eq!(engine.db.max_background_jobs, 1);
        assert_eq!(engine.get("allow_mmap_reads").expect("an option"), "true");
        let mut again = Options::default();
        again.take_engine(engine);
        assert_eq!(again.store().bits("write_buffer_size"), 1 << 20);
        assert_eq!(again.store().bits("compaction_pri"), 4);
        assert_eq!(again.store().bits("compression_options_zstd_max_train_bytes"), 99);
    }

    #[test]
    fn what_would_change_promises_is_refused_by_name() {
        let (name, mut options) = ("enable_blob_direct_write", Options::default());
        options.store_mut().put(name, 1);
        let error = options.to_engine().expect_err("refused");
        assert!(error.to_string().starts_with("Not implemented: "), "{error}");
        assert!(error.message().contains(name), "{error}");
    }

    #[test]
    fn options_come_from_text() {
        let base = Options::default();
        let text = "write_buffer_size=2097152;open_files_async=1;max_open_files=99";
        let options = base.from_string(text).expect("valid");
        assert_eq!(options.store().bits("write_buffer_size"), 2 << 20);
        assert!(options.store().flag("open_files_async"));
        assert_eq!(options.store().int("max_open_files"), 99);
        assert_eq!(options.store().bits("num_levels"), 7);
        let error = base.from_string("no_such_option=1").expect_err("unknown");
        assert!(error.message().contains("no_such_option"), "{error}");
    }
}
