//! Logs split into records and reassembled with right checksums; the MANIFEST is one, too.

use std::path::Path;

use pumice::{FileSystem, MemFs};
use pumice_base::random::Rng;
use pumice_env::{BufferedWriter, FileOptions, WriterOptions, write_file};
use pumice_wal::{LogReader, LogReaderOptions, LogWriter};

use crate::mutate;

const FILE: &str = "/log";

/// The records up to the first that is not one.
pub fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let fs = MemFs::new(0);
    write_file(&fs, Path::new(FILE), bytes, false).unwrap();
    let file = fs.open_sequential(Path::new(FILE)).unwrap();
    let mut reader = LogReader::new(file, LogReaderOptions::manifest(), None);
    let (mut records, mut record) = (Vec::new(), Vec::new());
    while let Ok(Some(_)) = reader.read_record(&mut record) {
        records.push(record.clone());
    }
    records
}

/// A log of these records.
pub fn log(records: &[Vec<u8>]) -> Vec<u8> {
    let fs = MemFs::new(0);
    let file = fs.create(Path::new(FILE), &FileOptions::default()).unwrap();
    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let mut log = LogWriter::new(writer, 0, false, false);
    records.iter().for_each(|record| log.add_record(record).unwrap());
    log.close().unwrap();
    fs.read_file(Path::new(FILE)).unwrap()
}

/// Changes the frames, or through `record` their contents, and seals them again.
pub fn change(
    mut bytes: Vec<u8>,
    others: &[Vec<u8>],
    rng: &mut Rng,
    record: impl Fn(&mut Vec<u8>, &[Vec<u8>], &mut Rng),
) -> Vec<u8> {
    if rng.one_in(6) {
        mutate::some(&mut bytes, others, rng);
        return bytes;
    }
    let mut list = records(&bytes);
    let donor = others.get(rng.uniform(others.len() as u64) as usize);
    let donors = donor.map(|bytes| records(bytes)).unwrap_or_default();
    for _ in 0..=rng.skewed(2) {
        let at = rng.uniform(list.len() as u64 + 1) as usize;
        match rng.uniform(8) {
            0 if at < list.len() => drop(list.remove(at)),
            1 if at < list.len() => list.insert(at, list[at].clone()),
            2 if at + 1 < list.len() => list.swap(at, at + 1),
            3 if !donors.is_empty() => {
                list.insert(at, donors[rng.uniform(donors.len() as u64) as usize].clone());
            }
            _ if at < list.len() => record(&mut list[at], &donors, rng),
            _ => list.truncate(at),
        }
    }
    let mut sealed = log(&list);
    if rng.one_in(12) {
        mutate::once(&mut sealed, &[], rng);
    }
    sealed
}
