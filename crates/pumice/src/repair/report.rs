//! What a repair found and did, for programs and, through `Display`, for people.
//!
//! Thread safety: plain data.

use std::fmt;

/// What kind of repair a database needed.
///
/// Example: that of [`RepairReport`](crate::RepairReport).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairOutcome {
    /// None: everything could be read, and nothing was changed.
    Healthy,
    /// CURRENT was lost and now names the newest MANIFEST again. Nothing else was changed.
    CurrentRestored,
    /// The state in the MANIFEST was kept; damaged files were replaced with their readable parts.
    Repaired,
    /// The MANIFEST could not be used: the database was rebuilt from its tables and logs.
    Rebuilt,
}

/// The fate of a file.
///
/// Example: that of [`RepairReport`](crate::RepairReport).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFate {
    /// The file is part of the database as it was.
    Kept,
    /// The entries are in new tables, the file is in `lost`.
    Rewritten,
    /// It held nothing that belongs to the database; it is in `lost`.
    NotUsed,
    /// It could not be used, or is missing. The rest of it is in `lost`.
    Lost,
}

/// A file of the database and its fate.
///
/// Example: that of [`RepairReport`](crate::RepairReport).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairedFile {
    /// The file's name in the directory.
    pub name: String,
    /// The file's column family; empty for logs and if unknown.
    pub column_family: String,
    /// What became of it.
    pub fate: FileFate,
    /// Entries that could be read, deletions of keys and of ranges included.
    pub entries: u64,
    /// Entries that could not be read, `None` if their number is unknown.
    pub entries_lost: Option<u64>,
    /// Why it was not kept; empty if it was.
    pub reason: String,
}

/// What a repair found and did; see [`crate::repair()`].
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-report-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{FileFate, RepairOutcome, RepairReport, RepairedFile};
/// db.put("a", "1")?;
/// db.close()?;
/// # drop(db);
/// let report: RepairReport = pumice::repair(&Default::default(), &dir)?;
/// assert_eq!(report.outcome, RepairOutcome::Healthy);
/// let lost = |file: &&RepairedFile| file.fate == FileFate::Lost;
/// assert_eq!(report.files.iter().filter(lost).count(), 0);
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// What kind of repair it was.
    pub outcome: RepairOutcome,
    /// The column families of the database, by id.
    pub column_families: Vec<String>,
    /// Tables and logs, in the order of their numbers.
    pub files: Vec<RepairedFile>,
    /// Tables that the database consists of now.
    pub tables: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Values that were overwritten or deleted may reappear, because the newer entries are lost
    /// or because it is unknown which tables were obsolete.
    pub old_data_may_return: bool,
    /// Further notes for people, one sentence each.
    pub notes: Vec<String>,
}

impl RepairReport {
    pub(super) fn new() -> Self {
        RepairReport {
            outcome: RepairOutcome::Healthy,
            column_families: Vec::new(),
            files: Vec::new(),
            tables: 0,
            table_bytes: 0,
            old_data_may_return: false,
            notes: Vec::new(),
        }
    }

    /// Whether nothing is known or suspected to be missing.
    pub fn is_complete(&self) -> bool {
        let whole = |file: &RepairedFile| {
            file.fate == FileFate::NotUsed
                || file.fate != FileFate::Lost && file.entries_lost == Some(0)
        };
        !self.old_data_may_return && self.files.iter().all(whole)
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

impl fmt::Display for RepairOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RepairOutcome::Healthy => "healthy: nothing was changed",
            RepairOutcome::CurrentRestored => "CURRENT was restored, nothing else was changed",
            RepairOutcome::Repaired => "repaired: the state in the MANIFEST was kept",
            RepairOutcome::Rebuilt => "rebuilt from tables and logs",
        })
    }
}

impl fmt::Display for RepairedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = match self.fate {
            FileFate::Kept => "kept",
            FileFate::Rewritten => "rewritten",
            FileFate::NotUsed => "not used",
            FileFate::Lost => "lost",
        };
        write!(f, "{}: {fate}, {} entries", self.name, self.entries)?;
        match self.entries_lost {
            Some(0) => {}
            Some(lost) => write!(f, ", {lost} lost")?,
            None => write!(f, ", number lost unknown")?,
        }
        if !self.column_family.is_empty() {
            write!(f, ", column family {}", self.column_family)?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        Ok(())
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.outcome)?;
        writeln!(f, "column families: {}", self.column_families.join(", "))?;
        writeln!(f, "tables: {}, {} bytes", self.tables, self.table_bytes)?;
        for file in self.files.iter().filter(|file| file.fate != FileFate::Kept) {
            writeln!(f, "{file}")?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        if self.old_data_may_return {
            writeln!(f, "values that were overwritten or deleted may reappear")?;
        }
        match self.is_complete() {
            true => writeln!(f, "nothing is known to be lost"),
            false => writeln!(f, "some data may have been lost"),
        }
    }
}
