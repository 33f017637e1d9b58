//! Options of RocksDB, older or newer than the tables, that decide what is in the files of a
//! database and that this build cannot obey. An OPTIONS file that sets one is refused by name,
//! while other unknown options are skipped: files that depend on them would be read wrongly, or
//! written in a form that the owner of the database does not expect.
//!
//! The list only makes errors clearer: tables, logs and the MANIFEST themselves refuse what they
//! cannot read, so a name that is missing here gives a later or less clear error.
//!
//! Thread safety: pure functions.

use pumice_base::Error;

/// Who needs the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concern {
    /// Readers: without it the files would be misread.
    Reading,
    /// Writers only: existing files can be read without it.
    Writing,
}

use Concern::{Reading, Writing};

/// An option and what is known about it.
struct OnDisk {
    name: &'static str,
    concern: Concern,
    /// Values that do not change the files.
    harmless: &'static [&'static str],
    why: &'static str,
}

const fn row(
    name: &'static str,
    concern: Concern,
    harmless: &'static [&'static str],
    why: &'static str,
) -> OnDisk {
    OnDisk { name, concern, harmless, why }
}

const OFF: &[&str] = &["false", "0"];
const CRC32C: &[&str] = &["nullptr", "", "FileChecksumGenCrc32cFactory"];
const NULL: &[&str] = &["nullptr", ""];

/// Sorted by name.
const ON_DISK: &[OnDisk] = &[
    row("cf_paths", Reading, &["", "{}"], "table files are in several directories"),
    row(
        "compaction_style",
        Writing,
        &["kCompactionStyleLevel", "kCompactionStyleUniversal", "kCompactionStyleFIFO"],
        "another compaction would change the shape of the tree",
    ),
    row("compression_manager", Writing, NULL, "blocks are compressed by custom codecs"),
    row("db_paths", Reading, &["", "{}"], "table files are in several directories"),
    row("enable_blob_direct_write", Reading, OFF, "the WAL refers to blob files"),
    row("file_checksum_gen_factory", Writing, CRC32C, "the MANIFEST has checksums of whole files"),
    row(
        "user_defined_index_factory",
        Writing,
        &["nullptr", "", "trie_index"],
        "tables have a user-defined index",
    ),
];

/// The effect of `name=value` on the files that this build cannot handle, and whom it concerns.
pub(super) fn concern(name: &str, value: &str) -> Option<(Concern, &'static str)> {
    let row = ON_DISK.iter().find(|row| row.name == name)?;
    let harmless = row.harmless.contains(&value.trim());
    (!harmless).then_some((row.concern, row.why))
}

/// The refusal of `name=value` because of `why`.
pub(super) fn refusal(name: &str, value: &str, why: &str) -> Error {
    Error::not_supported(format!(
        "{name}={value} is not supported by this build and decides what is on disk: {why}"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::row::{OptionRow, OptionSet, RowKind};
    use super::super::{BlockBasedTableOptions, ColumnFamilyOptions, DbOptions};
    use super::*;

    /// Options with values that are supported and others that are not.
    const OTHER_VALUES: [&str; 4] = [
        "compaction_style",
        "compression_manager",
        "file_checksum_gen_factory",
        "user_defined_index_factory",
    ];

    /// The values of an unsupported row that are accepted; None if the tables lack the name.
    fn accepted<S: OptionSet>(name: &str) -> Option<&'static [&'static str]> {
        match S::row(name) {
            Some(OptionRow { kind: RowKind::Unsupported { accepts }, .. }) => Some(accepts),
            Some(_) if OTHER_VALUES.contains(&name) => None,
            Some(_) => panic!("{name} is supported"),
            None => None,
        }
    }

    #[pumice_test_macros::test]
    fn the_list_names_what_the_tables_do_not_support_and_spares_what_they_accept() {
        assert!(ON_DISK.is_sorted_by_key(|row| row.name.to_ascii_lowercase()));
        for row in ON_DISK {
            let values = accepted::<DbOptions>(row.name)
                .or_else(|| accepted::<ColumnFamilyOptions>(row.name))
                .or_else(|| accepted::<BlockBasedTableOptions>(row.name));
            for value in values.unwrap_or_default() {
                assert_eq!(concern(row.name, value), None, "{}={value}", row.name);
            }
        }
        assert_eq!(concern("compaction_style", "kCompactionStyleNone").unwrap().0, Writing);
        assert_eq!(concern("nonesuch", "1"), None);
    }
}
