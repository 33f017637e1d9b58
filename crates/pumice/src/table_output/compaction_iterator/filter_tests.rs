//! The compaction filter and merge operands: which entries it is asked about, in which order, and
//! what is left, against a model that removes the filtered operands from the history before
//! merging.
#![allow(clippy::unwrap_used)]

use pumice_port::sync::Mutex;

use super::tests::{KEYS, Run, compact_with, history, key_of, run_of, views};
use super::*;
use pumice_base::Comparator;
use pumice_base::extension::FilterDecision;
use pumice_base::key::ParsedInternalKey;
use pumice_base::random::Rng;
use std::collections::BTreeSet;

/// A question: `M` for an operand or `V` for a value, key, value.
type Question = (char, Vec<u8>, Vec<u8>);

/// Removes a third of the operands and keeps all values; remembers what it was asked.
#[derive(Default)]
struct Picky {
    asked: Mutex<Vec<Question>>,
}

fn removes(operand: &[u8]) -> bool {
    operand.iter().map(|&byte| u32::from(byte)).sum::<u32>().is_multiple_of(3)
}

impl CompactionFilter for Picky {
    fn name(&self) -> &str {
        "Picky"
    }
    fn filter(&self, level: i32, key: &[u8], value: &[u8]) -> FilterDecision {
        assert_eq!(level, 1);
        self.asked.lock().push(('V', key.to_vec(), value.to_vec()));
        FilterDecision::Keep
    }
    fn filter_merge_operand(&self, level: i32, key: &[u8], operand: &[u8]) -> bool {
        assert_eq!(level, 1);
        self.asked.lock().push(('M', key.to_vec(), operand.to_vec()));
        removes(operand)
    }
}

/// `input` without the operands that the filter removes.
fn filtered(input: &Run, newest_snapshot: Option<u64>) -> Run {
    let removed = |entry: &(Vec<u8>, Vec<u8>)| {
        let key = key::parse_internal_key(&entry.0).unwrap();
        key.value_type == ValueType::Merge
            && Some(key.sequence) > newest_snapshot
            && removes(&entry.1)
    };
    let entries = input.entries.iter().filter(|entry| !removed(entry)).cloned().collect();
    Run { entries, tombstones: input.tombstones.clone() }
}

/// What the filter must be asked about key number `n`, in order.
fn questions(
    input: &Run,
    n: u64,
    newest_snapshot: Option<u64>,
    user: &Comparator,
) -> Vec<Question> {
    let key = key_of(n);
    let mut versions: Vec<(ParsedInternalKey<'_>, &Vec<u8>)> = input
        .entries
        .iter()
        .map(|(k, v)| (key::parse_internal_key(k).unwrap(), v))
        .filter(|(k, _)| k.user_key.as_bytes() == key && Some(k.sequence) > newest_snapshot)
        .collect();
    versions.sort_by_key(|(k, _)| std::cmp::Reverse(k.sequence));
    let covered = input.tombstones.iter().filter(|t| {
        user.compare(UserKey::new(&t.start), UserKey::new(&key)).is_le()
            && user.compare(UserKey::new(&key), UserKey::new(&t.end)).is_lt()
    });
    let tombstone = covered.map(|t| t.seq).max().unwrap_or(0);
    let (mut asked, mut kept) = (Vec::new(), false);
    for (version, value) in versions {
        if version.sequence < tombstone {
            break;
        }
        match version.value_type {
            ValueType::Merge => {
                asked.push(('M', key.clone(), value.clone()));
                kept |= !removes(value);
            }
            ValueType::Value if !kept => {
                asked.push(('V', key.clone(), value.clone()));
                break;
            }
            _ => break,
        }
    }
    asked
}

#[pumice_test_macros::test]
fn removed_operands_leave_what_was_there_without_them() {
    let mut totals = [0; 3];
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let user = if rng.one_in(3) { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let icmp = InternalKeyComparator::new(user.clone());
        let levels = 1 + rng.uniform(3) as usize;
        let (mut runs, last) = history(&mut rng, levels, &user);
        let snapshots: BTreeSet<u64> = (0..rng.uniform(3)).map(|_| rng.uniform(last + 1)).collect();
        let newest_snapshot = snapshots.last().copied();
        for step in 0..3 {
            let from = rng.uniform(levels as u64) as usize;
            let to = from + rng.uniform((levels - from) as u64) as usize;
            let mut input = Run::default();
            for run in &mut runs[from..=to] {
                let run = std::mem::take(run);
                input.entries.extend(run.entries);
                input.tombstones.extend(run.tombstones);
            }
            let bottommost =
                runs[to + 1..].iter().all(|r| r.entries.is_empty() && r.tombstones.is_empty());
            runs[to] = filtered(&input, newest_snapshot);
            totals[0] += input.entries.len() - runs[to].entries.len();
            let expected = views(&runs, &snapshots, &user);
            let filter = Arc::new(Picky::default());
            let settings = |settings: &mut CompactionSettings| {
                settings.compaction_filter = Some(filter.clone());
            };
            runs[to] = compact_with(&input, &snapshots, bottommost, &[], &icmp, &settings);
            let what = format!("seed {seed} step {step}: {from}..={to} snapshots {snapshots:?}");
            assert_eq!(views(&runs, &snapshots, &user), expected, "{what} input {input:?}");
            let asked = filter.asked.lock();
            for n in (0..KEYS).filter(|&n| n >= 2) {
                let of_key: Vec<_> = asked.iter().filter(|q| q.1 == key_of(n)).cloned().collect();
                let wanted = questions(&input, n, newest_snapshot, &user);
                assert_eq!(of_key, wanted, "{what} key {n} input {input:?}");
                totals[1] += of_key.iter().filter(|q| q.0 == 'M').count();
                totals[2] += usize::from(of_key.len() > 1 && of_key.last().unwrap().0 == 'V');
            }
        }
    }
    assert!(totals.iter().all(|&total| total > 150), "too little happened: {totals:?}");
}

/// RocksDB's cases: a key whose operands are all removed is gone, a value below them is filtered, a
/// tombstone below them stays, and the newest operand that is left gives the sequence.
#[pumice_test_macros::test]
fn what_lies_under_removed_operands_is_seen_again() {
    use ValueType::{Deletion, Merge, Value};
    let (gone, kept) = ("3", "1"); // By the sum of their bytes.
    assert!(removes(gone.as_bytes()) && !removes(kept.as_bytes()));
    let input = run_of(&[
        ("a", 9, Merge, gone),
        ("a", 8, Merge, gone),
        ("b", 9, Merge, gone),
        ("b", 5, Value, "base"),
        ("c", 9, Merge, gone),
        ("c", 5, Deletion, ""),
        ("d", 9, Merge, gone),
        ("d", 7, Merge, kept),
        ("d", 5, Value, "base"),
        ("e", 9, Merge, gone),
        ("e", 4, Merge, gone),
        ("e", 3, Value, "base"),
    ]);
    let icmp = InternalKeyComparator::new(Comparator::Bytewise);
    let filter = Arc::new(Picky::default());
    let settings = |settings: &mut CompactionSettings| {
        settings.compaction_filter = Some(filter.clone());
    };
    let snapshots = BTreeSet::from([4]);
    let out = compact_with(&input, &snapshots, false, &[], &icmp, &settings);
    let expected = run_of(&[
        ("b", 5, Value, "base"),
        ("c", 5, Deletion, ""),
        ("d", 7, Value, "base,1"),
        ("e", 4, Value, "base,3"), // A snapshot needs this operand.
    ]);
    assert_eq!(out.entries, expected.entries);
    let values = filter.asked.lock().iter().filter(|q| q.0 == 'V').count();
    assert_eq!(values, 1, "the value of b, not the results of merges");
}
