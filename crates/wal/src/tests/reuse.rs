//! Logs over the files of older ones: what is read after a kill at any operation, and after a power
//! cut.

use super::*;
use crate::reuse;
use pumice_env::mem::{FileLoss, NameLoss};

const OLD: &str = "/000003.log";
const OLD_NUMBER: u64 = 3;

/// A log of about `bytes` bytes under number 3, durable, then cleared and begun again as number 7.
fn over_an_old_log(fs: &MemFs, rng: &mut Rng, bytes: u64, cleared: bool) -> LogWriter {
    let file = fs.create(Path::new(OLD), &FileOptions::default()).unwrap();
    let file = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let mut log = LogWriter::new(file, OLD_NUMBER, true, false);
    while log.file_size() < bytes {
        log.add_record(&drawn(rng, b'o')).unwrap();
    }
    log.sync().unwrap();
    let bytes = log.file_size();
    log.close().unwrap();
    if cleared {
        let mut file = fs.reuse(Path::new(OLD), Path::new(OLD)).unwrap();
        reuse::clear(&mut *file, bytes).unwrap();
        assert_eq!(fs.file_size(Path::new(OLD)).unwrap(), bytes);
    }
    let file = fs.reuse(Path::new(OLD), Path::new(LOG)).unwrap();
    LogWriter::over(BufferedWriter::new(file, WriterOptions::new(1 << 20)), bytes, NUMBER, false)
}

fn drawn(rng: &mut Rng, byte: u8) -> Vec<u8> {
    vec![byte; rng.skewed(17) as usize]
}

/// After each record, and also where it exceeds the old file: whole records, then zeros, in all
/// modes. A cut log is one that was never another.
#[pumice_test_macros::test]
fn whole_records_and_then_zeros_follow_each_other() {
    for seed in 0..30 {
        let (fs, mut rng) = (MemFs::new(seed), Rng::new(seed));
        let bytes = rng.uniform(200_000) + 1;
        let mut log = over_an_old_log(&fs, &mut rng, bytes, true);
        let mut records: Vec<Vec<u8>> = Vec::new();
        while log.file_size() < bytes + 70_000 {
            records.push(drawn(&mut rng, b'n'));
            log.add_record(&records[records.len() - 1]).unwrap();
            let bytes = fs.read_file(Path::new(LOG)).unwrap();
            for mode in MODES {
                let outcome = read_log(&bytes, mode);
                let ended = (&outcome.error, outcome.end, outcome.dropped, outcome.reported);
                assert!(
                    matches!(ended, (None, LogEnd::EndOfFile, 0, 0)) && outcome.records == records,
                    "seed {seed}, {mode:?}, {} of {} records, {ended:?}",
                    outcome.records.len(),
                    records.len()
                );
            }
        }
        let cut = log.cut().unwrap();
        assert_eq!(fs.read_file(Path::new(LOG)).unwrap(), reference(&records, true), "{cut}");
        assert!(!log.cut().unwrap());
    }
}

/// A kill ends a write between two pages: what came before it is whole in the modes that allow a
/// torn record, and none of it is half there.
#[pumice_test_macros::test]
fn a_write_that_a_kill_has_ended_is_a_torn_record() {
    const PAGE: usize = 4096;
    let mut torn = 0;
    for seed in 0..60 {
        let (fs, mut rng) = (MemFs::new(seed), Rng::new(seed));
        let mut log = over_an_old_log(&fs, &mut rng, 150_000, true);
        let mut records: Vec<Vec<u8>> = Vec::new();
        for _ in 0..12 {
            let before = fs.read_file(Path::new(LOG)).unwrap();
            let from = log.file_size() as usize;
            let record = drawn(&mut rng, b'n');
            log.add_record(&record).unwrap();
            let mut left = fs.read_file(Path::new(LOG)).unwrap();
            let ends = (from / PAGE + 1..).map(|page| page * PAGE);
            let ends: Vec<usize> = ends.take_while(|end| *end < log.file_size() as usize).collect();
            if !ends.is_empty() {
                let end = ends[rng.uniform(ends.len() as u64) as usize];
                let old = before.get(end..).unwrap_or(&[]);
                left.truncate(end + old.len());
                left[end..].copy_from_slice(old);
                for mode in MODES {
                    let outcome = read_log(&left, mode);
                    assert!(outcome.records == records, "seed {seed}, {mode:?}");
                    let refused = outcome.error.is_some();
                    assert!(!refused || mode.reports_torn_tail(), "seed {seed}, {mode:?}");
                    torn += u32::from(refused);
                }
            }
            records.push(record);
        }
    }
    assert!(torn > 50, "{torn}");
}

/// Any part of what was not synced survives a power cut, the clearing included: what is read is a
/// beginning of the new records, never an old one.
#[pumice_test_macros::test]
fn a_power_cut_brings_no_old_record_back() {
    let mut shorter = 0;
    for seed in 0..200 {
        let (fs, mut rng) = (MemFs::new(seed), Rng::new(seed));
        let cleared = rng.one_in(2);
        let mut log = over_an_old_log(&fs, &mut rng, 100_000, cleared);
        fs.sync_dir(Path::new("/")).unwrap();
        let (mut records, mut synced) = (Vec::new(), 0);
        for _ in 0..1 + rng.uniform(30) {
            records.push(drawn(&mut rng, b'n'));
            log.add_record(&records[records.len() - 1]).unwrap();
            if rng.one_in(8) {
                log.sync().unwrap();
                synced = records.len();
            }
        }
        if rng.one_in(3) {
            log.cut().unwrap();
        }
        let mode = CrashMode { files: FileLoss::Mixed, names: NameLoss::Nothing };
        let left = fs.crashed_copy(seed, mode).read_file(Path::new(LOG)).unwrap();
        for mode in [WalRecoveryMode::PointInTime, WalRecoveryMode::TolerateCorruptedTail] {
            let found = read_log(&left, mode).records;
            assert!(found.len() >= synced, "seed {seed}, {mode:?}: {} < {synced}", found.len());
            assert_eq!(found, records[..found.len()], "seed {seed}, {mode:?}");
            shorter += u32::from(found.len() < records.len());
        }
    }
    assert!(shorter > 0);
}

/// A value may hold the bytes of a log without numbers. Where an older record ends inside of it,
/// they are not taken for records.
#[pumice_test_macros::test]
fn bytes_of_a_plain_log_inside_an_old_record_are_none() {
    let plain = reference(&[b"from a value".to_vec()], false);
    let mut bytes = reference(&[b"new".to_vec()], true);
    bytes.extend(&plain);
    for mode in MODES {
        let outcome = read_log(&bytes, mode);
        assert_eq!(outcome.records, [b"new".to_vec()], "{mode:?}");
        assert!(outcome.error.is_none(), "{mode:?}");
    }
}
