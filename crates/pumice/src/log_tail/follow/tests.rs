//! Logs that are overwritten while they are read, as RocksDB does with `recycle_log_file_num`.

#![allow(clippy::unwrap_used)]
use std::path::Path;

use super::*;
use pumice_base::checksum::{crc32c, mask_crc};
use pumice_env::{MemFs, SequentialFileWrapper, write_file};

const FULL_RECYCLABLE: u8 = 5;
const FIRST: &str = "/000001.log";
const SECOND: &str = "/000002.log";

/// A record of log `number` in a recycled file.
fn record(number: u32, payload: &[u8]) -> Vec<u8> {
    let checked = [&[FULL_RECYCLABLE][..], &number.to_le_bytes(), payload].concat();
    let length = u16::try_from(payload.len()).unwrap();
    [&mask_crc(crc32c(&checked)).to_le_bytes()[..], &length.to_le_bytes(), &checked].concat()
}

/// The delivered records, and which logs are complete.
#[derive(Default)]
struct Seen {
    records: Vec<(FileNumber, Vec<u8>)>,
    complete: Vec<FileNumber>,
}

impl LogSink for Seen {
    fn record(&mut self, number: FileNumber, _: TimestampSizes<'_>, record: &[u8]) -> Result<()> {
        self.records.push((number, record.to_vec()));
        Ok(())
    }
    fn complete(&mut self, number: FileNumber, _: u64, damaged: Option<Error>) -> Result<()> {
        assert!(damaged.is_none(), "{damaged:?}");
        self.complete.push(number);
        Ok(())
    }
}

fn write(fs: &Arc<dyn FileSystem>, path: &str, parts: &[&[u8]]) {
    write_file(&**fs, Path::new(path), &parts.concat(), false).unwrap();
}

fn follower(fs: &Arc<dyn FileSystem>) -> LogFollower {
    let mut follower = LogFollower::new(Arc::clone(fs), WalRecoveryMode::PointInTime);
    follower.add(1, FIRST.into(), fs.open_sequential(Path::new(FIRST)).unwrap());
    follower
}

/// Whatever an earlier use left after the last record, the records that overwrite it are read.
#[pumice_test_macros::test]
fn what_is_written_over_is_read() {
    let old = record(7, &[b'o'; 300]);
    let (one, two) = (record(1, b"one"), record(1, &[b't'; 40]));
    // A length that reaches beyond the file's end, within the block.
    let long = [&[1, 2, 3, 4, 0xff, 0x10, FULL_RECYCLABLE][..], &[9; 100]].concat();
    for left in [&old[..], &old[5..], &[0; 100], &[1; 100], &long, &long[..9], b""] {
        let fs = MemFs::new(1).shared();
        write(&fs, FIRST, &[&one, left]);
        let (mut follower, mut seen) = (follower(&fs), Seen::default());
        follower.read_on(&mut seen).unwrap();
        assert_eq!(seen.records, [(1, b"one".to_vec())], "{left:?}");
        follower.read_on(&mut seen).unwrap();
        let rest = left.get(two.len()..).unwrap_or(&[]);
        write(&fs, FIRST, &[&one, &two, rest]);
        follower.read_on(&mut seen).unwrap();
        assert_eq!(seen.records[1..], [(1, vec![b't'; 40])], "{left:?}");
        assert!(seen.complete.is_empty());
    }
}

/// A block that was read just before it was written has an older use's zeros; the next one is new.
#[pumice_test_macros::test]
fn zeros_of_an_earlier_use_hide_no_record() {
    const BLOCK: usize = 32 << 10;
    let (fs, one, later) = (MemFs::new(1).shared(), record(1, b"one"), record(1, b"later"));
    let room = BLOCK - one.len();
    write(&fs, FIRST, &[&one, &vec![0; room], &later]);
    let (mut follower, mut seen) = (follower(&fs), Seen::default());
    follower.read_on(&mut seen).unwrap();
    assert_eq!(seen.records, [(1, b"one".to_vec())]);
    write(&fs, FIRST, &[&one, &record(1, &vec![b't'; room - 11]), &later]);
    follower.read_on(&mut seen).unwrap();
    assert_eq!(seen.records[1..], [(1, vec![b't'; room - 11]), (1, b"later".to_vec())]);
    // But where a block's end has no room for a record it is filled with zeros.
    let full = record(1, &vec![b'f'; room - 11 - 8]);
    write(&fs, SECOND, &[&one, &full, &[0; 8], &later]);
    let mut follower = LogFollower::new(Arc::clone(&fs), WalRecoveryMode::PointInTime);
    follower.add(1, SECOND.into(), fs.open_sequential(Path::new(SECOND)).unwrap());
    let mut seen = Seen::default();
    follower.read_on(&mut seen).unwrap();
    assert_eq!(seen.records.len(), 3);
}

/// The second log; when it is first read, more is written to the first log before that.
struct Late {
    file: Box<dyn SequentialFile>,
    before: Option<Box<dyn FnOnce() + Send>>,
}

impl SequentialFileWrapper for Late {
    fn wrapped(&self) -> &dyn SequentialFile {
        &*self.file
    }
    fn wrapped_mut(&mut self) -> &mut dyn SequentialFile {
        &mut *self.file
    }
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if let Some(before) = self.before.take() {
            before();
        }
        self.file.read(buf)
    }
}

#[pumice_test_macros::test]
fn a_log_is_complete_when_it_was_read_after_the_next_has_a_record() {
    let fs = MemFs::new(1).shared();
    let (one, two, old) = (record(1, b"one"), record(1, b"two"), record(7, &[b'o'; 300]));
    write(&fs, FIRST, &[&one, &old]);
    write(&fs, SECOND, &[&record(2, b"three")]);
    let mut follower = follower(&fs);
    let (late, with) = ([one, two].concat(), Arc::clone(&fs));
    let before: Box<dyn FnOnce() + Send> = Box::new(move || write(&with, FIRST, &[&late, &old]));
    let file = fs.open_sequential(Path::new(SECOND)).unwrap();
    follower.add(2, SECOND.into(), Box::new(Late { file, before: Some(before) }));
    let mut seen = Seen::default();
    follower.read_on(&mut seen).unwrap();
    let expected = [(1, b"one".to_vec()), (1, b"two".to_vec()), (2, b"three".to_vec())];
    assert_eq!(seen.records, expected);
    assert_eq!(seen.complete, [1]);
}
