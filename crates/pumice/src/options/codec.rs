//! Chooses the codec of a table file from the options and the file's place in the tree.
//!
//! Pure functions; the only place that chooses.

use pumice_compress::{CompressionOptions, CompressionType};

use super::{ColumnFamilyOptions, CompactionStyle};

/// Compression of a file written to `level`, and its parameters. The settings of the bottommost
/// level apply if the file is `deepest` (`CompactionPick::deepest`), its parameters even if no
/// codec is set for it. A `given` codec (`CompactionPick::compression`) has the general parameters.
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

/// The compression of flushed files, if it differs from level 0's: none, if universal compaction
/// should compress only older data.
pub(crate) fn flush_compression(options: &ColumnFamilyOptions) -> Option<CompressionType> {
    let share = options.compaction_options_universal.compression_size_percent >= 0;
    let universal = options.compaction_style == CompactionStyle::Universal;
    (universal && share).then_some(CompressionType::None)
}
