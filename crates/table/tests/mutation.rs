//! Each half of the boundary rule of filter partitions, and the rule of the last partition: a small
//! case for each, which must fail when that rule is taken away.
//!
//! Without the feature `planted` the cases are ordinary tests. With it each one also runs with its
//! bug turned on and must fail then. One test: there is one switch for the process.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/prefixed.rs"]
mod prefixed;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use prefixed::{Layout, check_seek, context, open};
use pumice_base::extension::FixedPrefix;
use pumice_base::planted::{self, Bug};

/// Panics if something is wrong.
type Case = fn();

const CASES: [(Bug, Case); 3] = [
    (Bug::ClosingPrefixDropped, a_seek_finds_the_first_key_behind_its_partition),
    (Bug::OpeningPrefixDropped, a_backward_seek_finds_the_last_key_before_its_partition),
    (Bug::LastFilterPartitionMissed, a_backward_seek_from_behind_the_last_key_finds_it),
];

/// Keys whose first three bytes are theirs alone.
fn users() -> Vec<Vec<u8>> {
    (0..600).map(|i| format!("{i:03}key").into_bytes()).collect()
}

/// A seek to a prefix lands at a separator that is shortened to it, in the partition before the one
/// with the key.
fn a_seek_finds_the_first_key_behind_its_partition() {
    for whole in [true, false] {
        let table = open(&context(Layout::Coupled, whole, "rocksdb.FixedPrefix.3"), &users());
        for user in users() {
            check_seek(&table, &FixedPrefix(3), &user[..3]);
        }
    }
}

/// A backward seek from between two keys lands in the partition of the one behind.
fn a_backward_seek_finds_the_last_key_before_its_partition() {
    for layout in [Layout::Coupled, Layout::Decoupled] {
        for whole in [true, false] {
            let table = open(&context(layout, whole, "rocksdb.FixedPrefix.3"), &users());
            for user in users() {
                check_seek(&table, &FixedPrefix(3), &[&user[..], b"~"].concat());
            }
        }
    }
}

fn a_backward_seek_from_behind_the_last_key_finds_it() {
    for layout in [Layout::Coupled, Layout::Decoupled] {
        for whole in [true, false] {
            let table = open(&context(layout, whole, "rocksdb.FixedPrefix.3"), &users());
            check_seek(&table, &FixedPrefix(3), b"599key~");
        }
    }
}

/// The cases mean what they say: there are partitions enough for their borders to be met.
fn there_are_partitions() {
    for layout in [Layout::Coupled, Layout::Decoupled] {
        let table = open(&context(layout, true, "rocksdb.FixedPrefix.3"), &users());
        let entries = table.properties().num_filter_entries;
        // Each cut adds a prefix on both sides.
        assert!(entries >= 1200 + 2 * 20, "{layout:?} {entries}");
    }
}

#[pumice_test_macros::test]
fn each_rule_of_partitions_is_needed() {
    there_are_partitions();
    let mut wrong = Vec::new();
    for (bug, case) in CASES {
        planted::activate(None);
        case();
        if !planted::ENABLED {
            continue;
        }
        planted::activate(Some(bug));
        if catch_unwind(AssertUnwindSafe(case)).is_ok() {
            wrong.push(bug.name());
        }
        planted::activate(None);
    }
    assert!(wrong.is_empty(), "not seen: {wrong:?}");
}
