//! Histories of transactions on threads and on fibers, checked for cycles.
//!
//! CI runs some thousand transactions of each kind; `cargo xtask transactions` 100,000. What the
//! checker permits is what docs/transactions.md says of each way to read.

use pumice_testkit::seed;
use pumice_tests::transactions::Reads;
use pumice_tests::transactions::crowd::{self, Kind};

/// The variable with the number of transactions of one history.
const COUNT_VARIABLE: &str = "PUMICE_TRANSACTIONS";
/// Transactions of one history in CI.
const TRANSACTIONS: u64 = 4000;
const TASKS: u64 = 8;

fn history(kind: Kind, reads: Reads) {
    let count = seed::number(COUNT_VARIABLE).unwrap_or_else(|| seed::share(TRANSACTIONS));
    let seed = seed::wanted().unwrap_or(1);
    let summary = crowd::run(kind, reads, TASKS, count, seed);
    let summary = summary.unwrap_or_else(|wrong| panic!("{kind:?} {reads:?} seed {seed}: {wrong}"));
    println!("{kind:?} {reads:?}: {summary:?}");
    assert!(summary.committed + summary.refused >= count, "{summary:?}");
    assert!(summary.committed > count / 20, "{summary:?}");
}

#[pumice_test_macros::test]
fn locks_of_every_read_are_serializable() {
    history(Kind::Locks, Reads::ForUpdate);
}

#[pumice_test_macros::test]
fn checks_of_every_read_are_serializable() {
    history(Kind::Checks, Reads::ForUpdate);
}

#[pumice_test_macros::test]
fn reads_of_a_snapshot_with_locks_are_snapshot_isolation() {
    history(Kind::Locks, Reads::Snapshot);
}

#[pumice_test_macros::test]
fn reads_of_a_snapshot_with_checks_are_snapshot_isolation() {
    history(Kind::Checks, Reads::Snapshot);
}

#[pumice_test_macros::test]
fn plain_reads_with_locks_see_what_is_committed() {
    history(Kind::Locks, Reads::Plain);
}

#[pumice_test_macros::test]
fn plain_reads_with_checks_see_what_is_committed() {
    history(Kind::Checks, Reads::Plain);
}
