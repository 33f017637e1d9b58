//! The shape of a column family on disk: version edits, versions, and how full each level is.
//!
//! Pure data structures and functions: nothing here reads a file, takes a lock or reads a clock.
//! The engine appends encoded edits to the MANIFEST and swaps the versions in.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod blob;
pub mod builder;
pub mod edit;
mod epoch;
pub mod file_meta;
pub mod level;
mod offpeak;
pub mod options;
pub mod range;
pub mod score;
pub mod targets;
#[doc(hidden)]
pub mod testing;
pub mod version;

pub use blob::BlobFileMetaData;
pub use builder::VersionBuilder;
pub use edit::VersionEdit;
pub use file_meta::{FileMetaData, FileStats};
pub use level::Level;
pub use offpeak::Offpeak;
pub use options::{CompactionPri, CompressionChoice, LeveledOptions, Preclusion};
pub use range::UserRange;
pub use score::{BlobGarbageRule, FileMarks, LevelScores, MarkRules};
pub use targets::LevelTargets;
pub use version::{BeyondCursor, Version};
