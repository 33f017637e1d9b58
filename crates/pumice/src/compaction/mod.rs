//! Compaction: merging table files down the levels.
//!
//! | part | is |
//! |---|---|
//! | `picker` | what to compact: pure, from versions and scores |
//! | `plan` | a column family's scores, targets and running compactions |
//! | `iterator` | which entries survive |
//! | `cut` | where one output file ends and the next begins |
//! | `output` | one output file |
//! | `subcompaction` | one key range of a job: merge, filter, write |
//! | `job` | a job: move or split, run, install |
//! | `retry`, `expiry` | looking again after a failure, and when files get too old |

pub(crate) mod account;
pub(crate) mod cut;
pub(crate) mod expiry;
pub(crate) mod iterator;
pub(crate) mod job;
pub(crate) mod output;
pub(crate) mod picker;
pub(crate) mod plan;
pub(crate) mod retry;
pub(crate) mod subcompaction;
pub(crate) mod tombstones;

use pumice_compress::{CompressionOptions, CompressionType};

use crate::options::{ColumnFamilyOptions, CompactionStyle};

/// Compression of a file written to `level`, and its parameters. What is set for the bottommost
/// level holds if the file is `deepest` (`CompactionPick::deepest`), the parameters also alone.
/// A kind that is `given` (`CompactionPick::compression`) has the general parameters.
pub(crate) fn compression_of(
    options: &ColumnFamilyOptions,
    level: usize,
    base_level: usize,
    deepest: bool,
    given: Option<CompressionType>,
) -> (CompressionType, CompressionOptions) {
    if let Some(kind) = given {
        return (kind, options.compression_opts.clone());
    }
    let own = &options.bottommost_compression_opts;
    let parameters = if deepest && own.enabled { own } else { &options.compression_opts };
    if deepest && options.bottommost_compression != CompressionType::Disable {
        return (options.bottommost_compression, parameters.clone());
    }
    let kind = match options.compression_per_level.len() {
        0 => options.compression,
        len => {
            let index = if level == 0 { 0 } else { (level + 1).saturating_sub(base_level) };
            options.compression_per_level[index.min(len - 1)]
        }
    };
    (kind, parameters.clone())
}

/// The compression of flushed files, where it is not what is set for level 0: none, if universal
/// compaction is to compress only what is older.
pub(crate) fn flush_compression(options: &ColumnFamilyOptions) -> Option<CompressionType> {
    let share = options.compaction_options_universal.compression_size_percent >= 0;
    let universal = options.compaction_style == CompactionStyle::Universal;
    (universal && share).then_some(CompressionType::None)
}
