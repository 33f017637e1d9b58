//! A random tree with contents that is flushed into and compacted by picks.
//!
//! Several compactions run at once and end in any order. After every step the newest version of
//! each key must be found first, by the order in which a read looks at files; picks must keep
//! the invariants of the picker; and a tree left alone must come to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pumice_base::key::{ValueType, internal_key};
use pumice_base::{Comparator, InternalKey, InternalKeyComparator};
use pumice_manifest::{
    CompactionPri, FileMarks, FileMetaData, LevelScores, LevelTargets, LeveledOptions, MarkRules,
    Preclusion, UserRange, Version, VersionBuilder, VersionEdit,
};

use super::super::{
    CompactionPick, PickContext, PriorityCache, Reach, Registered, RunningCompactions,
    UniversalRules, Young, pick,
};
use crate::compaction::plan::shape;
use crate::options::ColumnFamilyOptions;

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Key and sequence number, newest version of a key first.
type Entries = Vec<(u32, u64)>;

struct Simulation {
    options: LeveledOptions,
    /// Universal compaction instead of leveled.
    universal: Option<UniversalRules>,
    version: Arc<Version>,
    running: RunningCompactions,
    cache: PriorityCache,
    jobs: Vec<(Registered, CompactionPick)>,
    contents: BTreeMap<u64, Entries>,
    newest: BTreeMap<u32, u64>,
    next_file: u64,
    next_seq: u64,
    next_epoch: u64,
    /// Versions of a key are kept, so that keys span files.
    keep_versions: bool,
    /// The next file is marked for compaction.
    mark_next: bool,
    /// So many of the newest sequence numbers are young, with `LeveledOptions::preclusion`.
    window: u64,
    rewritten: u64,
    moved: u64,
}

fn user_key(key: u32) -> [u8; 4] {
    key.to_be_bytes()
}

impl Simulation {
    fn new(options: LeveledOptions, levels: usize, keep_versions: bool) -> Self {
        let icmp = InternalKeyComparator::new(Comparator::Bytewise);
        Simulation {
            options,
            universal: None,
            version: Version::empty(icmp, levels),
            running: RunningCompactions::default(),
            cache: PriorityCache::default(),
            jobs: Vec::new(),
            contents: BTreeMap::new(),
            newest: BTreeMap::new(),
            next_file: 1,
            next_seq: 1,
            next_epoch: 1,
            keep_versions,
            mark_next: false,
            window: 0,
            rewritten: 0,
            moved: 0,
        }
    }

    fn new_file(&mut self, entries: Entries, epoch: u64) -> Arc<FileMetaData> {
        let ikey = |(key, seq): (u32, u64)| internal_key(&user_key(key), seq, ValueType::Value);
        let number = self.next_file;
        self.next_file += 1;
        let seqs = || entries.iter().map(|&(_, seq)| seq);
        let file = FileMetaData {
            number,
            file_size: entries.len() as u64,
            smallest: ikey(*entries.first().unwrap()),
            largest: ikey(*entries.last().unwrap()),
            smallest_seq: seqs().min().unwrap(),
            largest_seq: seqs().max().unwrap(),
            epoch_number: epoch,
            // One entry is written each second.
            oldest_ancester_time: seqs().min().unwrap(),
            marked_for_compaction: self.mark_next,
            ..Default::default()
        };
        self.contents.insert(number, entries);
        Arc::new(file)
    }

    fn install(&mut self, edit: &VersionEdit) {
        let mut builder = VersionBuilder::new(self.version.clone());
        builder.apply(edit).unwrap();
        self.version = builder.build().unwrap();
    }

    fn flush(&mut self, keys: impl IntoIterator<Item = u32>) {
        let mut entries = Entries::new();
        for key in keys {
            entries.push((key, self.next_seq));
            self.newest.insert(key, self.next_seq);
            self.next_seq += 1;
        }
        entries.sort_by_key(|&(key, seq)| (key, u64::MAX - seq));
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        let mut edit = VersionEdit::default();
        self.mark_next = self.universal.is_some() && epoch.is_multiple_of(5);
        edit.add_file(0, self.new_file(entries, epoch));
        self.mark_next = false;
        self.install(&edit);
    }

    /// The newest entry that is old.
    fn since(&self) -> u64 {
        (self.next_seq - 1).saturating_sub(self.window)
    }

    fn targets(&self) -> LevelTargets {
        LevelTargets::compute(&self.version, &self.options)
    }

    fn scores(&self) -> LevelScores {
        let files = self.running.files();
        LevelScores::compute(&self.version, &self.targets(), &self.options, files)
    }

    /// The next compaction, if there is one. `aged`: the files of the last level are too old.
    fn next_pick(&mut self, aged: bool) -> Option<CompactionPick> {
        let targets = self.targets();
        let rules = MarkRules {
            reclaim_seconds: None,
            keeps_times: false,
            preclude: 0,
            blob_garbage: None,
            reads_per_byte: 0.0,
            oldest_snapshot: 0,
            now: 0,
            bottommost_delay: 0,
            ttl: 0,
            periodic: 0,
            offpeak: pumice_manifest::Offpeak::default(),
            allow_ingest_behind: self.options.reserved_last_level,
        };
        let mut marks = FileMarks::compute(&self.version, &rules);
        if aged {
            let last = self.version.files(self.last_level()).iter();
            let idle = last.filter(|file| !file.is_being_compacted());
            marks.periodic = idle.map(|file| (self.last_level(), file.clone())).collect();
        }
        let ctx = PickContext {
            version: &self.version,
            targets: &targets,
            options: &self.options,
            running: &self.running,
            young: Some(Young { since: self.since(), oldest_snapshot: u64::MAX }),
        };
        match &self.universal {
            Some(rules) => rules.pick(&ctx, &marks.without_levels()),
            None => {
                let scores = self.scores();
                let mut within = |reach| pick(&ctx, &scores, &marks, &mut self.cache, reach);
                let merge =
                    if self.next_seq.is_multiple_of(4) { within(Reach::Merges) } else { None };
                merge.or_else(|| within(Reach::All))
            }
        }
    }

    /// Starts the next compaction, if there is one.
    fn start(&mut self) -> bool {
        self.start_next(false)
    }

    fn start_next(&mut self, aged: bool) -> bool {
        let Some(pick) = self.next_pick(aged) else { return false };
        self.check_pick(&pick);
        let id = self.running.register(&pick, self.version.comparator());
        self.jobs.push((id, pick));
        true
    }

    /// The invariants of picks.
    fn check_pick(&self, pick: &CompactionPick) {
        let icmp = self.version.comparator();
        let inside: BTreeSet<u64> = pick.input_files().map(|(_, f)| f.number).collect();
        let all = UserRange::of_files(icmp, pick.inputs.iter().flat_map(|i| &i.files));
        assert!(pick.input_files().all(|(_, f)| !f.is_being_compacted()));
        let into_level0 = pick.output_level == 0;
        assert!(into_level0 || !self.running.writes_into(pick.output_level, &all, &icmp.user));
        for input in &pick.inputs {
            for file in &input.files {
                let own = UserRange::of_file(file);
                let outside =
                    self.version.files(input.level).iter().filter(|f| !inside.contains(&f.number));
                for other in outside {
                    let older = other.age_key() < file.age_key();
                    let clash = own.overlaps(&UserRange::of_file(other), &icmp.user);
                    let allowed = input.level == 0 && (into_level0 || !older);
                    assert!(!clash || allowed, "{other:?} left out beside {file:?}");
                }
            }
        }
        for other in self.version.files(pick.output_level) {
            let outside = !inside.contains(&other.number);
            let clash = UserRange::of_file(other).overlaps(&all, &icmp.user);
            let disjoint_moves = pick.is_trivial_move
                && pick.input_files().all(|(_, f)| {
                    !UserRange::of_file(f).overlaps(&UserRange::of_file(other), &icmp.user)
                });
            assert!(into_level0 || !outside || !clash || disjoint_moves, "{other:?} not an input");
        }
        self.check_bottommost(pick, &inside, &all);
        if let Some(output) = &pick.outputs.proximal {
            let (level, range) = (output.range.level, output.range.range());
            assert_eq!((level + 1, pick.output_level), (pick.output_level, self.last_level()));
            assert!(level > 0 && !pick.is_trivial_move);
            assert!(!self.running.writes_into(level, &range, &icmp.user));
            for other in self.version.files(level).iter().filter(|f| !inside.contains(&f.number)) {
                assert!(!UserRange::of_file(other).overlaps(&range, &icmp.user), "{other:?}");
            }
        }
    }

    fn last_level(&self) -> usize {
        self.version.num_levels() - 1
    }

    /// Sequence numbers may be zeroed if nothing older has the keys, nor will have; in L0 only if
    /// nothing older is there at all.
    fn check_bottommost(&self, pick: &CompactionPick, inside: &BTreeSet<u64>, all: &UserRange<'_>) {
        let cmp = &self.version.comparator().user;
        let deeper = self.version.levels().iter().skip(pick.output_level + 1);
        let covered = deeper
            .flat_map(|level| level.files())
            .any(|file| UserRange::of_file(file).overlaps(all, cmp));
        let oldest = self.version.files(0).last().map(|file| file.number);
        let is_last = pick.output_level > 0 || oldest.is_some_and(|last| inside.contains(&last));
        let expected = is_last && !covered && !self.options.reserved_last_level;
        assert_eq!(pick.bottommost, expected, "{pick:?}\n{:?}", self.version);
        let in_use = self.version.num_levels() - usize::from(self.options.reserved_last_level);
        assert!(pick.output_level < in_use, "{pick:?}");
    }

    /// Ends job `index`: moves its files, or merges and splits them.
    fn finish(&mut self, index: usize, rng: &mut Rng) {
        let (id, pick) = self.jobs.swap_remove(index);
        let mut edit = VersionEdit::default();
        let mut merged = Entries::new();
        for (level, file) in pick.input_files() {
            if pick.is_trivial_move && level == pick.output_level {
                continue;
            }
            edit.delete_file(level, file.number);
            if pick.is_trivial_move {
                self.moved += file.file_size;
                edit.add_file(pick.output_level, file.clone());
            } else {
                self.rewritten += file.file_size;
                merged.extend(self.contents.remove(&file.number).unwrap());
            }
        }
        merged.sort_by_key(|&(key, seq)| (key, u64::MAX - seq));
        if !self.keep_versions {
            merged.dedup_by_key(|&mut (key, _)| key);
        }
        if let Some(output) = &pick.outputs.proximal {
            let after = self.since().max(output.kept_through);
            let (up, down): (Entries, Entries) = merged.iter().partition(|(_, seq)| *seq > after);
            let (range, cmp) = (output.range.range(), &self.version.comparator().user);
            for (key, _) in &up {
                let key = user_key(*key);
                assert!(UserRange::closed(Some(&key), Some(&key)).overlaps(&range, cmp));
            }
            self.write(&mut edit, &pick, output.range.level, up, rng);
            merged = down;
        }
        self.write(&mut edit, &pick, pick.output_level, merged, rng);
        self.install(&edit);
        self.running.unregister(id);
    }

    /// Adds files of `level` with these entries.
    fn write(
        &mut self,
        edit: &mut VersionEdit,
        pick: &CompactionPick,
        level: usize,
        mut merged: Entries,
        rng: &mut Rng,
    ) {
        while !merged.is_empty() {
            let size = match level {
                0 => merged.len(),
                _ => (pick.target_output_file_size as usize - rng.below(3) as usize).max(1),
            };
            let rest = merged.split_off(size.min(merged.len()));
            let file = self.new_file(merged, pick.output_epoch());
            edit.add_file(level, file);
            merged = rest;
        }
    }

    /// A read meets the newest version of every key first.
    fn check_reads(&self) {
        for (&key, &newest) in &self.newest {
            let ikey = internal_key(&user_key(key), newest, ValueType::Value);
            let find = |f: &Arc<FileMetaData>| {
                let entries = &self.contents[&f.number];
                entries.iter().find(|&&(k, _)| k == key).map(|&(_, seq)| seq)
            };
            let seek = pumice_base::key::seek_key(&user_key(key), u64::MAX >> 8);
            let found = (0..self.version.num_levels()).find_map(|level| {
                self.version.candidates(level, InternalKey::new(&seek)).find_map(find)
            });
            assert_eq!(found, Some(newest), "key {key} ({ikey:?})\n{:?}", self.version);
        }
    }

    /// Compacts until nothing needs compaction.
    fn settle(&mut self, rng: &mut Rng) {
        for _ in 0..10_000 {
            while self.start() {}
            if self.jobs.is_empty() {
                let scores = self.scores();
                // The level above the last one may be too large for young entries.
                let young = |level: usize| self.window > 0 && level + 1 == self.last_level();
                let mut due = scores.by_score.iter().filter(|(score, _)| *score >= 1.0);
                let needs = self.universal.is_none() && due.any(|(_, level)| !young(*level));
                assert!(!needs, "{scores:?}\n{:?}", self.version);
                return;
            }
            let index = rng.below(self.jobs.len() as u64) as usize;
            self.finish(index, rng);
        }
        panic!("the tree does not come to rest\n{:?}", self.version);
    }
}

fn random_options(rng: &mut Rng) -> LeveledOptions {
    LeveledOptions {
        level0_file_num_compaction_trigger: 2 + rng.below(4) as usize,
        max_bytes_for_level_base: 40 + rng.below(100),
        max_bytes_for_level_multiplier: [2.0, 4.0, 10.0][rng.below(3) as usize],
        level_compaction_dynamic_level_bytes: rng.below(2) == 0,
        target_file_size_base: 10 + rng.below(20),
        target_file_size_multiplier: 1 + rng.below(2) as u32,
        max_compaction_bytes: [0, 60, 200][rng.below(3) as usize],
        compaction_pri: [
            CompactionPri::ByCompensatedSize,
            CompactionPri::OldestLargestSeqFirst,
            CompactionPri::OldestSmallestSeqFirst,
            CompactionPri::MinOverlappingRatio,
            CompactionPri::RoundRobin,
        ][rng.below(5) as usize],
        ..shape(&ColumnFamilyOptions::default())
    }
}

/// Flushes and compactions begin and end in any order; then the tree is left alone.
fn live(tree: &mut Simulation, rng: &mut Rng) {
    let (keys, max_jobs) = (50 + rng.below(400), 1 + rng.below(4) as usize);
    for _ in 0..120 {
        match rng.below(3) {
            0 => {
                let base = rng.below(keys);
                let spread = 1 + rng.below(keys);
                let n = 1 + rng.below(30);
                let picked: Vec<u32> = (0..n).map(|_| (base + rng.below(spread)) as u32).collect();
                tree.flush(picked);
            }
            1 if tree.jobs.len() < max_jobs => {
                let split = tree.options.preclusion != Preclusion::Off;
                tree.start_next(split && rng.below(3) == 0);
                if split && rng.below(8) == 0 {
                    tree.window = 1 + rng.below(1000);
                }
            }
            _ if !tree.jobs.is_empty() => {
                let index = rng.below(tree.jobs.len() as u64) as usize;
                tree.finish(index, rng);
                tree.check_reads();
            }
            _ => {}
        }
    }
    tree.settle(rng);
    tree.check_reads();
    assert!(tree.running.is_empty());
    assert!(tree.version.all_files().all(|(_, f)| !f.is_being_compacted()));
}

#[pumice_test_macros::test]
fn random_trees_stay_correct_and_come_to_rest() {
    for seed in 0..150 {
        let rng = &mut Rng(seed);
        let mut options = random_options(rng);
        let levels = 2 + rng.below(6) as usize;
        options.reserved_last_level = levels > 2 && seed % 4 == 3;
        println!("seed {seed} {options:?}");
        let mut tree = Simulation::new(options, levels, rng.below(2) == 0);
        live(&mut tree, rng);
    }
}

/// Young entries stay above the last level, and no file there is rewritten for ever.
#[pumice_test_macros::test]
fn random_trees_with_young_entries_stay_correct_and_come_to_rest() {
    let mut split = 0;
    for seed in 0..600 {
        let rng = &mut Rng(seed);
        let mut options = random_options(rng);
        let is_universal = rng.below(2) == 0;
        options.level_compaction_dynamic_level_bytes &= !is_universal;
        options.preclusion =
            [Preclusion::Leveled, Preclusion::Universal][usize::from(is_universal)];
        let rules = random_rules(rng, &options);
        let levels = 3 + rng.below(4) as usize;
        println!("seed {seed} {options:?} {rules:?}");
        let mut tree = Simulation::new(options, levels, rng.below(2) == 0);
        tree.universal = is_universal.then_some(rules);
        tree.window = 1 + rng.below(1000);
        live(&mut tree, rng);
        let proximal = tree.version.files(levels - 2).iter();
        split += proximal.filter(|file| file.smallest_seq > tree.since()).count();
        // All is old at last.
        tree.next_seq += 2000;
        tree.settle(rng);
        tree.check_reads();
    }
    assert!(split > 100, "{split} files were wholly young");
}

fn random_rules(rng: &mut Rng, options: &LeveledOptions) -> UniversalRules {
    UniversalRules {
        trigger: options.level0_file_num_compaction_trigger,
        stop_writes_trigger: 6 + rng.below(20) as usize,
        size_ratio: [0, 1, 20, 100][rng.below(4) as usize],
        min_merge_width: rng.below(4) as u32,
        max_merge_width: [u32::MAX, 3, 8][rng.below(3) as usize],
        max_size_amplification_percent: [0, 50, 200, 1000][rng.below(4) as usize],
        compression_size_percent: [-1, 50][rng.below(2) as usize],
        max_read_amp: [-1, -1, 0, 8][rng.below(4) as usize],
        similar_size: rng.below(2) == 0,
        allow_trivial_move: rng.below(2) == 0,
        incremental: rng.below(2) == 0,
        write_buffer_size: 10,
        max_compaction_bytes: options.compaction_limit(),
    }
}

/// Bytes of all runs newer than the oldest one, as a percentage of the oldest run's bytes.
fn amplification(version: &Version) -> u64 {
    let Some(last) = version.num_non_empty_levels().checked_sub(1) else { return 0 };
    let oldest = match last {
        0 => version.files(0).last().map_or(0, |file| file.file_size),
        level => version.level_bytes(level),
    };
    (version.total_bytes() - oldest) * 100 / oldest.max(1)
}

/// Every order of ends leaves the newest versions to be found first, and a tree that was left alone
/// is within the limits that were set.
#[pumice_test_macros::test]
fn random_universal_trees_stay_correct_and_come_to_rest() {
    for seed in 0..400 {
        let rng = &mut Rng(seed);
        let mut options = random_options(rng);
        options.level_compaction_dynamic_level_bytes = false;
        let rules = random_rules(rng, &options);
        let levels = 1 + rng.below(7) as usize;
        options.reserved_last_level = levels > 2 && seed % 4 == 3;
        println!("seed {seed} {options:?} {rules:?}");
        let mut tree = Simulation::new(options, levels, rng.below(2) == 0);
        tree.universal = Some(rules.clone());
        live(&mut tree, rng);
        let runs = UniversalRules::runs(&tree.version);
        let fixed = rules.max_read_amp < 0 && rules.min_merge_width <= 2;
        assert!(!fixed || runs <= rules.trigger, "{runs} runs\n{:?}", tree.version);
        let percent = amplification(&tree.version);
        let limit = u64::from(rules.max_size_amplification_percent);
        assert!(runs < rules.trigger || percent < limit.max(1), "{percent} %\n{:?}", tree.version);
    }
}

#[pumice_test_macros::test]
fn sequential_loads_are_never_rewritten() {
    for (seed, dynamic) in [(1, true), (2, false)] {
        let rng = &mut Rng(seed);
        let options = LeveledOptions {
            max_bytes_for_level_base: 200,
            target_file_size_base: 20,
            max_bytes_for_level_multiplier: 4.0,
            level_compaction_dynamic_level_bytes: dynamic,
            ..shape(&ColumnFamilyOptions::default())
        };
        let mut tree = Simulation::new(options, 7, false);
        for n in 0..400 {
            tree.flush(n * 20..n * 20 + 20);
            if tree.jobs.len() < 3 {
                tree.start();
            } else {
                tree.finish(rng.below(3) as usize, rng);
            }
        }
        tree.settle(rng);
        tree.check_reads();
        assert_eq!(tree.rewritten, 0);
        assert!(tree.moved > 7000, "{}", tree.moved);
    }
}
