//! Logs that are read while they are written.

use super::*;

/// A log that grows under its reader.
struct Growing {
    fs: MemFs,
    reader: LogReader,
    /// What was read so far.
    records: Vec<Vec<u8>>,
}

impl Growing {
    fn new() -> Self {
        let fs = MemFs::new(0);
        write_file(&fs, Path::new(LOG), b"", false).unwrap();
        let file = fs.open_sequential(Path::new(LOG)).unwrap();
        let reader = LogReader::new(file, LogReaderOptions::growing_wal(NUMBER), None);
        Growing { fs, reader, records: Vec::new() }
    }

    /// Appends `bytes` and reads what is whole then.
    fn grow(&mut self, bytes: &[u8]) {
        let mut file = self.fs.reopen_append(Path::new(LOG)).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
        let mut record = Vec::new();
        while let Some(info) = self.reader.read_record(&mut record).unwrap() {
            assert_eq!(info.offset, self.reader.last_record_offset());
            self.records.push(record.clone());
        }
        assert_eq!(self.reader.end(), LogEnd::NotYet);
    }
}

/// Where each record of a log ends.
fn ends(bytes: &[u8]) -> Vec<u64> {
    let fs = MemFs::new(0);
    write_file(&fs, Path::new(LOG), bytes, false).unwrap();
    let file = fs.open_sequential(Path::new(LOG)).unwrap();
    let options = LogReaderOptions::wal(NUMBER, WalRecoveryMode::AbsoluteConsistency);
    let mut reader = LogReader::new(file, options, None);
    let (mut ends, mut record) = (Vec::new(), Vec::new());
    while let Some(info) = reader.read_record(&mut record).unwrap() {
        ends.push(info.end);
    }
    ends
}

/// Whatever is there at any moment, the whole records of it are read, each once and in order.
#[pumice_test_macros::test]
fn a_log_is_read_as_it_grows() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let records = random_records(&mut rng, 12);
        let bytes = write_log(&records, rng.one_in(3));
        let ends = ends(&bytes);
        let mut log = Growing::new();
        let mut there = 0;
        while there < bytes.len() {
            let most = [1, 10, 5000, 60_000][rng.uniform(4) as usize];
            let step = (1 + rng.uniform(most) as usize).min(bytes.len() - there);
            log.grow(&bytes[there..there + step]);
            there += step;
            let whole = ends.iter().filter(|end| **end <= there as u64).count();
            assert!(log.records == records[..whole], "seed {seed}: {there} bytes");
        }
        assert_eq!(log.records.len(), records.len(), "seed {seed}");
    }
}

#[pumice_test_macros::test]
fn a_compressed_log_is_read_as_it_grows() {
    let fs = MemFs::new(0);
    let mut log = writer(&fs, false);
    if log.enable_compression().is_err() {
        return; // Built without the codec.
    }
    let records = random_records(&mut Rng::new(7), 10);
    records.iter().for_each(|record| log.add_record(record).unwrap());
    log.close().unwrap();
    let bytes = fs.read_file(Path::new(LOG)).unwrap();
    let mut growing = Growing::new();
    bytes.chunks(1000).for_each(|chunk| growing.grow(chunk));
    assert!(growing.records == records);
}

/// Damage costs its block, also that part of it which comes later, and nothing after it.
#[pumice_test_macros::test]
fn damage_in_a_growing_log_costs_its_block() {
    let records: Vec<Vec<u8>> = (0..100u8).map(|n| vec![n; 1000]).collect();
    let mut bytes = write_log(&records, false);
    let ends = ends(&bytes);
    bytes[ends[4] as usize + 20] ^= 1; // In the sixth record.
    for step in [1, 700, 1007, 40_000] {
        let mut log = Growing::new();
        bytes.chunks(step).for_each(|chunk| log.grow(chunk));
        // The record that crosses into the next block has lost its beginning.
        let after = ends.iter().position(|end| *end > BLOCK_BYTES as u64).unwrap() + 1;
        let expected = [&records[..5], &records[after..]].concat();
        assert!(log.records == expected, "in steps of {step}: {} records", log.records.len());
        assert!(log.reader.dropped_bytes() > 0);
    }
}
