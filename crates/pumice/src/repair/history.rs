//! The readable part of a damaged MANIFEST: column families, obsolete tables, the last sequence and
//! file numbers.
//!
//! Records that cannot be read are skipped, so this is never complete: it only adds what the tables
//! themselves cannot show. Thread safety: plain data. Suspends on I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pumice_base::{Error, FileNumber, SequenceNumber};
use pumice_env::{FileSystem, filename};
use pumice_manifest::{FileMetaData, VersionEdit};
use pumice_wal::{LogReader, LogReaderOptions, WalRecoveryMode};

/// A column family that a MANIFEST names.
#[derive(Clone, Default)]
pub(super) struct KnownFamily {
    pub name: String,
    pub comparator: Option<String>,
    /// Its tables lack the timestamps of that order's keys.
    pub stripped: bool,
    /// The lows of its history, of which the highest counts: the order decides.
    pub lows: BTreeSet<Vec<u8>>,
    pub log_number: FileNumber,
}

/// See the module head.
#[derive(Default)]
pub(super) struct History {
    pub families: BTreeMap<u32, KnownFamily>,
    pub dropped: BTreeSet<u32>,
    /// Tables that were part of the database at the end of the readable part, with the column
    /// family.
    pub live: BTreeMap<FileNumber, (u32, Arc<FileMetaData>)>,
    /// Tables that were no longer part of it.
    pub obsolete: BTreeSet<FileNumber>,
    pub last_sequence: SequenceNumber,
    pub next_file: FileNumber,
    pub max_family: u32,
    pub db_id: Option<String>,
    group: Vec<VersionEdit>,
}

impl History {
    /// Reads the MANIFESTs, oldest first; newer ones take precedence.
    pub fn of(fs: &dyn FileSystem, dir: &Path, manifests: &[FileNumber]) -> Self {
        let mut all = History::default();
        for number in manifests {
            let one = History::read(fs, &filename::manifest_file(dir, *number));
            all.obsolete.extend(one.obsolete);
            all.dropped.extend(one.dropped);
            all.last_sequence = all.last_sequence.max(one.last_sequence);
            all.next_file = all.next_file.max(one.next_file);
            all.max_family = all.max_family.max(one.max_family);
            all.db_id = one.db_id.or(all.db_id);
            if !one.families.is_empty() {
                all.families = one.families;
                all.live = one.live;
            }
        }
        all.obsolete.retain(|number| !all.live.contains_key(number));
        all.dropped.retain(|id| !all.families.contains_key(id));
        all
    }

    fn read(fs: &dyn FileSystem, path: &Path) -> Self {
        let mut history = History::default();
        let Ok(file) = fs.open_sequential(path) else { return history };
        let recovery_mode = WalRecoveryMode::SkipAnyCorrupted;
        let options = LogReaderOptions { recovery_mode, ..LogReaderOptions::manifest() };
        let mut reader = LogReader::new(file, options, None);
        let mut record = Vec::new();
        while let Ok(Some(_)) = reader.read_record(&mut record) {
            match VersionEdit::decode(&record) {
                Ok(edit) => history.take(edit),
                Err(_) => history.group.clear(),
            }
        }
        history
    }

    /// A group takes effect when it is complete.
    fn take(&mut self, edit: VersionEdit) {
        let Some(remaining) = edit.atomic_group_remaining else {
            self.group.clear();
            return self.apply(edit);
        };
        let follows = self
            .group
            .last()
            .is_none_or(|last| last.atomic_group_remaining == remaining.checked_add(1));
        if !follows {
            self.group.clear();
        }
        self.group.push(edit);
        if remaining == 0 {
            for member in std::mem::take(&mut self.group) {
                self.apply(member);
            }
        }
    }

    fn apply(&mut self, edit: VersionEdit) {
        let id = edit.column_family;
        self.last_sequence = self.last_sequence.max(edit.last_sequence.unwrap_or(0));
        self.next_file = self.next_file.max(edit.next_file_number.unwrap_or(0));
        self.max_family = self.max_family.max(edit.max_column_family.unwrap_or(0)).max(id);
        self.db_id = edit.db_id.or(self.db_id.take());
        if edit.drop_column_family {
            self.families.remove(&id);
            self.dropped.insert(id);
            return;
        }
        let default = crate::engine::open::DEFAULT_COLUMN_FAMILY_NAME;
        let name = edit.add_column_family.or_else(|| (id == 0).then(|| default.to_string()));
        if let Some(name) = name {
            let fresh = KnownFamily { name, ..KnownFamily::default() };
            self.families.entry(id).or_insert(fresh);
        }
        if let Some(family) = self.families.get_mut(&id) {
            if edit.comparator.is_some() {
                family.comparator = edit.comparator;
                family.stripped = edit.persist_user_defined_timestamps == Some(false);
            }
            family.lows.extend(edit.full_history_ts_low);
            family.log_number = family.log_number.max(edit.log_number.unwrap_or(0));
        }
        for (_, number) in edit.deleted_files {
            self.live.remove(&number);
            self.obsolete.insert(number);
        }
        for (_, file) in edit.new_files {
            self.obsolete.remove(&file.number);
            self.live.insert(file.number, (id, file));
        }
    }
}

/// Whether reading a MANIFEST failed because of the options, not because of its bytes.
pub(super) fn is_refusal(error: &Error) -> bool {
    use pumice_base::ErrorKind::{InvalidArgument, NotSupported};
    matches!(error.kind(), InvalidArgument | NotSupported)
}
