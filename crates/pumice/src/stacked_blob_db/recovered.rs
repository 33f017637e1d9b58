//! What an open finds: the files of `blob_dir`, and records of the log whose blobs a power cut has
//! taken.
//!
//! A write that was not synced may be in the log, and its blob not in its file. The log is then
//! valid up to that record, as if it were torn there.
//!
//! Thread safety: one open has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::{FileNumber, Result, ValueType};
use pumice_env::FileSystem;
use pumice_env::filename::{FileType, parse};
use pumice_table::blob::index::StackedIndex;

use super::file::{BlobFile, Found};
use super::files::Files;
use crate::commit::batch::{BatchRecord, WriteBatch};
use crate::options::{WalFilter, WalProcessing, WalRecoveryMode};
use crate::recovery::version_recovery::check_found;

/// The files of earlier opens.
#[derive(Default)]
pub(super) struct Recovered {
    pub files: Vec<BlobFile>,
    /// Files without records.
    pub leftovers: Vec<PathBuf>,
    /// Above all numbers; 0 without files.
    pub next_number: FileNumber,
}

/// Looks at the files in `dir`, and makes durable what a crash has left of them.
///
/// # Errors
/// Corruption of a header, or of a name whose number leaves no room for later ones; I/O.
pub(super) fn recover(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for name in fs.list(dir)? {
        let Some((number, FileType::Blob)) = parse(&name) else { continue };
        let number = check_found(number, &dir.join(&name))?;
        recovered.next_number = recovered.next_number.max(number + 1);
        match BlobFile::open(fs, dir, number)? {
            Found::Leftover(path) => recovered.leftovers.push(path),
            Found::File(file) => {
                if !file.whole {
                    file.sync()?;
                }
                recovered.files.push(file);
            }
        }
    }
    Ok(recovered)
}

/// Ends a replay at the first record whose blob is not there. See the module head.
pub(super) struct LostBlobs {
    pub files: Arc<Files>,
    pub mode: WalRecoveryMode,
    /// The user's filter, which sees the other records.
    pub user: Option<Arc<dyn WalFilter>>,
}

impl LostBlobs {
    fn is_lost(&self, record: &[u8]) -> bool {
        if self.files.were_whole() {
            return false;
        }
        let Ok(batch) = WriteBatch::from_log(record.to_vec()) else { return false };
        batch.iter().any(|record| match record {
            Ok(BatchRecord::Entry {
                column_family: 0,
                value_type: ValueType::BlobIndex,
                key,
                value,
            }) => {
                let Ok(StackedIndex::Blob(place, _)) = StackedIndex::decode(value) else {
                    return false;
                };
                let shown = self.files.shown();
                let file = shown.get(&place.file).filter(|file| !file.whole);
                file.is_some_and(|file| file.lacks(key, &place))
            }
            _ => false,
        })
    }
}

impl WalFilter for LostBlobs {
    fn name(&self) -> &str {
        "lost blobs"
    }
    fn column_family_log_number_map(
        &self,
        log_numbers: &BTreeMap<u32, u64>,
        ids: &BTreeMap<String, u32>,
    ) {
        if let Some(user) = &self.user {
            user.column_family_log_number_map(log_numbers, ids);
        }
    }
    fn log_record_found(&self, log_number: u64, log_file: &Path, record: &[u8]) -> WalProcessing {
        if self.is_lost(record) {
            let (processing, what) = match self.mode {
                WalRecoveryMode::AbsoluteConsistency => return WalProcessing::CorruptedRecord,
                WalRecoveryMode::SkipAnyCorrupted => {
                    (WalProcessing::IgnoreCurrentRecord, "left out")
                }
                WalRecoveryMode::PointInTime | WalRecoveryMode::TolerateCorruptedTail => {
                    (WalProcessing::StopReplay, "ended at")
                }
            };
            let log = log_file.display();
            self.files.lost.get_or_init(|| {
                format!("{log}: the replay has {what} a record whose blob is not there")
            });
            return processing;
        }
        match &self.user {
            Some(user) => user.log_record_found(log_number, log_file, record),
            None => WalProcessing::ContinueProcessing,
        }
    }
}
