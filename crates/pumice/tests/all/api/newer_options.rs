//! What docs/compatibility.md says of the options that RocksDB gained since 11.0.

use pumice::options::row::{OptionRow, OptionSet, RowKind};
use pumice::options::{ColumnFamilyOptions, DbOptions};
use pumice::{ErrorKind, Options};

const PAGE: &str = include_str!("../../../../../docs/compatibility.md");

/// What a row does with values, in the words of the page.
fn kind<S: OptionSet>(row: &OptionRow<S>) -> &'static str {
    match row.kind {
        RowKind::Field { .. } => "built",
        RowKind::Hint { .. } => "accepted without effect",
        RowKind::Unsupported { .. } => "refused",
    }
}

#[pumice_test_macros::test]
fn the_table_of_newer_options_is_so() {
    let (_, table) = PAGE.split_once("## What RocksDB gained since 11.0").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut options = 0;
    for row in rows {
        let (name, rest) = row.split_once("` | ").unwrap();
        let (said, why) = rest.split_once(" | ").unwrap_or((rest, ""));
        let found = DbOptions::row(name).map(kind);
        let Some(found) = found.or_else(|| ColumnFamilyOptions::row(name).map(kind)) else {
            // A field of requests.
            assert!(name.contains("Options::"), "{name}");
            continue;
        };
        options += 1;
        assert_eq!(found, said, "{name}");
        let mut changed = Options::default();
        let value = if name.ends_with("seconds") || name.contains("bytes") { "8" } else { "1" };
        match changed.set(name, value) {
            Ok(()) => assert_ne!(said, "refused", "{name}"),
            Err(error) => {
                assert_eq!((said, error.kind()), ("refused", ErrorKind::NotSupported), "{name}");
                assert!(error.message().contains(name), "{error}");
                assert!(why.len() > 10, "{name} is refused without a reason");
            }
        }
    }
    assert_eq!(options, 11);
}
