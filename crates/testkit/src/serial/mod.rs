//! Whether a history of transactions could have come from an isolation level: a search for cycles.
//!
//! Every value names its writer, and the version that it replaced. So the versions of a key have a
//! known order, and transactions depend on each other in three ways, by Adya's names:
//!
//! | edge | from | to |
//! |---|---|---|
//! | ww | who wrote a version | who wrote the next one |
//! | wr | who wrote a version | who read it |
//! | rw | who read a version | who wrote the next one |
//! | time | who had ended | who began afterwards |
//!
//! | level | what it permits | the check |
//! |---|---|---|
//! | read committed | lost updates, skews | what is read is committed, no cycle without rw |
//! | snapshot | write skew: two rw in a row | one successor of each version, no other cycle |
//! | serializable | nothing | no cycle |
//!
//! Edges of time make all of it strict: who begins after a commit has returned sees it.
//!
//! Thread safety: plain data. What it does not do: predicates. Reads of ranges are reads of the
//! keys that were there.

mod graph;

use std::collections::BTreeMap;
use std::fmt;

use graph::{Edge, Graph};

/// A version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The transaction that wrote it; 0: the key was not there.
    pub writer: u64,
    /// Which of its writes of this key, from 1 on.
    pub nth: u32,
}

impl Version {
    /// The key is not there.
    pub const NONE: Version = Version { writer: 0, nth: 0 };
}

/// What a value says of itself, and bytes that fill it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The version that the value is.
    pub version: Version,
    /// The version that it replaced.
    pub previous: Version,
}

/// Bytes of an encoded [`Stamp`].
const STAMP_BYTES: usize = 24;

impl Stamp {
    /// A value of at least `bytes` bytes.
    pub fn encode(&self, bytes: usize) -> Vec<u8> {
        let mut value = Vec::with_capacity(bytes.max(STAMP_BYTES));
        for version in [self.version, self.previous] {
            value.extend_from_slice(&version.writer.to_le_bytes());
            value.extend_from_slice(&version.nth.to_le_bytes());
        }
        value.resize(bytes.max(STAMP_BYTES), b'.');
        value
    }

    /// What a value says; None if it is no value of [`Stamp::encode`].
    pub fn decode(value: &[u8]) -> Option<Stamp> {
        let version = |at: usize| {
            Some(Version {
                writer: u64::from_le_bytes(value.get(at..at + 8)?.try_into().ok()?),
                nth: u32::from_le_bytes(value.get(at + 8..at + 12)?.try_into().ok()?),
            })
        };
        Some(Stamp { version: version(0)?, previous: version(12)? })
    }
}

/// The last write of a key in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: u32,
    /// What it wrote.
    pub version: Version,
    /// What was there before the transaction.
    pub previous: Version,
}

/// A committed transaction.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Not 0, and no other one's.
    pub id: u64,
    /// A moment before it began, of a clock that all share.
    pub began: u64,
    /// A moment after its commit had returned; `u64::MAX` if it never did.
    pub ended: u64,
    /// The versions that it read, its own left out.
    pub reads: Vec<(u32, Version)>,
    /// What it wrote, each key once.
    pub writes: Vec<Write>,
}

/// What a history is checked for. See the module head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Only what was committed is read.
    ReadCommitted,
    /// All reads are of one moment, and no update is lost.
    Snapshot,
    /// As if one transaction had run after the other.
    Serializable,
}

/// What a history of a level must not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A version was read or replaced that no committed transaction wrote (G1a).
    Aborted(String),
    /// A version was read or replaced that its own transaction replaced later (G1b).
    Intermediate(String),
    /// Two transactions replaced the same version (P4).
    LostUpdate(String),
    /// Each depends on the next (G0, G1c, G-single, G2), the edges in words.
    Cycle(String),
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anomaly::Aborted(text) => write!(f, "uncommitted version: {text}"),
            Anomaly::Intermediate(text) => write!(f, "intermediate version: {text}"),
            Anomaly::LostUpdate(text) => write!(f, "lost update: {text}"),
            Anomaly::Cycle(text) => write!(f, "cycle: {text}"),
        }
    }
}

/// What a history without forbidden anomalies has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Versions with several successors, which only read committed permits.
    pub lost_updates: u64,
    /// Groups of transactions that depend on each other, which serializability does not permit.
    pub cycles: u64,
    /// Edges of the graph.
    pub edges: u64,
}

/// Checks `history` for `level`.
///
/// # Errors
/// The first anomaly that the level does not permit.
///
/// # Panics
/// Two transactions have the same id, or one has the id 0.
pub fn check(history: &[Transaction], level: Level) -> Result<Found, Anomaly> {
    let nodes = nodes_of(history);
    let mut next: BTreeMap<(u32, Version), Vec<usize>> = BTreeMap::new();
    for (node, transaction) in history.iter().enumerate() {
        let replaced = transaction.writes.iter().map(|write| (write.key, write.previous));
        for (key, version) in transaction.reads.iter().copied().chain(replaced) {
            known(history, &nodes, transaction.id, key, version)?;
        }
        for write in &transaction.writes {
            next.entry((write.key, write.previous)).or_default().push(node);
        }
    }
    let forks = next.iter().filter(|(_, writers)| writers.len() > 1);
    if level != Level::ReadCommitted
        && let Some(((key, version), writers)) = forks.clone().next()
    {
        let ids: Vec<u64> = writers.iter().map(|node| history[*node].id).collect();
        return Err(Anomaly::LostUpdate(format!(
            "key {key}: {ids:?} replaced version {} of {}",
            version.nth, version.writer
        )));
    }
    let lost_updates = forks.count() as u64;
    let graph = dependencies(history, &nodes, &next);
    let forbidden = match level {
        Level::ReadCommitted => graph.cycle(|edge| edge != Edge::Rw),
        Level::Snapshot => graph.cycle_without_adjacent_rw(),
        Level::Serializable => graph.cycle(|_| true),
    };
    if let Some(steps) = forbidden {
        return Err(Anomaly::Cycle(in_words(history, &steps)));
    }
    Ok(Found { lost_updates, cycles: graph.knots(), edges: graph.len() })
}

fn nodes_of(history: &[Transaction]) -> BTreeMap<u64, usize> {
    let mut nodes = BTreeMap::new();
    for (node, transaction) in history.iter().enumerate() {
        assert_ne!(transaction.id, 0, "0 stands for no transaction");
        assert_eq!(nodes.insert(transaction.id, node), None, "ids are unique");
    }
    nodes
}

/// Checks that a version that `by` met is the last one of a committed transaction.
fn known(
    history: &[Transaction],
    nodes: &BTreeMap<u64, usize>,
    by: u64,
    key: u32,
    version: Version,
) -> Result<(), Anomaly> {
    if version == Version::NONE {
        return Ok(());
    }
    let text = || format!("{by} met version {} of {} at key {key}", version.nth, version.writer);
    let writer = nodes.get(&version.writer).map(|node| &history[*node]);
    let last = writer.and_then(|writer| writer.writes.iter().find(|write| write.key == key));
    match last {
        None => Err(Anomaly::Aborted(text())),
        Some(last) if last.version != version => Err(Anomaly::Intermediate(text())),
        Some(_) => Ok(()),
    }
}

fn dependencies(
    history: &[Transaction],
    nodes: &BTreeMap<u64, usize>,
    next: &BTreeMap<(u32, Version), Vec<usize>>,
) -> Graph {
    let mut edges = Vec::new();
    let mut add = |from: usize, to: usize, edge: Edge| {
        if from != to {
            edges.push((from, to, edge));
        }
    };
    for (node, transaction) in history.iter().enumerate() {
        for write in &transaction.writes {
            if let Some(before) = nodes.get(&write.previous.writer) {
                add(*before, node, Edge::Ww);
            }
        }
        for (key, version) in &transaction.reads {
            if let Some(writer) = nodes.get(&version.writer) {
                add(*writer, node, Edge::Wr);
            }
            for after in next.get(&(*key, *version)).into_iter().flatten() {
                add(node, *after, Edge::Rw);
            }
        }
    }
    // A node for each end, in their order, leads to all that began after it.
    let mut ends: Vec<(u64, usize)> =
        history.iter().enumerate().map(|(node, transaction)| (transaction.ended, node)).collect();
    ends.sort_unstable();
    for (place, (_, node)) in ends.iter().enumerate() {
        let moment = history.len() + place;
        add(*node, moment, Edge::Time);
        if place > 0 {
            add(moment - 1, moment, Edge::Time);
        }
    }
    for (node, transaction) in history.iter().enumerate() {
        let before = ends.partition_point(|(ended, _)| *ended < transaction.began);
        if before > 0 {
            add(history.len() + before - 1, node, Edge::Time);
        }
    }
    Graph::new(history.len() * 2, edges)
}

/// The edges of a cycle; moments of time are left out.
fn in_words(history: &[Transaction], steps: &[(usize, Edge)]) -> String {
    let mut words = Vec::new();
    for (node, edge) in steps {
        if let Some(transaction) = history.get(*node) {
            words.push(format!("{} -{}->", transaction.id, edge.name()));
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests;
