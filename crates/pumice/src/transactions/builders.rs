//! Databases with transactions that are to be opened.
//!
//! Thread safety: plain data until `open`, which suspends. What they do not do: choose options.

use std::path::PathBuf;

use pumice_base::Result;

use crate::db::api::Db;
use crate::db::builder::DbBuilder;
use crate::options::{ColumnFamilyOptions, Options};
use crate::transactions::optimistic::OptimisticTransactionDb;
use crate::transactions::options::{OptimisticTransactionDbOptions, TransactionDbOptions};
use crate::transactions::pessimistic::TransactionDb;

/// Gives a family the memory of what was written lately that checks of conflicts need.
pub(super) fn with_history(options: &mut ColumnFamilyOptions) {
    if options.max_write_buffer_size_to_maintain == 0 {
        options.max_write_buffer_size_to_maintain = -1;
    }
}

/// Writes the methods of a builder that a [`DbBuilder`] has too.
macro_rules! builder_forms {
    ($options:ty) => {
        pub(super) fn new(path: PathBuf) -> Self {
            Self { db: Db::builder(path), options: <$options>::default() }
        }
        /// See [`DbBuilder::create`].
        pub fn create(mut self, create: bool) -> Self {
            self.db = self.db.create(create);
            self
        }
        /// See [`DbBuilder::set`].
        pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.db = self.db.set(name, value);
            self
        }
        /// See [`DbBuilder::options`].
        pub fn options(mut self, options: Options) -> Self {
            self.db = self.db.options(options);
            self
        }
        /// Every other setting of the database, such as its column families.
        pub fn configure(mut self, change: impl FnOnce(DbBuilder) -> DbBuilder) -> Self {
            self.db = change(self.db);
            self
        }
    };
}

/// A database with transactions that is to be opened, see [`TransactionDb::builder`].
///
/// Example: that of [`TransactionOptions`](crate::TransactionOptions).
#[derive(Clone, Debug)]
#[must_use = "nothing is open before `open`"]
pub struct TransactionDbBuilder {
    db: DbBuilder,
    options: TransactionDbOptions,
}

impl TransactionDbBuilder {
    builder_forms!(TransactionDbOptions);

    /// Options of transactions and locks.
    pub fn transactions(mut self, options: TransactionDbOptions) -> Self {
        self.options = options;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// As [`DbBuilder::open`].
    pub fn open(self) -> Result<TransactionDb> {
        let db = self.db.each_column_family(with_history).two_phase().open()?;
        TransactionDb::over(db, self.options)
    }

    /// Opens the database with the settings that it had, see [`DbBuilder::open_latest`].
    ///
    /// # Errors
    /// As there.
    pub fn open_latest(self) -> Result<TransactionDb> {
        let db = self.db.each_column_family(with_history).two_phase().open_latest()?;
        TransactionDb::over(db, self.options)
    }
}

/// A database with optimistic transactions that is to be opened, see
/// [`OptimisticTransactionDb::builder`].
///
/// Example: that of [`OptimisticTransactionOptions`](crate::OptimisticTransactionOptions).
#[derive(Clone, Debug)]
#[must_use = "nothing is open before `open`"]
pub struct OptimisticTransactionDbBuilder {
    db: DbBuilder,
    options: OptimisticTransactionDbOptions,
}

impl OptimisticTransactionDbBuilder {
    builder_forms!(OptimisticTransactionDbOptions);

    /// Options of the commits.
    pub fn transactions(mut self, options: OptimisticTransactionDbOptions) -> Self {
        self.options = options;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// As [`DbBuilder::open`].
    pub fn open(self) -> Result<OptimisticTransactionDb> {
        let db = self.db.each_column_family(with_history).open()?;
        Ok(OptimisticTransactionDb::over(db, &self.options))
    }

    /// Opens the database with the settings that it had, see [`DbBuilder::open_latest`].
    ///
    /// # Errors
    /// As there.
    pub fn open_latest(self) -> Result<OptimisticTransactionDb> {
        let db = self.db.each_column_family(with_history).open_latest()?;
        Ok(OptimisticTransactionDb::over(db, &self.options))
    }
}
