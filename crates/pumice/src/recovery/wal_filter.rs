//! The user's filter of the logs, asked for each record of a replay.
//!
//! Thread safety: one replay has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::{Error, FileNumber, Result};

use crate::commit::batch;
use crate::options::DbOptions;
use crate::options::wal_filter::{WalFilter, WalProcessing};

/// Bytes of a batch in front of its count.
const SEQUENCE_BYTES: usize = 8;

/// What the filter makes of a record.
pub(crate) enum Filtered {
    Keep,
    /// With the sequence number of the record.
    Replace(Vec<u8>),
    Skip,
    /// What that means depends on the recovery mode.
    Damaged(Error),
}

/// See the module head.
#[derive(Default)]
pub(crate) struct Filtering {
    filter: Option<Arc<dyn WalFilter>>,
    paranoid: bool,
    path: PathBuf,
    /// Nothing more is applied.
    stopped: bool,
    /// The logs have what the database is not to have.
    pub changed: bool,
}

impl Filtering {
    /// The filter of `options`, which is told of the column families: ids with log numbers and
    /// names.
    pub fn begin<'n>(
        options: &DbOptions,
        families: impl Iterator<Item = (u32, FileNumber, &'n str)>,
    ) -> Self {
        let filter = options.wal_filter.clone();
        if let Some(filter) = &filter {
            let (mut log_numbers, mut ids) = (BTreeMap::new(), BTreeMap::new());
            for (id, log_number, name) in families {
                log_numbers.insert(id, log_number);
                ids.insert(name.to_string(), id);
            }
            filter.column_family_log_number_map(&log_numbers, &ids);
        }
        Filtering { filter, paranoid: options.paranoid_checks, ..Self::default() }
    }

    /// The records of that log come next.
    pub fn log_begins(&mut self, path: &Path) {
        if self.filter.is_some() {
            self.path = path.to_path_buf();
        }
    }

    /// What becomes of a record.
    ///
    /// # Errors
    /// Corruption if the filter gives bytes that are no batch; NotSupported for a batch with more
    /// updates than the record has.
    pub fn of(&mut self, log: FileNumber, record: &[u8]) -> Result<Filtered> {
        let Some(filter) = &self.filter else { return Ok(Filtered::Keep) };
        if self.stopped {
            return Ok(Filtered::Skip);
        }
        let processing = filter.log_record_found(log, &self.path, record);
        self.changed |= processing != WalProcessing::ContinueProcessing;
        match processing {
            WalProcessing::ContinueProcessing => Ok(Filtered::Keep),
            WalProcessing::IgnoreCurrentRecord => Ok(Filtered::Skip),
            WalProcessing::StopReplay => {
                self.stopped = true;
                Ok(Filtered::Skip)
            }
            // As in RocksDB it is applied then.
            WalProcessing::CorruptedRecord if !self.paranoid => Ok(Filtered::Keep),
            WalProcessing::CorruptedRecord => {
                let text = format!("Corruption reported by Wal Filter : {}", filter.name());
                Ok(Filtered::Damaged(Error::corruption(text)))
            }
            WalProcessing::Replace(bytes) => replacement(&**filter, record, bytes),
        }
    }
}

fn replacement(filter: &dyn WalFilter, record: &[u8], mut bytes: Vec<u8>) -> Result<Filtered> {
    batch::check(&bytes)?;
    if batch::count(&bytes) > batch::count(record) {
        return Err(Error::not_supported(format!(
            "More than original # of records returned by Wal Filter : {}",
            filter.name()
        )));
    }
    bytes[..SEQUENCE_BYTES].copy_from_slice(&record[..SEQUENCE_BYTES]);
    Ok(Filtered::Replace(bytes))
}
