//! `CompactionIterator` and `tombstones::surviving` against a naive reader.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::Comparator;
use pumice_base::key::ParsedInternalKey;
use pumice_base::random::Rng;
use pumice_base::range_tombstone::RangeTombstone;

use super::*;
use crate::table_output::tombstones::surviving;

/// Joins with commas, so that the order of operands and a lost base show.
#[derive(Default)]
struct Join {
    /// It fails where a multiple of this is among the operands; 0: never.
    fails_at: u64,
    failures: Arc<AtomicU64>,
}

impl MergeOperator for Join {
    fn name(&self) -> &str {
        "Join"
    }
    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let number = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<u64>().ok();
        let is_bad = |part: &[u8]| number(part).is_some_and(|n| n.is_multiple_of(self.fails_at));
        if self.fails_at > 0 && operands.iter().any(|o| o.split(|b| *b == b',').any(is_bad)) {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let mut all: Vec<&[u8]> = existing.into_iter().collect();
        all.extend(operands);
        Some(all.join(&b','))
    }
    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        // Some keys keep their operands apart.
        (key.last()? % 2 == 0).then(|| [left, right].join(&b','))
    }
}

/// Sorted entries as an iterator.
struct Entries {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    at: usize,
    icmp: InternalKeyComparator,
}

impl Entries {
    fn new(mut entries: Vec<(Vec<u8>, Vec<u8>)>, icmp: &InternalKeyComparator) -> Self {
        entries.sort_by(|a, b| icmp.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
        Entries { at: entries.len(), entries, icmp: icmp.clone() }
    }
}

impl InternalIterator for Entries {
    fn valid(&self) -> bool {
        self.at < self.entries.len()
    }
    fn seek_to_first(&mut self) {
        self.at = 0;
    }
    fn seek_to_last(&mut self) {
        unreachable!("compaction goes forward");
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.at = self
            .entries
            .partition_point(|e| self.icmp.compare(InternalKey::new(&e.0), target).is_lt());
    }
    fn seek_for_prev(&mut self, _: InternalKey<'_>) {
        unreachable!("compaction goes forward");
    }
    fn next(&mut self) {
        self.at += 1;
    }
    fn prev(&mut self) {
        unreachable!("compaction goes forward");
    }
    fn key(&self) -> InternalKey<'_> {
        InternalKey::new(&self.entries[self.at].0)
    }
    fn value(&self) -> &[u8] {
        &self.entries[self.at].1
    }
    fn status(&self) -> Result<()> {
        Ok(())
    }
}

/// A sorted run: what one level holds.
#[derive(Clone, Default, Debug)]
pub(super) struct Run {
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    pub tombstones: Vec<RangeTombstone>,
}

fn settings(
    icmp: &InternalKeyComparator,
    snapshots: &BTreeSet<u64>,
    bottommost: bool,
    list: &Arc<FragmentedTombstones>,
) -> CompactionSettings {
    CompactionSettings {
        comparator: icmp.clone(),
        snapshots: snapshots.iter().copied().collect(),
        earliest_write_conflict_snapshot: MAX_SEQUENCE,
        merge_operator: Some(Arc::new(Join::default())),
        merge_failure_scope: OpFailureScope::Default,
        compaction_filter: None,
        level: 1,
        bottommost,
        tombstones: (!list.is_empty()).then(|| Arc::clone(list)),
        end: None,
        values: InputValues::of(None, None, &pumice_table::TableReadOptions::default()),
        beyond: None,
        // Three long values merge into too much.
        limits: SizeLimits::lowered(1 << 10),
        times: TimeBounds::default(),
        enforce_single_del_contracts: false,
    }
}

/// Compacts `input` in parts that meet at `cuts` (ascending user keys).
fn compact(
    input: &Run,
    snapshots: &BTreeSet<u64>,
    bottommost: bool,
    cuts: &[Vec<u8>],
    icmp: &InternalKeyComparator,
) -> Run {
    compact_with(input, snapshots, bottommost, cuts, icmp, &|_| {})
}

/// As `compact`, with settings that `change` has changed.
pub(super) fn compact_with(
    input: &Run,
    snapshots: &BTreeSet<u64>,
    bottommost: bool,
    cuts: &[Vec<u8>],
    icmp: &InternalKeyComparator,
    change: &dyn Fn(&mut CompactionSettings),
) -> Run {
    let list = Arc::new(FragmentedTombstones::build(input.tombstones.clone(), &icmp.user));
    let list_snapshots: Vec<u64> = snapshots.iter().copied().collect();
    let mut bounds = vec![None];
    bounds.extend(cuts.iter().map(Some));
    bounds.push(None);
    let mut out = Run::default();
    let mut entries_in = 0;
    for pair in bounds.windows(2) {
        let mut settings = settings(icmp, snapshots, bottommost, &list);
        settings.end = pair[1].cloned();
        change(&mut settings);
        let source = Entries::new(input.entries.clone(), icmp);
        let mut entries = CompactionIterator::new(source, settings);
        match pair[0] {
            Some(start) => entries.seek(start),
            None => entries.seek_to_first(),
        }
        while entries.valid() {
            if let Some((last, _)) = out.entries.last() {
                assert!(
                    icmp.compare(InternalKey::new(last), InternalKey::new(entries.key())).is_lt(),
                    "output out of order"
                );
            }
            out.entries.push((entries.key().to_vec(), entries.value().to_vec()));
            entries.next();
        }
        entries.status().unwrap();
        entries_in += entries.counts().entries_in;
        let (low, high) = (pair[0].map(Vec::as_slice), pair[1].map(Vec::as_slice));
        let (left, _) = surviving(
            &list,
            &icmp.user,
            (low.map(UserKey::new), high.map(UserKey::new)),
            &list_snapshots,
            &TimeBounds::default(),
            bottommost,
        );
        out.tombstones.extend(left);
    }
    assert_eq!(entries_in, input.entries.len() as u64, "every entry is counted once");
    out
}

/// What a read of `key` at `sequence` sees in `runs`.
fn read(runs: &[Run], key: &[u8], sequence: u64, user: &Comparator) -> Option<Vec<u8>> {
    let covered = |t: &&RangeTombstone| {
        t.seq <= sequence
            && user.compare(UserKey::new(&t.start), UserKey::new(key)).is_le()
            && user.compare(UserKey::new(key), UserKey::new(&t.end)).is_lt()
    };
    let tombstone = runs.iter().flat_map(|r| &r.tombstones).filter(covered).map(|t| t.seq).max();
    let mut versions: Vec<(ParsedInternalKey<'_>, &[u8])> = runs
        .iter()
        .flat_map(|r| &r.entries)
        .map(|(k, v)| (key::parse_internal_key(k).unwrap(), v.as_slice()))
        .filter(|(k, _)| k.user_key.as_bytes() == key && k.sequence <= sequence)
        .collect();
    versions.sort_by_key(|(k, _)| std::cmp::Reverse(k.sequence));
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut found = false;
    for (parsed, value) in versions {
        if tombstone.is_some_and(|t| t > parsed.sequence) {
            break;
        }
        match parsed.value_type {
            ValueType::Merge => parts.push(value),
            ValueType::Value => {
                parts.push(value);
                found = true;
                break;
            }
            _ => break,
        }
    }
    let visible = found || !parts.is_empty();
    parts.reverse();
    visible.then(|| parts.join(&b','))
}

pub(super) fn key_of(n: u64) -> Vec<u8> {
    format!("k{n}").into_bytes()
}

pub(super) const KEYS: u64 = 8;

/// A random history over `levels` runs, newest first. Keys 0 and 1 are only put and single-deleted,
/// in turn; the others take everything else.
pub(super) fn history(rng: &mut Rng, levels: usize, user: &Comparator) -> (Vec<Run>, u64) {
    let width = if rng.one_in(3) { 400 } else { 0 };
    let mut runs = vec![Run::default(); levels];
    let last = 4 + rng.uniform(40);
    // Below which sequence the versions of a key lie in deeper runs.
    let mut depths: Vec<Vec<u64>> = Vec::new();
    for _ in 0..KEYS {
        let mut cuts: Vec<u64> = (1..levels).map(|_| rng.uniform(last + 2)).collect();
        cuts.sort_by(|a, b| b.cmp(a));
        depths.push(cuts);
    }
    let run_of = |key: u64, sequence: u64| {
        depths[key as usize].iter().take_while(|&&cut| sequence < cut).count()
    };
    let mut put = [false; 2];
    for sequence in 1..=last {
        let key = rng.uniform(KEYS);
        let value = format!("{sequence:0>width$}").into_bytes();
        let entry = |t: ValueType, v: Vec<u8>| (key::internal_key(&key_of(key), sequence, t), v);
        let at = run_of(key, sequence);
        if rng.one_in(8) {
            // One piece a key, since the keys may be on different levels.
            let mut ends = [rng.uniform(KEYS + 1), rng.uniform(KEYS + 1)];
            ends.sort_unstable();
            for piece in ends[0]..ends[1] {
                let (mut start, mut end) = (key_of(piece), key_of(piece + 1));
                if user.compare(UserKey::new(&start), UserKey::new(&end)).is_gt() {
                    std::mem::swap(&mut start, &mut end);
                }
                // Under the reverse order the piece is [k+1, k) and covers k+1.
                let owner = if user.is_bytewise() { piece } else { piece + 1 };
                if owner < KEYS {
                    let tombstone = RangeTombstone { start, end, seq: sequence, time: Vec::new() };
                    runs[run_of(owner, sequence)].tombstones.push(tombstone);
                }
            }
        } else if key < 2 {
            let there = &mut put[key as usize];
            let t = if *there { ValueType::SingleDeletion } else { ValueType::Value };
            let v = if *there { Vec::new() } else { value };
            *there = !*there;
            runs[at].entries.push(entry(t, v));
        } else {
            runs[at].entries.push(match rng.uniform(4) {
                0 => entry(ValueType::Deletion, Vec::new()),
                1 | 2 => entry(ValueType::Merge, value),
                _ => entry(ValueType::Value, value),
            });
        }
    }
    (runs, last)
}

pub(super) fn views(
    runs: &[Run],
    snapshots: &BTreeSet<u64>,
    user: &Comparator,
) -> Vec<Option<Vec<u8>>> {
    let mut seen = Vec::new();
    for &at in snapshots.iter().chain([&MAX_SEQUENCE]) {
        seen.extend((0..KEYS).map(|n| read(runs, &key_of(n), at, user)));
    }
    seen
}

/// In some histories there are operands that cannot be merged, and stay.
#[pumice_test_macros::test]
fn every_snapshot_reads_the_same_after_any_compactions() {
    let failures = Arc::new(AtomicU64::new(0));
    for seed in 0..6000 {
        let fails_at = if seed % 4 == 0 { 1 + seed / 4 % 9 } else { 0 };
        let change = |settings: &mut CompactionSettings| {
            let join = Join { fails_at, failures: Arc::clone(&failures) };
            settings.merge_operator = Some(Arc::new(join));
            settings.merge_failure_scope = OpFailureScope::MustMerge;
        };
        let mut rng = Rng::new(seed);
        let user = if rng.one_in(3) { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let icmp = InternalKeyComparator::new(user.clone());
        let levels = 1 + rng.uniform(4) as usize;
        let (mut runs, last) = history(&mut rng, levels, &user);
        let mut snapshots: BTreeSet<u64> =
            (0..rng.uniform(4)).map(|_| rng.uniform(last + 1)).collect();
        for step in 0..5 {
            if rng.one_in(3)
                && let Some(&gone) = snapshots.iter().next()
            {
                snapshots.remove(&gone);
            }
            let before = views(&runs, &snapshots, &user);
            let from = rng.uniform(levels as u64) as usize;
            let to = from + rng.uniform((levels - from) as u64) as usize;
            let mut input = Run::default();
            for run in &mut runs[from..=to] {
                let run = std::mem::take(run);
                input.entries.extend(run.entries);
                input.tombstones.extend(run.tombstones);
            }
            let mut cuts: Vec<Vec<u8>> =
                (0..rng.uniform(3)).map(|_| key_of(rng.uniform(KEYS))).collect();
            cuts.sort_by(|a, b| user.compare(UserKey::new(a), UserKey::new(b)));
            cuts.dedup();
            let bottommost =
                runs[to + 1..].iter().all(|r| r.entries.is_empty() && r.tombstones.is_empty());
            let whole = compact_with(&input, &snapshots, bottommost, &[], &icmp, &change);
            let parts = compact_with(&input, &snapshots, bottommost, &cuts, &icmp, &change);
            assert_eq!(whole.entries, parts.entries, "seed {seed} step {step}: cuts {cuts:?}");
            runs[to] = parts;
            let after = views(&runs, &snapshots, &user);
            assert_eq!(
                before, after,
                "seed {seed} step {step}: runs {from}..={to} bottommost {bottommost} \
                 snapshots {snapshots:?}\ninput {input:?}\nall {runs:?}"
            );
        }
    }
    assert!(failures.load(Ordering::Relaxed) > 2000, "{failures:?}");
}

pub(super) fn run_of(entries: &[(&str, u64, ValueType, &str)]) -> Run {
    let entries = entries
        .iter()
        .map(|(k, s, t, v)| (key::internal_key(k.as_bytes(), *s, *t), v.as_bytes().to_vec()));
    Run { entries: entries.collect(), tombstones: Vec::new() }
}

fn compact_bytewise(input: &Run, snapshots: &[u64], bottommost: bool) -> Run {
    let icmp = InternalKeyComparator::new(Comparator::Bytewise);
    let snapshots = snapshots.iter().copied().collect();
    compact(input, &snapshots, bottommost, &[], &icmp)
}

#[pumice_test_macros::test]
fn a_single_deletion_below_a_newer_value_is_kept_for_the_older_value_it_cancels() {
    use ValueType::{SingleDeletion, Value};
    let middle = run_of(&[("k", 9, Value, "new"), ("k", 7, SingleDeletion, "")]);
    let middle = compact_bytewise(&middle, &[], false);
    assert_eq!(middle.entries.len(), 2);
    let mut upper = run_of(&[("k", 11, SingleDeletion, "")]);
    upper.entries.extend(middle.entries);
    let upper = compact_bytewise(&upper, &[], false);
    let lower = run_of(&[("k", 5, Value, "old")]);
    assert_eq!(read(&[upper, lower], b"k", MAX_SEQUENCE, &Comparator::Bytewise), None);
}

/// What no block could hold is not written: the operands stay, and what is below them.
#[pumice_test_macros::test]
fn a_merged_value_that_is_too_large_leaves_its_operands() {
    use ValueType::{Deletion, Merge, Value};
    let wide = "x".repeat(400);
    for base in [Value, Deletion] {
        let under = if base == Value { wide.as_str() } else { "" };
        let input = [("k", 9, Merge, &*wide), ("k", 8, Merge, &*wide), ("k", 7, Merge, &*wide)];
        let input =
            run_of(&[&input[..], &[("k", 5, base, under), ("k", 4, Value, "old")]].concat());
        for bottommost in [false, true] {
            let out = compact_bytewise(&input, &[], bottommost);
            assert_eq!(out.entries, input.entries[..4], "{base:?}");
        }
    }
}

#[pumice_test_macros::test]
fn single_deletions_pair_with_one_value_of_their_stripe_only() {
    use ValueType::{SingleDeletion, Value};
    let pair = run_of(&[("k", 9, SingleDeletion, ""), ("k", 7, Value, "v")]);
    assert!(compact_bytewise(&pair, &[], false).entries.is_empty());
    assert_eq!(compact_bytewise(&pair, &[8], false).entries.len(), 2);
    assert_eq!(compact_bytewise(&pair, &[8], true).entries.len(), 2);
    assert!(compact_bytewise(&pair, &[7 - 1], false).entries.is_empty());
}

#[pumice_test_macros::test]
fn a_single_deletion_above_a_deletion_is_reported() {
    use ValueType::{Deletion, SingleDeletion, Value};
    let icmp = InternalKeyComparator::new(Comparator::Bytewise);
    let list = Arc::new(FragmentedTombstones::empty());
    let pair = [("k", 9, SingleDeletion, ""), ("k", 7, Deletion, "")];
    let hidden = [("k", 11, Value, "new"), pair[0], pair[1]];
    let reversed = [("k", 9, Deletion, ""), ("k", 7, SingleDeletion, "")];
    for (input, snapshots, misused) in [
        (&pair[..], &[][..], true),
        (&pair[..], &[8][..], false), // In another stripe no reader is misled.
        (&hidden[..], &[][..], true),
        (&reversed[..], &[][..], false),
    ] {
        for enforced in [true, false] {
            let snapshots = snapshots.iter().copied().collect();
            let settings = CompactionSettings {
                enforce_single_del_contracts: enforced,
                ..settings(&icmp, &snapshots, false, &list)
            };
            let entries = Entries::new(run_of(input).entries, &icmp);
            let mut entries = CompactionIterator::new(entries, settings);
            entries.seek_to_first();
            while entries.valid() {
                entries.next();
            }
            let misuse = entries.status().is_err_and(|error| error.is_corruption());
            assert_eq!(misuse, enforced && misused, "{input:?} {snapshots:?}");
        }
    }
}

#[pumice_test_macros::test]
fn a_long_run_of_single_deletions_needs_no_deep_stack() {
    let many: Vec<_> = (0..200_000)
        .map(|s| (key::internal_key(b"k", s + 1, ValueType::SingleDeletion), Vec::new()))
        .collect();
    let out = compact_bytewise(&Run { entries: many, tombstones: Vec::new() }, &[], false);
    assert_eq!(out.entries.len(), 1);
}

#[pumice_test_macros::test]
fn the_bottommost_level_keeps_what_is_visible_with_sequence_zero() {
    use ValueType::{Deletion, Merge, Value};
    let input = run_of(&[
        ("a", 5, Value, "a5"),
        ("b", 6, Deletion, ""),
        ("b", 2, Value, "b2"),
        ("c", 7, Merge, "c7"),
        ("c", 3, Merge, "c3"),
    ]);
    let out = compact_bytewise(&input, &[], true);
    let keys: Vec<_> = out.entries.iter().map(|(k, _)| k.clone()).collect();
    let zero = |k: &[u8]| key::internal_key(k, 0, Value);
    assert_eq!(keys, [zero(b"a"), zero(b"c")]);
    assert_eq!(out.entries[1].1, b"c3,c7");
    // A snapshot that sees the value keeps value and tombstone.
    let out = compact_bytewise(&input, &[4], true);
    assert_eq!(out.entries.len(), 5);
}

#[pumice_test_macros::test]
fn entries_of_unknown_type_are_corruption() {
    let icmp = InternalKeyComparator::new(Comparator::Bytewise);
    let mut key = key::seek_key(b"k", 3);
    let len = key.len();
    key[len - 8] = 0x7e;
    let list = Arc::new(FragmentedTombstones::empty());
    let settings = settings(&icmp, &BTreeSet::new(), false, &list);
    let mut entries =
        CompactionIterator::new(Entries::new(vec![(key, Vec::new())], &icmp), settings);
    entries.seek_to_first();
    assert!(!entries.valid());
    assert!(entries.status().unwrap_err().is_corruption());
}
