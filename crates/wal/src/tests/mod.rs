//! Round trips against a plain reference writer, damage in every mode, files written by RocksDB.
//! Damage is in `damage`; it shares the reference writer and reader.
#![allow(clippy::unwrap_used)]

mod damage;
mod growing;
mod reuse;
mod torn;

use crate::record::*;
use crate::{LogEnd, LogReader, LogReaderOptions, LogWriter};
use pumice_base::checksum::{crc32c, mask_crc};
use pumice_base::random::Rng;
use pumice_base::{Error, ErrorKind};
use pumice_env::mem::CrashMode;
use pumice_env::{
    BufferedWriter, FileOptions, FileSystem, MemFs, PosixFs, WriterOptions, write_file,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::TolerateCorruptedTail,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::PointInTime,
    WalRecoveryMode::SkipAnyCorrupted,
];
const LOG: &str = "/000007.log";
const NUMBER: u64 = 7;

fn writer(fs: &MemFs, recycle: bool) -> LogWriter {
    let file = fs.create(Path::new(LOG), &FileOptions::default()).unwrap();
    LogWriter::new(BufferedWriter::new(file, WriterOptions::new(1 << 20)), NUMBER, recycle, true)
}

fn write_log(records: &[Vec<u8>], recycle: bool) -> Vec<u8> {
    let fs = MemFs::new(0);
    let mut log = writer(&fs, recycle);
    for record in records {
        log.add_record(record).unwrap();
    }
    log.close().unwrap();
    fs.read_file(Path::new(LOG)).unwrap()
}

/// The result of reading: the records, the error that ended it, how it ended, dropped bytes.
#[derive(Debug)]
struct Outcome {
    records: Vec<Vec<u8>>,
    error: Option<Error>,
    end: LogEnd,
    dropped: u64,
    reported: u64,
}

fn read_log_as(bytes: &[u8], options: LogReaderOptions) -> Outcome {
    let fs = MemFs::new(0);
    write_file(&fs, Path::new(LOG), bytes, false).unwrap();
    let reported = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&reported);
    let reporter = Box::new(move |bytes: u64, e: &Error| {
        assert!(e.is_corruption());
        sum.fetch_add(bytes, Ordering::Relaxed);
    });
    let file = fs.open_sequential(Path::new(LOG)).unwrap();
    let mut reader = LogReader::new(file, options, Some(reporter));
    let (mut records, mut record, mut error) = (Vec::new(), Vec::new(), None);
    loop {
        match reader.read_record(&mut record) {
            Ok(Some(info)) => {
                assert_eq!(info.offset, reader.last_record_offset());
                assert!(info.end <= bytes.len() as u64 && info.offset < info.end);
                records.push(record.clone());
            }
            Ok(None) => break,
            Err(e) => {
                assert!(reader.read_record(&mut record).is_err(), "the reader stays at an error");
                error = Some(e);
                break;
            }
        }
    }
    let reported = reported.load(Ordering::Relaxed);
    Outcome { records, error, end: reader.end(), dropped: reader.dropped_bytes(), reported }
}

fn read_log(bytes: &[u8], mode: WalRecoveryMode) -> Outcome {
    read_log_as(bytes, LogReaderOptions::wal(NUMBER, mode))
}

/// The simplest implementation of the format, for comparison.
fn reference(records: &[Vec<u8>], recycle: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let header = if recycle { 11 } else { 7 };
    for record in records {
        let (mut rest, mut begin) = (record.as_slice(), true);
        loop {
            let room = 32768 - out.len() % 32768;
            if room < header {
                out.resize(out.len() + room, 0);
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(room - header));
            let mut kind = match (begin, later.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            let mut covered = Vec::new();
            if recycle {
                kind += 4;
            }
            covered.push(kind);
            if recycle {
                covered.extend_from_slice(&(NUMBER as u32).to_le_bytes());
            }
            covered.extend_from_slice(now);
            out.extend_from_slice(&mask_crc(crc32c(&covered)).to_le_bytes());
            out.extend_from_slice(&(now.len() as u16).to_le_bytes());
            out.extend_from_slice(&covered);
            (rest, begin) = (later, false);
            if rest.is_empty() {
                break;
            }
        }
    }
    out
}

fn random_records(rng: &mut Rng, count: usize) -> Vec<Vec<u8>> {
    let record = |rng: &mut Rng| {
        let bytes = match rng.uniform(8) {
            0 => 0,
            1..=3 => rng.uniform(200),
            4 => 32768 - 30 + rng.uniform(40),
            5 => rng.uniform(100_000),
            _ => rng.uniform(3000),
        };
        rng.bytes(bytes as usize)
    };
    (0..count).map(|_| record(rng)).collect()
}

#[pumice_test_macros::test]
fn random_records_round_trip_and_match_the_reference() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let recycle = rng.one_in(2);
        let records = random_records(&mut rng, 20);
        let bytes = write_log(&records, recycle);
        assert!(bytes == reference(&records, recycle), "seed {seed}");
        for mode in MODES {
            let outcome = read_log(&bytes, mode);
            assert!(outcome.records == records, "seed {seed} {mode:?}");
            assert!(outcome.error.is_none() && outcome.end == LogEnd::EndOfFile, "seed {seed}");
            assert_eq!(outcome.dropped, 0, "seed {seed}");
        }
    }
}

#[pumice_test_macros::test]
fn every_distance_from_a_block_end_round_trips() {
    for recycle in [false, true] {
        let header = if recycle { RECYCLABLE_HEADER_BYTES } else { HEADER_BYTES };
        for left in 0..30 {
            let first = vec![b'a'; BLOCK_BYTES - header - left];
            let records = vec![first, vec![b'b'; 12], Vec::new(), vec![b'c'; BLOCK_BYTES * 2]];
            let bytes = write_log(&records, recycle);
            assert!(bytes == reference(&records, recycle), "left {left}");
            let outcome = read_log(&bytes, WalRecoveryMode::AbsoluteConsistency);
            assert!(outcome.records == records && outcome.error.is_none(), "left {left}");
        }
    }
}

#[pumice_test_macros::test]
fn parts_make_the_same_file_as_the_joined_record() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let records = random_records(&mut rng, 8);
        let fs = MemFs::new(0);
        let mut log = writer(&fs, false);
        for record in &records {
            let mut parts: Vec<&[u8]> = Vec::new();
            let mut rest = record.as_slice();
            while !rest.is_empty() {
                let (part, later) = rest.split_at(rng.uniform(rest.len() as u64 + 1) as usize);
                parts.push(part);
                rest = later;
            }
            log.add_record_parts(&parts).unwrap();
        }
        log.flush().unwrap();
        let bytes = fs.read_file(Path::new(LOG)).unwrap();
        assert!(bytes == reference(&records, false), "seed {seed}");
        assert_eq!(log.file_size(), bytes.len() as u64);
    }
}

#[pumice_test_macros::test]
fn only_manual_flush_keeps_records_in_the_buffer() {
    for manual in [false, true] {
        let fs = MemFs::new(0);
        let file = fs.create(Path::new(LOG), &FileOptions::default()).unwrap();
        let file = BufferedWriter::new(file, WriterOptions::new(1 << 20));
        let mut log = LogWriter::new(file, NUMBER, false, manual);
        log.add_record(b"record").unwrap();
        assert_eq!(log.buffered_bytes(), if manual { 13 } else { 0 });
        assert_eq!(fs.file_size(Path::new(LOG)).unwrap(), if manual { 0 } else { 13 });
    }
}

#[pumice_test_macros::test]
fn a_writer_goes_on_behind_an_existing_log() {
    let records: Vec<Vec<u8>> = (0..50u8).map(|i| vec![i; 3000]).collect();
    let fs = MemFs::new(0);
    for record in &records {
        let file = fs.reopen_append(Path::new(LOG)).unwrap();
        let file = BufferedWriter::new(file, WriterOptions::new(1 << 20));
        LogWriter::new(file, NUMBER, false, false).add_record(record).unwrap();
    }
    assert!(fs.read_file(Path::new(LOG)).unwrap() == reference(&records, false));
}

/// A physical record of any type.
fn physical(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut covered = vec![kind];
    if is_recyclable(kind) {
        covered.extend_from_slice(&(NUMBER as u32).to_le_bytes());
    }
    covered.extend_from_slice(payload);
    let mut out = mask_crc(crc32c(&covered)).to_le_bytes().to_vec();
    out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    out.extend(covered);
    out
}

#[pumice_test_macros::test]
fn control_and_unknown_types() {
    let data = physical(FULL, b"data");
    let predecessor: Vec<u8> = [4u64, 76, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    let good = [
        physical(TIMESTAMP_SIZES, &[0, 0, 0, 0, 8, 0]),
        physical(PREDECESSOR, &predecessor),
        physical(200, b"from the future"),
    ];
    for control in good {
        let bytes = [control, data.clone()].concat();
        let outcome = read_log(&bytes, WalRecoveryMode::AbsoluteConsistency);
        assert!(outcome.error.is_none());
        assert_eq!(outcome.records, [b"data".to_vec()]);
        assert!(read_log_as(&bytes, LogReaderOptions::manifest()).error.is_some());
    }
    let bad = [
        physical(77, b"unknown"),
        physical(TIMESTAMP_SIZES, &[0, 0, 0, 0, 0, 0]),
        physical(TIMESTAMP_SIZES, &[1]),
        physical(PREDECESSOR, &predecessor[1..]),
        physical(SET_COMPRESSION, &[4, 0, 0, 0]),
        physical(MIDDLE, b"no start"),
        physical(LAST, b"no start"),
        [physical(FIRST, b"no end"), physical(FULL, b"other")].concat(),
    ];
    for defect in bad {
        let bytes = [defect, data.clone()].concat();
        let outcome = read_log(&bytes, WalRecoveryMode::PointInTime);
        assert_eq!(outcome.error.unwrap().kind(), ErrorKind::Corruption);
        let outcome = read_log(&bytes, WalRecoveryMode::SkipAnyCorrupted);
        assert_eq!(outcome.records.last().unwrap(), b"data");
    }
    let late = [data.clone(), physical(SET_COMPRESSION, &[7, 0, 0, 0])].concat();
    assert!(read_log(&late, WalRecoveryMode::PointInTime).error.is_some());
}

fn compressed_log(records: &[Vec<u8>], recycle: bool) -> Vec<u8> {
    let fs = MemFs::new(0);
    let mut log = writer(&fs, recycle);
    log.enable_compression().unwrap();
    for record in records {
        let (head, tail) = record.split_at(record.len() / 3);
        log.add_record_parts(&[head, tail]).unwrap();
    }
    log.close().unwrap();
    fs.read_file(Path::new(LOG)).unwrap()
}

#[pumice_test_macros::test]
fn compressed_records_round_trip() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut records = random_records(&mut rng, 10);
        records.push(vec![b'z'; 500_000]);
        let bytes = compressed_log(&records, rng.one_in(2));
        for mode in MODES {
            let outcome = read_log(&bytes, mode);
            assert!(outcome.records == records, "seed {seed}");
            assert!(outcome.error.is_none(), "seed {seed}");
        }
    }
}

#[pumice_test_macros::test]
fn a_compressed_record_grows_only_so_far() {
    let bomb = vec![0u8; crate::compression::GROWTH_BYTES_MAX + (1 << 20)];
    let bytes = compressed_log(&[b"small".to_vec(), bomb], false);
    assert!(bytes.len() < 20_000);
    // The record's checksum is right: no mode may take it for what a crash leaves, and drop it.
    use WalRecoveryMode::*;
    for mode in [TolerateCorruptedTail, AbsoluteConsistency, PointInTime, SkipAnyCorrupted] {
        let outcome = read_log(&bytes, mode);
        assert_eq!(outcome.records, [b"small".to_vec()], "{mode:?}");
        let error = outcome.error.unwrap();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{mode:?}");
        assert!(error.to_string().contains("grows beyond"), "{error}");
    }
}

#[pumice_test_macros::test]
fn rubbish_never_panics_or_reads_as_records() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let bytes_max = 1 + rng.uniform(100_000);
        let bytes = rng.bytes(rng.clone().uniform(bytes_max) as usize);
        for mode in MODES {
            assert!(read_log(&bytes, mode).records.is_empty(), "seed {seed}");
        }
    }
}

#[pumice_test_macros::test]
fn after_a_write_error_nothing_more_is_written() {
    use pumice_env::mem::{Fault, FaultOp, FaultRule};
    let fs = MemFs::new(3);
    let mut log = writer(&fs, false);
    log.add_record(b"good").unwrap();
    log.flush().unwrap();
    fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::ShortWrite));
    log.add_record(&[1; 1000]).unwrap();
    let e = log.flush().unwrap_err();
    let size = fs.file_size(Path::new(LOG)).unwrap();
    log.add_record(b"refused").unwrap_err();
    assert_eq!(log.sync().unwrap_err().to_string(), e.to_string());
    log.close().unwrap_err();
    assert_eq!(fs.file_size(Path::new(LOG)).unwrap(), size);
    let outcome =
        read_log(&fs.read_file(Path::new(LOG)).unwrap(), WalRecoveryMode::TolerateCorruptedTail);
    assert_eq!(outcome.records, [b"good".to_vec()]);
}

/// A power cut leaves every synced record, and of the others a prefix: never a hole.
#[pumice_test_macros::test]
fn crashes_leave_a_prefix_with_all_synced_records() {
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let fs = MemFs::new(seed);
        let recycle = rng.one_in(3);
        let file = if recycle {
            let old: Vec<Vec<u8>> = (0..50u8).map(|i| vec![i; 900]).collect();
            let mut bytes = reference(&old, true);
            // Records of an older log: the number differs.
            let older = (NUMBER as u32 - 1).to_le_bytes();
            (0..40).for_each(|i| bytes[i * 911 + 7..i * 911 + 11].copy_from_slice(&older));
            bytes.truncate(32_000);
            write_file(&fs, Path::new("/000006.log"), &bytes, true).unwrap();
            fs.reuse(Path::new("/000006.log"), Path::new(LOG)).unwrap()
        } else {
            fs.create(Path::new(LOG), &FileOptions::default()).unwrap()
        };
        fs.sync_dir(Path::new("/")).unwrap();
        let file = BufferedWriter::new(file, WriterOptions::new(1 << 20));
        let mut log = LogWriter::new(file, NUMBER, recycle, false);
        let (mut records, mut synced) = (Vec::new(), 0);
        for _ in 0..rng.uniform(30) {
            let bytes = rng.uniform(3000) as usize;
            let record = rng.bytes(bytes);
            log.add_record(&record).unwrap();
            records.push(record);
            if rng.one_in(6) {
                log.sync().unwrap();
                synced = records.len();
            }
        }
        fs.crash(seed, CrashMode::MIXED);
        let bytes = fs.read_file(Path::new(LOG)).unwrap();
        let outcome = read_log(&bytes, WalRecoveryMode::PointInTime);
        let kept = outcome.records.len();
        assert!(records.starts_with(&outcome.records), "seed {seed}");
        assert!(kept >= synced, "seed {seed}: {kept} of {synced}, {:?}", outcome.end);
    }
}

/// Sequence, count and length of each record, as `ldb dump_wal` lists them.
fn listing(bytes: &[u8]) -> Vec<(u64, u32, usize)> {
    let outcome = read_log(bytes, WalRecoveryMode::AbsoluteConsistency);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let row = |r: &Vec<u8>| {
        let sequence = u64::from_le_bytes(r[..8].try_into().unwrap());
        (sequence, u32::from_le_bytes(r[8..12].try_into().unwrap()), r.len())
    };
    outcome.records.iter().map(row).collect()
}

/// Made by `db_bench --benchmarks=fillseq` of Debian's RocksDB 7.8.3 with values of 2000 bytes.
#[pumice_test_macros::test]
fn a_log_of_rocksdb_is_read_and_written_alike() {
    let bytes = include_bytes!("../../testdata/rocksdb-7.8.3-plain.log");
    let expected: Vec<_> = (1..=18).map(|sequence| (sequence, 1, 2032)).collect();
    assert_eq!(listing(bytes), expected);
    let records = read_log(bytes, WalRecoveryMode::PointInTime).records;
    assert!(write_log(&records, false) == bytes);
}

/// The same with two values of 70000 bytes and `--wal_compression=zstd`.
#[pumice_test_macros::test]
fn a_compressed_log_of_rocksdb_is_read() {
    let bytes = include_bytes!("../../testdata/rocksdb-7.8.3-zstd.log");
    assert_eq!(listing(bytes), [(1, 1, 70_033), (2, 1, 70_033)]);
}

#[pumice_test_macros::test]
fn ldb_reads_our_logs() {
    if std::process::Command::new("ldb").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "ldb is missing; run `cargo xtask peers`");
        eprintln!("SKIPPED: ldb is missing");
        return;
    }
    let batch = |sequence: u64, value_bytes: usize| {
        let mut batch = sequence.to_le_bytes().to_vec();
        batch.extend_from_slice(&1u32.to_le_bytes());
        batch.push(1);
        pumice_base::coding::put_length_prefixed(&mut batch, format!("key{sequence}").as_bytes());
        pumice_base::coding::put_length_prefixed(&mut batch, &vec![b'v'; value_bytes]);
        batch
    };
    // Lengths around the block's end, and several blocks.
    let lengths = (1..40).map(|i| 32_720 + i).chain([0, 1, 100_000, 300_000]);
    let records: Vec<Vec<u8>> = (1..).zip(lengths).map(|(s, bytes)| batch(s, bytes)).collect();
    let dir = format!("/dev/shm/pumice-wal-ldb-{}", std::process::id());
    let dir = std::path::PathBuf::from(dir);
    PosixFs.create_dir_all(&dir).unwrap();
    let path = dir.join("000007.log");
    for bytes in
        [write_log(&records, false), write_log(&records, true), compressed_log(&records, false)]
    {
        write_file(&PosixFs, &path, &bytes, false).unwrap();
        let walfile = format!("--walfile={}", path.display());
        let ldb = std::process::Command::new("ldb").args(["dump_wal", &walfile]).output().unwrap();
        let text = String::from_utf8(ldb.stdout).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("PUT(0)")).collect();
        assert_eq!(rows.len(), records.len(), "{text}");
        for (row, (sequence, record)) in rows.iter().zip((1..).zip(&records)) {
            assert!(row.starts_with(&format!("{sequence},1,{},", record.len())), "{row}");
        }
    }
    PosixFs.remove(&path).unwrap();
    PosixFs.remove_dir(&dir).unwrap();
}
