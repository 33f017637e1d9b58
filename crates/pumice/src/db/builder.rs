//! `DbBuilder`: opens a database in any of its modes.
//!
//! Thread safety: plain data until `open`, which suspends.
//! What it does not do: choose options; a preset of [`Options`] or a [`crate::Budget`] does.

use std::path::PathBuf;

use pumice_base::{Error, ErrorKind, Result, SequenceNumber};

use crate::db::api::Db;
use crate::engine::open::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME};
use crate::options::{
    ColumnFamilyOptions, FileRules, Options, load_latest, parse_options_file_over,
};
use crate::recovery::lock::Mode;

/// A database to be opened, made by [`Db::builder`].
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::Db;
/// # let dir = std::env::temp_dir().join(format!("pumice-builder-{}", std::process::id()));
/// let db = Db::builder(&dir)
///     .create(true)
///     .column_families(["users", "orders"])
///     .set("write_buffer_size", "8MB")
///     .open()?;
/// let users = db.column_family("users").expect("it was opened");
/// db.put_cf(&users, "1", "Ada")?;
/// db.close()?;
///
/// // Later: all column families, with the options that they had.
/// let db = Db::builder(&dir).open_latest()?;
/// assert!(db.column_family("orders").is_some());
/// # db.close()?;
/// # Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is open before `open`"]
pub struct DbBuilder {
    path: PathBuf,
    options: Options,
    /// None for those that have the options of the database.
    families: Vec<(String, Option<ColumnFamilyOptions>)>,
    every_family: bool,
    settings: Vec<(String, String)>,
    read_only: Option<ReadOnly>,
    secondary: Option<PathBuf>,
    /// A change of the options of every column family that is opened.
    adapt: Option<fn(&mut ColumnFamilyOptions)>,
    two_phase: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct ReadOnly {
    error_if_wal_exists: bool,
    until: Option<SequenceNumber>,
}

impl Db {
    /// Begins to describe a database to be opened. Nothing is read or written yet.
    pub fn builder(path: impl Into<PathBuf>) -> DbBuilder {
        DbBuilder {
            path: path.into(),
            options: Options::default(),
            families: Vec::new(),
            every_family: false,
            settings: Vec::new(),
            read_only: None,
            secondary: None,
            adapt: None,
            two_phase: false,
        }
    }
}

impl DbBuilder {
    /// Options of the database, of its default column family, and of others that are named without
    /// options of their own. Replaces what `create` has set before.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Changes those options.
    pub fn configure(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Creates the database and the column families that are named, if they do not exist.
    pub fn create(mut self, create: bool) -> Self {
        self.options.db.create_if_missing = create;
        self.options.db.create_missing_column_families = create;
        self
    }

    /// Sets an option by RocksDB's name, of the database or of all column families; applied last,
    /// after the options of a file too. An option that cannot be set is an error of `open`.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Opens these column families too. For writing, all that the database has must be named; for
    /// reading, only those that are needed.
    pub fn column_families<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.families.extend(names.into_iter().map(|name| (name.into(), None)));
        self
    }

    /// Opens a column family, which may be the default one, with options of its own.
    pub fn column_family(mut self, name: impl Into<String>, options: ColumnFamilyOptions) -> Self {
        self.families.push((name.into(), Some(options)));
        self
    }

    /// Opens all column families that the database has, also those that are not named.
    pub fn all_column_families(mut self) -> Self {
        self.every_family = true;
        self
    }

    /// Opens for reading, see [`Db::open_read_only`].
    pub fn read_only(mut self) -> Self {
        self.read_only.get_or_insert_default();
        self
    }

    /// Opens for reading, and only if everything is in table files.
    pub fn error_if_wal_exists(mut self) -> Self {
        self.read_only.get_or_insert_default().error_if_wal_exists = true;
        self
    }

    /// Opens for reading, as it was at that sequence number: writes that end at or before it are
    /// seen, later ones are not. Only logs have the history for that: a sequence number before the
    /// data in table files is an error. [`Db::latest_sequence_number`] returns the sequence number
    /// that was reached.
    pub fn at_sequence(mut self, sequence: SequenceNumber) -> Self {
        self.read_only.get_or_insert_default().until = Some(sequence);
        self
    }

    /// Opens to follow another process, see [`Db::open_as_secondary`]; the info log goes to
    /// `secondary_path`. Settings of the read-only modes are then ignored.
    pub fn secondary(mut self, secondary_path: impl Into<PathBuf>) -> Self {
        self.secondary = Some(secondary_path.into());
        self
    }

    /// Changes the options of every column family that is opened, after all other settings.
    pub(crate) fn each_column_family(mut self, adapt: fn(&mut ColumnFamilyOptions)) -> Self {
        self.adapt = Some(adapt);
        self
    }

    /// Keeps prepared transactions in the logs, for whoever asks for them.
    pub(crate) fn two_phase(mut self) -> Self {
        self.two_phase = true;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// As [`Db::open`], [`Db::open_read_only`] and [`Db::open_as_secondary`]; those of `set`;
    /// InvalidArgument for a sequence number whose state cannot be shown.
    pub fn open(mut self) -> Result<Db> {
        if self.every_family && self.exists()? {
            for name in Db::list_column_families(&self.options.db, &self.path)? {
                if !self.names(&name) {
                    self.families.push((name, None));
                }
            }
        }
        let mut given = std::mem::take(&mut self.families);
        if given.iter().all(|(name, _)| name != DEFAULT_COLUMN_FAMILY_NAME) {
            given.insert(0, (DEFAULT_COLUMN_FAMILY_NAME.to_string(), None));
        }
        let descriptor = |(name, own): (String, Option<ColumnFamilyOptions>)| {
            ColumnFamilyDescriptor::new(name, own.unwrap_or_else(|| self.options.cf.clone()))
        };
        let families = given.into_iter().map(descriptor).collect();
        self.open_these(families)
    }

    /// Opens the database with the settings in its newest OPTIONS file, and all column families
    /// that are in it. Objects that were given here are kept: comparators, merge operators, prefix
    /// extractors, compaction filters, caches, listeners and their like, those of
    /// [`Self::column_family`] for that one and those of [`Self::options`] for the others. `create`
    /// and `set` apply, other settings that were given do not. If there is no database this is
    /// [`Self::open`].
    ///
    /// # Errors
    /// NotFound if there is no OPTIONS file; InvalidArgument and NotSupported for one that cannot
    /// be used, with the line; as [`Self::open`].
    pub fn open_latest(mut self) -> Result<Db> {
        let create = self.options.db.create_if_missing;
        let create_families = self.options.db.create_missing_column_families;
        if !self.exists()? {
            return self.open();
        }
        let rules = FileRules { for_reading: self.reads_only(), ..FileRules::default() };
        let base = |name: &str| self.own(name).unwrap_or(&self.options.cf).clone();
        let parse = |text: &[u8]| parse_options_file_over(text, rules, &self.options.db, &base);
        let loaded = load_latest(&*self.options.db.file_system, &self.path, &parse)?;
        let loaded = loaded.ok_or_else(|| {
            let text =
                format!("No options files found in the DB directory {}", self.path.display());
            Error::new(ErrorKind::NotFound, text)
        })?;
        let mut families: Vec<_> = loaded.column_families.into_iter().collect();
        for (name, own) in &self.families {
            if families.iter().all(|family| family.name != *name) {
                let options = own.as_ref().unwrap_or(&self.options.cf).clone();
                families.push(crate::options::ColumnFamilyEntry { name: name.clone(), options });
            }
        }
        self.options.db = loaded.db;
        self.options.db.create_if_missing = create;
        self.options.db.create_missing_column_families = create_families;
        self.options.db.error_if_exists = false;
        let descriptor = |entry: crate::options::ColumnFamilyEntry| {
            ColumnFamilyDescriptor::new(entry.name, entry.options)
        };
        self.open_these(families.into_iter().map(descriptor).collect())
    }

    fn open_these(mut self, mut families: Vec<ColumnFamilyDescriptor>) -> Result<Db> {
        for (name, value) in &self.settings {
            if self.options.db.get(name.split('.').next().unwrap_or(name)).is_ok() {
                self.options.db.set(name, value)?;
                continue;
            }
            families.iter_mut().try_for_each(|family| family.options.set(name, value))?;
        }
        if let Some(adapt) = self.adapt {
            families.iter_mut().for_each(|family| adapt(&mut family.options));
        }
        let mode = match (&self.secondary, self.read_only) {
            (Some(path), _) => Mode::Secondary { path },
            (None, None) if self.two_phase => Mode::TwoPhase,
            (None, None) => Mode::ReadWrite,
            (None, Some(ReadOnly { error_if_wal_exists, until })) => {
                Mode::ReadOnly { error_if_wal_exists, until }
            }
        };
        Ok(Db::open_with(&self.options.db, &self.path, &families, mode)?.0)
    }

    fn reads_only(&self) -> bool {
        self.read_only.is_some() || self.secondary.is_some()
    }

    fn exists(&self) -> Result<bool> {
        let current = pumice_env::filename::current_file(&self.path);
        self.options.db.file_system.exists(&current)
    }

    fn names(&self, name: &str) -> bool {
        self.families.iter().any(|(given, _)| given == name)
    }

    fn own(&self, name: &str) -> Option<&ColumnFamilyOptions> {
        self.families.iter().find(|(given, _)| given == name)?.1.as_ref()
    }
}
