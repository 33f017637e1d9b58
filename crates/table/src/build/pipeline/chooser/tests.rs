//! The rules on sequences of blocks, without codecs.

use pumice_base::random::Rng;
use pumice_compress::{CompressionManager, CompressionOptions, CompressionType};

use super::*;

const RAW: usize = 4096;

/// A chooser of a table with these settings.
fn chooser(manager: Option<CompressionManager>, every: Option<u32>) -> Box<Chooser> {
    let context = TableBuildContext {
        compression_manager: manager,
        compression_opts: CompressionOptions {
            auto_skip: every.is_some(),
            auto_skip_min_sample_every: every.unwrap_or(0),
            ..CompressionOptions::default()
        },
        original_file_number: 7,
        ..TableBuildContext::default()
    };
    Chooser::new(&context, CompressionType::Zstd).expect("not always the same codec")
}

/// What becomes of a block that `chosen` is tried on, and that gets `bytes` long.
fn packed(chosen: CompressionType, bytes: usize) -> Packed {
    let outcome = match chosen {
        CompressionType::None => Outcome::Bypassed,
        _ if bytes > RAW * 7 / 8 => Outcome::Rejected,
        _ => Outcome::Compressed,
    };
    let bytes = if outcome == Outcome::Compressed { bytes } else { 0 };
    Packed { kind: chosen, outcome, bytes, nanos: 0 }
}

/// Which of the blocks with these compressed sizes are tried, if it is known `lag` blocks later
/// what became of them.
fn tried(mut chooser: Box<Chooser>, sizes: &[usize], lag: usize) -> Vec<bool> {
    let mut done: Vec<Packed> = Vec::new();
    for (number, &bytes) in sizes.iter().enumerate() {
        if let Some(before) = number.checked_sub(lag) {
            chooser.note(lag, done[before]);
        }
        done.push(packed(chooser.data_block(RAW), bytes));
    }
    done.iter().map(|packed| packed.outcome != Outcome::Bypassed).collect()
}

fn count(tried: &[bool]) -> usize {
    tried.iter().filter(|&&tried| tried).count()
}

const SKIPS: Option<CompressionManager> = Some(CompressionManager::AutoSkip);

/// Some settings of both rules.
fn choosers() -> [fn() -> Box<Chooser>; 3] {
    [|| chooser(SKIPS, None), || chooser(None, Some(0)), || chooser(None, Some(5))]
}

#[pumice_test_macros::test]
fn it_does_not_matter_how_early_results_are_known() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut sizes = Vec::new();
        while sizes.len() < 3000 {
            let (share, packed) = (rng.uniform(11), rng.uniform(RAW as u64) as usize);
            for _ in 0..rng.uniform(300) {
                sizes.push(if rng.uniform(10) < share { packed } else { RAW });
            }
        }
        for chooser in choosers() {
            let late = tried(chooser(), &sizes, LAG);
            assert!((1..sizes.len()).contains(&count(&late)), "some are skipped, not all");
            for lag in [1, 8, 16] {
                assert!(tried(chooser(), &sizes, lag) == late, "lag {lag}");
            }
        }
    }
}

#[pumice_test_macros::test]
fn hopeless_blocks_are_passed_over_until_the_data_changes() {
    let sizes: Vec<usize> = (0..4000).map(|i| if i < 3000 { RAW } else { RAW / 2 }).collect();
    let [rejections, ratio, often] = choosers().map(|chooser| tried(chooser(), &sizes, 1));
    // The first results are known after LAG blocks.
    for (tried, needed) in [(&rejections, TRIES as usize), (&ratio, 8), (&often, 8)] {
        assert!(tried[..LAG + needed - 1].iter().all(|&tried| tried));
        assert!(!tried[LAG + needed], "{needed}");
        // Once it is clear that they compress again, all are tried.
        assert!(tried[3300..].iter().all(|&tried| tried), "{needed}");
    }
    // One in ten is explored, and one after 64 or 5 skipped.
    let explored = count(&rejections[100..3000]);
    assert!((200..400).contains(&explored), "{explored}");
    for (tried, every) in [(&ratio, 65), (&often, 6)] {
        let numbers: Vec<usize> = (100..3000).filter(|&number| tried[number]).collect();
        assert!(numbers.len() > 40 && numbers.windows(2).all(|two| two[1] - two[0] == every));
    }
}

/// Two in three blocks are rejected, but the third one gets so small that trying pays.
#[pumice_test_macros::test]
fn the_option_looks_at_what_is_saved_and_the_manager_at_how_often() {
    let sizes: Vec<usize> = (0..1200).map(|i| if i % 3 == 0 { RAW / 10 } else { RAW }).collect();
    let [rejections, ratio, _] = choosers().map(|chooser| tried(chooser(), &sizes, 1));
    assert!(ratio.iter().all(|&tried| tried));
    assert!(count(&rejections) < 400, "{}", count(&rejections));
    // It does not pay if the small ones are few.
    let sizes: Vec<usize> = (0..6000).map(|i| if i % 100 == 0 { RAW / 2 } else { RAW }).collect();
    assert!(count(&tried(chooser(None, Some(0)), &sizes, 1)) < 3000);
}

#[pumice_test_macros::test]
fn a_rotation_gives_each_codec_its_turn() {
    let mut all = chooser(Some(CompressionManager::RoundRobin), None);
    let codecs = all.rotation.len();
    let first: Vec<_> = (0..codecs).map(|_| all.data_block(RAW)).collect();
    let mut sorted: Vec<u8> = first.iter().map(|kind| *kind as u8).collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), codecs);
    assert_eq!(
        first[0],
        all.rotation[7 % codecs],
        "the origin of the file decides where it begins"
    );
    // Index blocks go on, data blocks too unless they have a dictionary.
    let second: Vec<_> = (0..codecs)
        .map(|i| if i % 2 == 0 { all.other_block() } else { all.data_block(RAW) })
        .collect();
    assert_eq!(first, second);
    all.use_dictionary();
    assert!((0..codecs).all(|_| all.data_block(RAW) == CompressionType::Zstd));
    assert_eq!((0..codecs).map(|_| all.other_block()).collect::<Vec<_>>(), first);
}

#[pumice_test_macros::test]
fn a_table_of_one_codec_has_no_chooser() {
    let none = |manager, kind, auto_skip| {
        let mut context = TableBuildContext { compression_manager: manager, ..Default::default() };
        context.compression_opts.auto_skip = auto_skip;
        Chooser::new(&context, kind).is_none()
    };
    assert!(none(None, CompressionType::Zstd, false));
    assert!(none(Some(CompressionManager::BuiltinV2), CompressionType::Zstd, false));
    assert!(none(Some(CompressionManager::CostAware), CompressionType::Zstd, false));
    assert!(none(SKIPS, CompressionType::None, true));
    assert!(!none(Some(CompressionManager::BuiltinV2), CompressionType::Lz4, true));
}
