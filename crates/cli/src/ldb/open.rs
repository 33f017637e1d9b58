//! Opens the database with all its column families and the options of its newest OPTIONS file,
//! which the command line's flags override.

use super::manifest::{ManifestState, current_manifest};
use super::opened::{Handle, Opened, Opening};
use super::{Failure, Invocation};
use crate::arguments::Arguments;
use crate::db_bench::codec;
use pumice::options::{
    FileRules, LoadedOptions, PrepopulateBlobCache, TableFactory, load_latest_options,
};
use pumice::{ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, DbWithTtl};
use pumice_base::ErrorKind;
use pumice_env::PosixFs;
use pumice_env::filename::TableDirs;
use pumice_table::footer::{FOOTER_LEN, Footer, factory_name};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Options of a database at `path`: of the database, and of each column family.
pub struct Found {
    /// Options of the database.
    pub db: DbOptions,
    /// The database's column families with their options; only the default one if there is no
    /// database.
    pub families: Vec<ColumnFamilyDescriptor>,
}

/// Options to repair a database with.
pub struct RepairOptions {
    /// Options of the database.
    pub db: DbOptions,
    /// Column families of the OPTIONS file.
    pub families: Vec<ColumnFamilyDescriptor>,
    /// Options of others.
    pub unknown: ColumnFamilyOptions,
}

/// What a command does with the database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only looks.
    Read,
    /// The command may write files.
    Write,
}

/// How a database follows what another process writes.
#[derive(Clone, Copy)]
pub enum Follows<'a> {
    /// As a secondary instance, with its info log in this directory.
    Secondary(&'a Path),
    /// As a follower of the database at this path.
    Follower(&'a Path),
}

impl Follows<'_> {
    /// Why there are no secondary instances of databases with `--ttl`: in the words of 7.8.
    pub const TTL_SECONDARY: &'static str = "Open as secondary is not supported for TTL DB yet.";
    /// Why there are no followers.
    pub const TTL_FOLLOWER: &'static str =
        "Open as secondary or follower is not supported for TTL DB yet.";

    fn open<H: Handle>(self, found: &Found, path: &Path) -> Opening<H> {
        match self {
            Follows::Secondary(beside) => H::open_as_secondary(found, path, beside),
            Follows::Follower(leader) => H::open_as_follower(found, path, leader),
        }
    }
}

impl Invocation {
    /// Opens for reading.
    pub fn open_read_only<H: Handle>(&self) -> Result<Opened<H>, Failure> {
        let follows = self.follows::<H>()?;
        let found = self.options(Access::Read)?;
        let opened = match follows {
            Some(follows) => follows.open(&found, &self.db),
            None => H::open_read_only(&found, &self.db),
        };
        self.pick(opened.map_err(text)?, &found)
    }

    /// How another process is to be followed, if it is.
    fn follows<H: Handle>(&self) -> Result<Option<Follows<'_>>, Failure> {
        let paths = (self.arguments.path("secondary_path"), self.arguments.path("leader_path"));
        match paths {
            (None, None) => Ok(None),
            (Some(_), _) if !H::CAN_FOLLOW => Err(Follows::TTL_SECONDARY.into()),
            (_, Some(_)) if !H::CAN_FOLLOW => Err(Follows::TTL_FOLLOWER.into()),
            (Some(_), Some(_)) => Err("Cannot provide both secondary and leader paths".into()),
            (Some(beside), None) => Ok(Some(Follows::Secondary(beside))),
            (None, Some(leader)) => Ok(Some(Follows::Follower(leader))),
        }
    }

    /// The directory of the database's MANIFEST and OPTIONS: that of the leader of a follower.
    pub fn source(&self) -> &Path {
        self.arguments.path("leader_path").unwrap_or(&self.db)
    }

    /// It is no follower.
    pub fn leads_itself(&self) -> bool {
        !self.arguments.has("leader_path")
    }

    /// Opens for writing; creates the database if `--create_if_missing` was given.
    pub fn open<H: Handle>(&self) -> Result<Opened<H>, Failure> {
        let access = if self.follows::<H>()?.is_some() { Access::Read } else { Access::Write };
        self.open_found(&self.options(access)?)
    }

    /// Refuses a missing database, unless it may be created, with the text of a command that only
    /// reads: some commands that write have that text in RocksDB's ldb.
    pub fn check_present(&self) -> Result<(), Failure> {
        if self.arguments.flag("create_if_missing") {
            return Ok(());
        }
        current_manifest(&*PosixFs::shared(), self.source()).map(drop).map_err(text)
    }

    /// Opens for writing with options that were found before. A database that follows another one
    /// refuses writes itself.
    pub fn open_found<H: Handle>(&self, found: &Found) -> Result<Opened<H>, Failure> {
        let opened = match self.follows::<H>()? {
            Some(follows) => follows.open(found, &self.db),
            None => H::open(found, &self.db),
        };
        self.pick(opened.map_err(text)?, found)
    }

    fn pick<H: Handle>(
        &self,
        (store, handles): (H, Vec<ColumnFamily>),
        found: &Found,
    ) -> Result<Opened<H>, Failure> {
        let at = found.families.iter().position(|family| family.name == self.family);
        match at.and_then(|at| handles.into_iter().nth(at)) {
            Some(cf) => {
                let order = found.families[at.unwrap_or(0)].options.comparator.clone();
                Ok(Opened { db: store.db().clone(), store, cf, order })
            }
            None => Err(format!("Non-existing column family {}", self.family)),
        }
    }

    /// Finds the options to open with. A warning on stderr lists those that were skipped.
    pub fn options(&self, access: Access) -> Result<Found, Failure> {
        let mut found = Found { db: DbOptions::default(), families: Vec::new() };
        let mut family_options = Vec::new();
        let try_load = self.arguments.switch("try_load_options").unwrap_or(true);
        if try_load && let Some(loaded) = self.load_latest(access)? {
            print_skipped(&loaded);
            found.db = loaded.db;
            family_options = loaded.column_families;
        }
        if access == Access::Write {
            self.refuse_foreign_tables(&|name| {
                let entry = family_options.iter().find(|entry| entry.name == name)?;
                let format = &entry.options.table_factory.format;
                (!format.is_block_based()).then(|| format.name())
            })?;
        }
        found.db.file_system = Arc::clone(&self.fs);
        found.db.create_if_missing = self.arguments.flag("create_if_missing");
        let names = match Db::list_column_families(&found.db, self.source()) {
            Ok(names) => names,
            // No database, or none yet: the open reports that, or creates it.
            Err(_) => vec!["default".to_string()],
        };
        if self.arguments.flag("ttl") && names.len() > 1 {
            return Err("ldb doesn't support TTL DB with multiple column families".into());
        }
        for name in names {
            // No operator is invented: merging with another one than the owner's destroys values.
            let saved = family_options.iter().find(|entry| entry.name == name);
            let mut options =
                saved.map_or_else(ColumnFamilyOptions::default, |entry| entry.options.clone());
            self.apply_flags(&mut found.db, &mut options)?;
            found.families.push(ColumnFamilyDescriptor::new(name, options));
        }
        Ok(found)
    }

    /// The options to repair with: the column families need not be listable.
    pub fn repair_options(&self) -> Result<RepairOptions, Failure> {
        let mut found = RepairOptions {
            db: DbOptions::default(),
            families: Vec::new(),
            unknown: ColumnFamilyOptions::default(),
        };
        let try_load = self.arguments.switch("try_load_options").unwrap_or(true);
        if try_load && let Some(loaded) = self.load_latest(Access::Write)? {
            print_skipped(&loaded);
            found.db = loaded.db;
            for mut family in loaded.column_families {
                self.apply_flags(&mut found.db, &mut family.options)?;
                found.families.push(ColumnFamilyDescriptor::new(family.name, family.options));
            }
        }
        self.refuse_foreign_tables(&|name| {
            let family = found.families.iter().find(|family| family.name == name);
            // Block-based tables of versions that are not supported are left to the repair.
            let blocks = TableFactory::BlockBased.name();
            Some(family.map_or(blocks, |family| family.options.table_factory.format.name()))
        })?;
        found.db.file_system = Arc::clone(&self.fs);
        self.apply_flags(&mut found.db, &mut found.unknown)?;
        Ok(found)
    }

    /// Refuses to write next to tables that are not block-based, unless they have the format that
    /// `format_of` gives their family: their owner could not open what is written here. The engine
    /// reports damaged and missing tables.
    fn refuse_foreign_tables(
        &self,
        format_of: &dyn Fn(&str) -> Option<&'static str>,
    ) -> Result<(), Failure> {
        let fs = PosixFs::shared();
        let manifest = current_manifest(&*fs, &self.db);
        let Ok(state) = manifest.and_then(|path| ManifestState::read(&*fs, &path, false)) else {
            return Ok(());
        };
        for (name, file) in state.files_by_family() {
            let path = TableDirs::of(&self.db).table(TableDirs::OWN, file.number);
            let offset = file.file_size.saturating_sub(FOOTER_LEN as u64);
            let mut bytes = [0; FOOTER_LEN];
            let read = fs.open_random(&path).and_then(|file| file.read_at(offset, &mut bytes));
            let Ok(read) = read else { continue };
            let bytes = &bytes[..read];
            let format = factory_name(bytes);
            if format.is_some() && format == format_of(name) {
                continue;
            }
            match Footer::decode(bytes, offset, &path.display().to_string()) {
                Err(error) if error.kind() == ErrorKind::NotSupported => return Err(text(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The newest OPTIONS file, if there is one.
    fn load_latest(&self, access: Access) -> Result<Option<LoadedOptions>, Failure> {
        let (fs, source) = (PosixFs::shared(), self.source());
        if !fs.exists(source).map_err(text)? {
            return Ok(None);
        }
        let rules = FileRules {
            ignore_unknown_options: self.arguments.flag("ignore_unknown_options"),
            // A command that writes opens what the engine would open: what it skipped would decide
            // how files are written, and be lost from the next OPTIONS file.
            ignore_unsupported_options: access == Access::Read,
            for_reading: access == Access::Read,
        };
        let loaded = match self.arguments.flag("ttl") {
            true => DbWithTtl::load_latest_options(&*fs, source, rules),
            false => load_latest_options(&*fs, source, rules),
        };
        let loaded = loaded.map_err(text)?;
        let comparator = |loaded: &LoadedOptions| {
            loaded.ignored.iter().find(|note| note.starts_with("comparator=")).cloned()
        };
        match loaded.as_ref().and_then(comparator) {
            Some(comparator) => Err(format!("Not implemented: {comparator} is not built in")),
            None => Ok(loaded),
        }
    }

    /// Files of a level may overlap, for commands that only read.
    pub fn may_overlap(&self) -> bool {
        self.arguments.flag("disable_consistency_checks")
    }

    fn apply_flags(
        &self,
        db: &mut DbOptions,
        options: &mut ColumnFamilyOptions,
    ) -> Result<(), Failure> {
        let arguments = &self.arguments;
        let number = |flag: &str, least: i32| number_of(arguments, flag, least);
        for (flag, name) in
            [("write_buffer_size", "write_buffer_size"), ("file_size", "target_file_size_base")]
        {
            if let Some(value) = number(flag, 1)? {
                options.set(name, &value.to_string()).map_err(text)?;
            }
        }
        if let Some(bytes) = number("db_write_buffer_size", 0)? {
            db.set("db_write_buffer_size", &bytes.to_string()).map_err(text)?;
        }
        if let Some(bits) = number("bloom_bits", 1)? {
            let policy = format!("bloomfilter:{bits}:false");
            options.table_factory.set("filter_policy", &policy).map_err(text)?;
        }
        if let Some(bytes) = number("block_size", 1)? {
            options.table_factory.set("block_size", &bytes.to_string()).map_err(text)?;
        }
        if let Some(len) = number("fix_prefix_len", 1)? {
            options.set("prefix_extractor", &format!("fixed:{len}")).map_err(text)?;
        }
        if let Some(codec) = codec_of(arguments, "compression_type")? {
            options.set("compression", codec).map_err(text)?;
        }
        if let Some(bytes) = number("compression_max_dict_bytes", 0)? {
            options.set("compression_opts.max_dict_bytes", &bytes.to_string()).map_err(text)?;
        }
        if let Some(on) = arguments.switch("auto_compaction") {
            options.set("disable_auto_compactions", &(!on).to_string()).map_err(text)?;
        }
        self.apply_blob_flags(options)?;
        if self.may_overlap() {
            options.force_consistency_checks = false;
        }
        Ok(())
    }

    fn apply_blob_flags(&self, options: &mut ColumnFamilyOptions) -> Result<(), Failure> {
        let arguments = &self.arguments;
        for name in ["enable_blob_files", "enable_blob_garbage_collection"] {
            if let Some(on) = arguments.switch(name) {
                options.set(name, &on.to_string()).map_err(text)?;
            }
        }
        let numbers = [
            ("min_blob_size", 0),
            ("blob_file_size", 1),
            ("blob_compaction_readahead_size", 1),
            ("blob_file_starting_level", 0),
        ];
        for (name, least) in numbers {
            if let Some(number) = number_of(arguments, name, least)? {
                options.set(name, &number.to_string()).map_err(text)?;
            }
        }
        if let Some(codec) = codec_of(arguments, "blob_compression_type")? {
            options.set("blob_compression_type", codec).map_err(text)?;
        }
        let shares =
            ["blob_garbage_collection_age_cutoff", "blob_garbage_collection_force_threshold"];
        for name in shares {
            if let Some(share) = arguments.number::<f64>(name)? {
                if !(0.0..=1.0).contains(&share) {
                    return Err(format!("{name} must be >= 0 and <= 1."));
                }
                options.set(name, &share.to_string()).map_err(text)?;
            }
        }
        match number_of(arguments, "prepopulate_blob_cache", 0)? {
            None => {}
            Some(0) => options.prepopulate_blob_cache = PrepopulateBlobCache::Disable,
            Some(1) => options.prepopulate_blob_cache = PrepopulateBlobCache::FlushOnly,
            Some(_) => {
                return Err("prepopulate_blob_cache must be 0 (disable) or 1 (flush only).".into());
            }
        }
        Ok(())
    }
}

/// The codec that option `flag` names.
fn codec_of<'a>(arguments: &'a Arguments, flag: &str) -> Result<Option<&'a str>, Failure> {
    if !arguments.has(flag) {
        return Ok(None);
    }
    let name = arguments.text(flag)?.unwrap_or_default();
    let name = if name == "no" { "none" } else { name };
    codec(name).map(Some).map_err(|_| format!("Unknown compression algorithm: {name}"))
}

/// The number that option `flag` has, which must be an `int` of C and at least `least`, 0 or 1;
/// with RocksDB's complaints.
fn number_of(arguments: &Arguments, flag: &str, least: i32) -> Result<Option<i32>, Failure> {
    match arguments.int(flag, ".")? {
        None if arguments.has(flag) => Err(format!("{flag} has an invalid value")),
        Some(number) if number < least => {
            Err(format!("{flag} must be {} 0.", if least == 0 { ">=" } else { ">" }))
        }
        number => Ok(number),
    }
}

/// Warns of the options that reading the OPTIONS file skipped, by name.
fn print_skipped(loaded: &LoadedOptions) {
    let name = |note: &String| note.split('=').next().unwrap_or_default().to_string();
    let names: BTreeSet<String> = loaded.ignored.iter().map(name).collect();
    if !names.is_empty() {
        let names: Vec<String> = names.into_iter().collect();
        let version = &loaded.rocksdb_version;
        eprintln!("WARNING: options of RocksDB {version} are skipped: {}", names.join(", "));
    }
}

/// An engine's error as the tool prints it.
pub fn text(error: pumice::Error) -> Failure {
    error.to_string()
}
