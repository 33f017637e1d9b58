//! What a seed comes to: counts of what happened, or the first thing that was wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_testkit::history::{Breach, Broken};

/// Kinds of failure, as the report line names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Something acknowledged is gone.
    Lost,
    /// An earlier batch is missing and a later one is there.
    Hole,
    /// A state that is no P(k).
    Torn,
    /// A wrong answer, an error without a reason, a file left behind, a panic.
    Wrong,
    /// Something that must end did not.
    Stuck,
    /// The same seed behaved differently the second time.
    Replay,
}

/// What was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The failure's kind.
    pub kind: Kind,
    /// All that is known.
    pub text: String,
}

impl Failure {
    /// A failure.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Failure { kind, text: text.into() }
    }
    /// The same with words before it.
    #[must_use]
    pub fn before(self, words: &str) -> Self {
        Failure { kind: self.kind, text: format!("{words}: {}", self.text) }
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        let kind = match broken.breach {
            Breach::Lost => Kind::Lost,
            Breach::Hole => Kind::Hole,
            Breach::Torn => Kind::Torn,
            Breach::Wrong => Kind::Wrong,
        };
        Failure { kind, text: broken.text }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}

/// Things that are counted, as the report line names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Count {
    /// Calls of the engine: writes, reads, flushes and so on.
    Ops,
    /// Batches acknowledged.
    Acked,
    /// Reads whose answer was judged.
    Reads,
    /// Snapshots that were read more than once.
    Snapshots,
    /// Crashes.
    Crashes,
    /// Crashes that hit a recovery.
    InRecovery,
    /// I/O operations that were made to fail.
    Faults,
    /// Times that the database took writes again after faults, without being reopened.
    Heals,
    /// Flushes, compactions, clean reopens.
    Upkeep,
    /// Column families created and dropped.
    Ddl,
    /// Ingestions acknowledged.
    Ingested,
    /// Ingestions that were prepared, and committed later.
    Staged,
    /// Prepared ones that were dropped.
    Unstaged,
    /// Prepared ones that were committed together with others.
    Joined,
    /// Ingestions behind all other data acknowledged.
    Behind,
    /// Ingestions refused, as their options allow.
    Refused,
    /// Compactions that ended with a move to another level.
    Moves,
    /// Calls that moved level 0 down as it is.
    Promoted,
    /// Times that all compactions were aborted.
    Aborts,
    /// Batches that were logged up to a point.
    PartlyLogged,
    /// Checkpoints that were judged.
    Copies,
    /// Times that a database was closed, or its last handle dropped, with others at work.
    Closes,
    /// Directory listings without a file too many.
    Listings,
    /// Blob files in such listings.
    Blobs,
    /// Transactions committed.
    Transactions,
    /// Transactions that ended without effect.
    TransactionsRefused,
    /// Prepared transactions that an open found.
    Prepared,
    /// Transactions that were committed with a batch of the commit.
    CommittedBeside,
    /// Operations on a simulated ring.
    RingOps,
}

/// All counts, in the order of the report.
pub const COUNTS: [(Count, &str); 29] = [
    (Count::Ops, "ops"),
    (Count::Acked, "acked"),
    (Count::Reads, "reads"),
    (Count::Snapshots, "snapshots"),
    (Count::Crashes, "crashes"),
    (Count::InRecovery, "in_recovery"),
    (Count::Faults, "faults"),
    (Count::Heals, "heals"),
    (Count::Upkeep, "upkeep"),
    (Count::Ddl, "ddl"),
    (Count::Ingested, "ingested"),
    (Count::Staged, "staged"),
    (Count::Unstaged, "unstaged"),
    (Count::Joined, "joined"),
    (Count::Behind, "behind"),
    (Count::Refused, "refused"),
    (Count::Moves, "moves"),
    (Count::Promoted, "promoted"),
    (Count::Aborts, "aborts"),
    (Count::PartlyLogged, "partly_logged"),
    (Count::Copies, "copies"),
    (Count::Closes, "closes"),
    (Count::Listings, "listings"),
    (Count::Blobs, "blobs"),
    (Count::Transactions, "transactions"),
    (Count::TransactionsRefused, "transactions_refused"),
    (Count::Prepared, "prepared"),
    (Count::CommittedBeside, "committed_beside"),
    (Count::RingOps, "ring_ops"),
];

/// Counts of one seed or of many. Shared by tasks.
#[derive(Debug, Default)]
pub struct Tally {
    counts: [AtomicU64; COUNTS.len()],
}

impl Tally {
    /// Counts `n` more.
    pub fn add(&self, count: Count, n: u64) {
        self.counts[count as usize].fetch_add(n, Ordering::Relaxed);
    }
    /// How many so far.
    pub fn get(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }
    /// Adds another tally.
    pub fn absorb(&self, other: &Tally) {
        for (count, _) in COUNTS {
            self.add(count, other.get(count));
        }
    }
    /// As `name=value ...`.
    pub fn text(&self) -> String {
        let words: Vec<String> =
            COUNTS.iter().map(|(count, name)| format!("{name}={}", self.get(*count))).collect();
        words.join(" ")
    }
    /// Reads what [`Tally::text`] made; unknown names are left out.
    pub fn parse(text: &str) -> Tally {
        let tally = Tally::default();
        let words: BTreeMap<&str, &str> =
            text.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        for (count, name) in COUNTS {
            let value = words.get(name).and_then(|value| value.parse().ok());
            tally.add(count, value.unwrap_or(0));
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_survives_its_text() {
        let tally = Tally::default();
        for (n, (count, _)) in COUNTS.iter().enumerate() {
            tally.add(*count, n as u64 + 1);
            assert_eq!(*count as usize, n, "the table is in the order of the enum");
        }
        assert_eq!(Tally::parse(&tally.text()).text(), tally.text());
    }
}
