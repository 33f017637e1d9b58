//! Which runs are merged, case by case. Runs are written newest first: `5` is an L0 file of that
//! size, `7@3` a level; `*` after one says that it is being compacted, `5+9` that tombstones make
//! it count 9 more.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::key::{CustomComparator, ValueType, internal_key};
use pumice_base::{Comparator, InternalKeyComparator};
use pumice_manifest::{
    FileMarks, FileMetaData, LevelTargets, LeveledOptions, Version, VersionBuilder, VersionEdit,
};

use super::choose::Run;
use super::{PickContext, RunningCompactions, UniversalRules};
use crate::compaction::plan::shape;
use crate::options::ColumnFamilyOptions;

fn rules() -> UniversalRules {
    UniversalRules {
        trigger: 4,
        stop_writes_trigger: 36,
        size_ratio: 1,
        min_merge_width: 2,
        max_merge_width: u32::MAX,
        max_size_amplification_percent: 200,
        compression_size_percent: -1,
        max_read_amp: -1,
        similar_size: false,
        allow_trivial_move: false,
        incremental: false,
        write_buffer_size: 1 << 20,
        max_compaction_bytes: 1000,
    }
}

fn run(text: &str) -> Run {
    let (text, busy) = match text.strip_suffix('*') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (sizes, level) = text.split_once('@').unwrap_or((text, "0"));
    let (size, bonus) = sizes.split_once('+').unwrap_or((sizes, "0"));
    let size = size.parse().unwrap();
    let compensated = size + bonus.parse::<u64>().unwrap();
    Run { level: level.parse().unwrap(), size, compensated, busy }
}

fn runs(text: &str) -> Vec<Run> {
    text.split_whitespace().map(run).collect()
}

#[pumice_test_macros::test]
fn a_merge_because_of_age_takes_the_idle_end() {
    for (tree, expected) in [
        ("1 2 3 4@6", Some(0..4)),
        ("1 2* 3 4@6", Some(2..4)),
        ("1 2 3 4@6*", None),
        ("1 2 3* 4", Some(3..4)),
        ("", None),
    ] {
        assert_eq!(UniversalRules::idle_end(&runs(tree)), expected, "{tree}");
    }
}

#[pumice_test_macros::test]
fn size_amplification_is_what_is_newer_over_what_is_oldest() {
    let zero = UniversalRules { max_size_amplification_percent: 0, ..rules() };
    let half = UniversalRules { max_size_amplification_percent: 50, ..rules() };
    for (rules, tree, expected) in [
        // 199 and 200 percent.
        (rules(), "99 50 50 100@6", None),
        (rules(), "100 50 50 100@6", Some((0..4, 200))),
        // Tombstones count, but not those of the oldest run.
        (rules(), "99+1 50 50 100@6", Some((0..4, 200))),
        (rules(), "99 50 50 100+7@6", None),
        // Runs that are busy end the stretch; a busy oldest run leaves nothing to compare with.
        (rules(), "500* 100 100 100@6", Some((1..4, 200))),
        (rules(), "500 100* 100 100@6", None),
        (rules(), "500 100 100 100@6*", None),
        // One run alone has nothing newer.
        (zero.clone(), "100@6", None),
        (zero, "1 100@6", Some((0..2, 1))),
        (half.clone(), "49 100", None),
        (half, "50 100", Some((0..2, 50))),
    ] {
        assert_eq!(rules.by_size_amplification(&runs(tree)), expected, "{tree}");
    }
}

/// Room before writes stop is 36 - runs; a merge of more leaves the newest files of L0 out.
#[pumice_test_macros::test]
fn merges_for_size_leave_room_before_writes_stop() {
    let stop = |stop_writes_trigger: usize, max_merge_width: u32| UniversalRules {
        stop_writes_trigger,
        max_merge_width,
        max_size_amplification_percent: 100,
        ..rules()
    };
    for (rules, tree, expected) in [
        // Room for 6 runs: merges of width 2 leave none out; merges of unbounded width leave out as
        // many as they may, which is a tenth of the bytes at most, and one L0 file takes part.
        (stop(12, u32::MAX), "1 1 1 50 50 60@6", Some((3..6, 100))),
        (stop(12, 2), "1 1 1 50 50 60@6", Some((0..6, 103))),
        (stop(12, 8), "1 1 1 50 50 60@6", Some((2..6, 101))),
        // With the third file more than a tenth of the bytes would be left out.
        (stop(12, u32::MAX), "1 1 11 50 50 60@6", Some((2..6, 111))),
        // Without the third file there would be no need for the merge.
        (stop(12, u32::MAX), "1 1 1 50 50 101@6", Some((2..6, 101))),
        // No room at all: two would have to be left out, and cannot be.
        (stop(6, 2), "20 20 20 20 20 60@6", Some((0..6, 100))),
        (stop(6, 2), "1 1 20 20 20 60@6", Some((2..6, 60))),
        // Only levels: nothing is left out.
        (stop(2, u32::MAX), "1@3 60@4 60@6", Some((0..3, 61))),
        (stop(2, u32::MAX), "1 60@4 60@6", Some((0..3, 61))),
        // If only one L0 file is newer than the oldest run, it takes part; of two, one does.
        (stop(2, u32::MAX), "60 1", Some((0..2, 60))),
        (stop(2, u32::MAX), "1 60 50", Some((1..3, 60))),
    ] {
        assert_eq!(rules.by_size_amplification(&runs(tree)), expected, "{tree} {rules:?}");
    }
}

#[pumice_test_macros::test]
fn runs_of_similar_size_are_merged() {
    let similar = UniversalRules { similar_size: true, size_ratio: 10, ..rules() };
    let narrow = UniversalRules { max_merge_width: 3, ..rules() };
    let wide = UniversalRules { min_merge_width: 4, ..rules() };
    let loose = UniversalRules { size_ratio: 100, ..rules() };
    let strict = UniversalRules { size_ratio: 0, min_merge_width: 0, ..rules() };
    for (rules, tree, expected) in [
        (rules(), "1 1 2 4 8", Some(0..5)),
        (rules(), "1 2 4 8", None),
        // 101 percent of 100 is enough for 101, not for 102.
        (rules(), "100 101 500@6", Some(0..2)),
        (rules(), "100 102 500@6", None),
        // Tombstones count for what was taken, not for what is next.
        (rules(), "100+1 102 500@6", Some(0..2)),
        (rules(), "100 101+50 253 900@6", Some(0..3)),
        // A later start, beyond what is too small and what is busy.
        (rules(), "1 100 100 900@6", Some(1..3)),
        (rules(), "5 5* 5 5 900@6", Some(2..4)),
        (rules(), "5 5* 5 900@6", None),
        (narrow, "5 5 5 5 5@6", Some(0..3)),
        (wide.clone(), "5 5 5 900@6", None),
        (wide, "5 5 5 5 900@6", Some(0..4)),
        (loose, "1 2 6 900@6", Some(0..3)),
        (strict.clone(), "2 1 3 900@6", Some(0..3)),
        (strict, "2 1 4 900@6", Some(0..2)),
        // Each is compared with its neighbour: both ways.
        (similar.clone(), "10 11 12 13 14@6", Some(0..5)),
        (similar.clone(), "10 11 13 14 90@6", Some(0..2)),
        (similar.clone(), "90 10 11 90@6", Some(1..3)),
        (similar, "10 20 10 20@6", None),
    ] {
        assert_eq!(rules.by_size_ratio(&runs(tree)), expected, "{tree} {rules:?}");
    }
}

#[pumice_test_macros::test]
fn too_many_runs_are_merged_whatever_their_sizes() {
    let limit = |max_read_amp: i32| UniversalRules { max_read_amp, ..rules() };
    let narrow = UniversalRules { max_merge_width: 2, ..rules() };
    let wide = UniversalRules { min_merge_width: 3, ..rules() };
    for (rules, tree, expected) in [
        (rules(), "1 2 4 8", None),
        (rules(), "1 2 4 8 16", Some(0..2)),
        (rules(), "1 2 4 8 16 32@5 64@6", Some(0..4)),
        // Busy runs do not count, and end a stretch.
        (rules(), "1 2 4* 8 16 32@6", Some(0..2)),
        (rules(), "1* 2 4 8 16@6", None),
        (rules(), "1 2* 4 8 16 32@6", Some(2..4)),
        (narrow, "1 2 4 8 16 32@5 64@6", Some(0..2)),
        (wide, "1 2 4 8 16", None),
        (limit(6), "1 2 4 8 16 32@6", None),
        (limit(6), "1 2 4 8 16 32@5 64@6", Some(0..2)),
    ] {
        assert_eq!(rules.by_run_count(&runs(tree)), expected, "{tree} {rules:?}");
    }
}

/// Sizes from a memtable of 100 on, each 1.5 times all before: 100, 150, 375, 938, 2345.
#[pumice_test_macros::test]
fn an_automatic_limit_follows_the_largest_run() {
    let automatic =
        UniversalRules { max_read_amp: 0, size_ratio: 50, write_buffer_size: 100, ..rules() };
    for (tree, expected) in [
        ("", 1),
        ("100", 1),
        ("101", 2),
        ("7 150@6 3", 2),
        ("151", 3),
        ("375", 3),
        ("376", 4),
        ("900 937", 4),
        ("2000@6", 5),
    ] {
        assert_eq!(automatic.run_limit(&runs(tree)), expected, "{tree}");
    }
    let similar = UniversalRules { similar_size: true, ..automatic };
    assert_eq!(similar.run_limit(&runs("2000")), 4);
}

#[pumice_test_macros::test]
fn the_oldest_share_of_bytes_is_compressed() {
    let percent = |compression_size_percent| UniversalRules { compression_size_percent, ..rules() };
    for (rules, tree, end, expected) in [
        (percent(-1), "10 10 80@6", 2, false),
        (percent(80), "10 10 80@6", 2, true),
        (percent(81), "10 10 80@6", 2, false),
        (percent(80), "10 10 40@5 40@6", 2, true),
        (percent(80), "10+1 10 80@6", 2, false),
        (percent(0), "10 10 80@6", 2, true),
        // With the oldest run included there is no older run that could be the compressed part.
        (percent(0), "10 10 80@6", 3, false),
    ] {
        assert_eq!(rules.leaves_uncompressed(&runs(tree), end), expected, "{tree} {rules:?}");
    }
}

/// Counts how often keys are compared.
#[derive(Default)]
struct Counting(AtomicU64);

impl CustomComparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        self.0.fetch_add(1, Ordering::Relaxed);
        a.cmp(b)
    }
}

/// Which part of the two oldest runs to take is decided under the lock of the state: the work grows
/// with the files of one, not of both.
#[pumice_test_macros::test]
fn a_piece_is_found_without_looking_through_the_lower_run_for_each_file() {
    const FILES: u32 = 500;
    let counting = Arc::new(Counting::default());
    let order = Comparator::Custom(Arc::clone(&counting) as Arc<dyn CustomComparator>);
    let mut edit = VersionEdit::default();
    for (level, first_number) in [(3, 1), (5, 1 + FILES)] {
        for n in 0..FILES {
            let ikey = |key: u32| internal_key(&key.to_be_bytes(), 9, ValueType::Value);
            let file = FileMetaData {
                number: u64::from(first_number + n),
                file_size: 10,
                smallest: ikey(n * 10 + level),
                largest: ikey(n * 10 + level + 2),
                ..Default::default()
            };
            edit.add_file(level as usize, Arc::new(file));
        }
    }
    let mut builder = VersionBuilder::new(Version::empty(InternalKeyComparator::new(order), 7));
    builder.apply(&edit).unwrap();
    let version = builder.build().unwrap();
    let options = LeveledOptions {
        level_compaction_dynamic_level_bytes: false,
        target_file_size_base: 10,
        ..shape(&ColumnFamilyOptions::default())
    };
    let ctx = PickContext {
        version: &version,
        targets: &LevelTargets::compute(&version, &options),
        options: &options,
        running: &RunningCompactions::default(),
        young: None,
    };
    let rules = UniversalRules {
        max_size_amplification_percent: 50,
        incremental: true,
        trigger: 2,
        max_compaction_bytes: 100,
        ..rules()
    };
    counting.0.store(0, Ordering::Relaxed);
    let pick = rules.pick(&ctx, &FileMarks::default()).unwrap();
    assert!(pick.input_files().count() < 200, "a piece: {}", pick.input_files().count());
    let compared = counting.0.load(Ordering::Relaxed);
    assert!(compared < u64::from(FILES) * 200, "{compared}");
}
