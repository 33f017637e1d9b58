//! Damaged, torn and recycled logs: what is read from them, in each recovery mode.

use super::*;

fn is_subsequence(part: &[Vec<u8>], whole: &[Vec<u8>]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|p| rest.any(|w| w == p))
}

#[pumice_test_macros::test]
fn each_flipped_bit_is_noticed_in_each_mode() {
    let records: Vec<Vec<u8>> = vec![
        b"first record".to_vec(),
        vec![b'x'; 40],
        Rng::new(1).bytes(60),
        b"one more".to_vec(),
        b"the last".to_vec(),
    ];
    for recycle in [false, true] {
        let good = write_log(&records, recycle);
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            for mode in MODES {
                let outcome = read_log(&bytes, mode);
                let context = format!("recycle {recycle} bit {bit} {mode:?}");
                assert!(outcome.records.len() < records.len(), "{context}");
                let noticed = outcome.end != LogEnd::EndOfFile || outcome.dropped > 0;
                if mode == WalRecoveryMode::SkipAnyCorrupted {
                    assert!(outcome.error.is_none(), "{context}");
                    assert!(is_subsequence(&outcome.records, &records), "{context}");
                    // An old record is skipped without being counted.
                    assert!(noticed || recycle, "{context}");
                } else {
                    assert!(records.starts_with(&outcome.records), "{context}");
                    assert!(noticed, "{context}: {:?}", outcome.end);
                }
                // Only the first type byte tells the kind of log.
                let says_kind = (48..56).contains(&bit);
                if mode == WalRecoveryMode::AbsoluteConsistency && !recycle && !says_kind {
                    assert!(outcome.error.unwrap().is_corruption(), "{context}");
                }
            }
        }
    }
}

#[pumice_test_macros::test]
fn damage_in_an_early_block_costs_that_block_only_when_skipping() {
    let mut rng = Rng::new(5);
    let records: Vec<Vec<u8>> = (0..300).map(|_| rng.bytes(1000)).collect();
    let good = write_log(&records, false);
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut bytes = good.clone();
        let at = rng.uniform(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << rng.uniform(8);
        let skipped = read_log(&bytes, WalRecoveryMode::SkipAnyCorrupted);
        assert!(skipped.error.is_none(), "seed {seed}");
        assert!(is_subsequence(&skipped.records, &records), "seed {seed}");
        let lost = records.len() - skipped.records.len();
        assert!((1..=34).contains(&lost), "seed {seed}: {lost} lost");
        assert!(skipped.reported > 0 || skipped.dropped > 0, "seed {seed}");
        let exact = read_log(&bytes, WalRecoveryMode::PointInTime);
        assert!(records.starts_with(&exact.records), "seed {seed}");
        assert_eq!(exact.end, LogEnd::Corruption, "seed {seed}");
    }
}

#[pumice_test_macros::test]
fn each_truncation_keeps_the_whole_records_before_it() {
    let records = vec![b"alpha".to_vec(), vec![b'b'; BLOCK_BYTES + 100], b"gamma".to_vec()];
    let good = write_log(&records, false);
    let ends = [12, 12 + BLOCK_BYTES + 100 + 14, good.len()];
    assert_eq!(ends[2], ends[1] + 12);
    let lengths = (0..64).chain(BLOCK_BYTES - 40..BLOCK_BYTES + 40).chain(ends[1] - 9..good.len());
    for length in lengths {
        let whole = ends.iter().filter(|end| **end <= length).count();
        let clean = length == 0 || ends.contains(&length);
        for mode in MODES {
            let outcome = read_log(&good[..length], mode);
            let context = format!("length {length} {mode:?}");
            assert!(outcome.records == records[..whole], "{context}");
            match mode {
                WalRecoveryMode::AbsoluteConsistency | WalRecoveryMode::PointInTime => {
                    assert_eq!(outcome.error.is_none(), clean, "{context}");
                }
                _ => {
                    assert!(outcome.error.is_none(), "{context}");
                    assert_eq!(outcome.end == LogEnd::EndOfFile, clean, "{context}");
                }
            }
        }
    }
}

#[pumice_test_macros::test]
fn zeros_behind_the_records_are_no_damage() {
    let records = vec![b"alpha".to_vec(), b"beta".to_vec()];
    for zeros in [1, 6, 7, 8, 4096, 2 * BLOCK_BYTES] {
        let mut bytes = write_log(&records, false);
        bytes.resize(bytes.len() + zeros, 0);
        for mode in MODES {
            let outcome = read_log(&bytes, mode);
            assert_eq!(outcome.records, records, "{zeros} {mode:?}");
            // Fewer zeros than a header look like a torn one.
            let strict = mode.reports_torn_tail() && zeros < HEADER_BYTES;
            assert_eq!(outcome.error.is_some(), strict, "{zeros} {mode:?}");
        }
    }
}

#[pumice_test_macros::test]
fn what_an_older_life_left_behind_ends_a_recycled_log() {
    let old: Vec<Vec<u8>> = (0..60u8).map(|i| vec![i; 1500]).collect();
    let mut old_bytes = reference(&old, true);
    // The same blocks under another number: only the stored number distinguishes them.
    let fs = MemFs::new(0);
    let file = fs.create(Path::new(LOG), &FileOptions::default()).unwrap();
    let file = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let mut log = LogWriter::new(file, NUMBER + 9, true, true);
    let new: Vec<Vec<u8>> = (0..21u8).map(|i| vec![100 + i; 1500]).collect();
    for record in &new {
        log.add_record(record).unwrap();
    }
    log.flush().unwrap();
    let new_bytes = fs.read_file(Path::new(LOG)).unwrap();
    old_bytes[..new_bytes.len()].copy_from_slice(&new_bytes);
    for mode in MODES {
        let outcome = read_log_as(&old_bytes, LogReaderOptions::wal(NUMBER + 9, mode));
        assert_eq!(outcome.records, new, "{mode:?}");
        assert!(outcome.error.is_none(), "{mode:?}");
        if mode != WalRecoveryMode::SkipAnyCorrupted {
            assert_eq!(outcome.end, LogEnd::OldRecord, "{mode:?}");
        }
    }
}

#[pumice_test_macros::test]
fn recyclable_records_do_not_belong_in_a_plain_log() {
    let mut bytes = reference(&[b"plain".to_vec()], false);
    bytes.extend(reference(&[b"recyclable".to_vec()], true));
    let outcome = read_log(&bytes, WalRecoveryMode::PointInTime);
    assert_eq!((outcome.records.len(), outcome.end), (1, LogEnd::Corruption));
    let outcome = read_log(&bytes, WalRecoveryMode::SkipAnyCorrupted);
    assert_eq!((outcome.records.len(), outcome.end), (1, LogEnd::EndOfFile));
}

/// A length that was damaged upwards must not pass for a write that a crash cut short.
#[pumice_test_macros::test]
fn a_damaged_last_length_is_no_torn_tail() {
    let records = [b"first".to_vec(), b"the last record".to_vec()];
    let bytes = write_log(&records, false);
    let last_header = bytes.len() - records[1].len() - 7;
    for bit in 0..16 {
        let mut damaged = bytes.clone();
        damaged[last_header + 4 + bit / 8] ^= 1 << (bit % 8);
        let outcome = read_log_as(&damaged, LogReaderOptions::manifest());
        assert!(outcome.error.is_some(), "bit {bit} of the length: {outcome:?}");
    }
    for cut in 1..records[1].len() + 7 {
        let outcome = read_log_as(&bytes[..bytes.len() - cut], LogReaderOptions::manifest());
        assert!(outcome.error.is_none(), "cut of {cut}: {outcome:?}");
        assert_eq!(outcome.records, records[..1]);
    }
}
