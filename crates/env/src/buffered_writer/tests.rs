//! The calls that a buffered writer makes to its file: write-back in steps, portions of a limiter.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::rate_limiter::RateLimiterOptions;
use pumice_port::sync::Mutex;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Append(u64),
    Overwrite { from: u64, bytes: usize },
    RangeSync { offset: u64, bytes: u64, wait: bool },
    Sync,
    Truncate(u64),
    Close,
}

/// A file that records the calls made to it.
struct Noted {
    calls: Arc<Mutex<Vec<Call>>>,
    len: u64,
}

impl WritableFile for Noted {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.calls.lock().push(Call::Append(data.len() as u64));
        self.len += data.len() as u64;
        Ok(())
    }
    fn overwrite(&mut self, ahead: u64, data: &[u8], step: u64) -> Result<()> {
        self.calls.lock().push(Call::Overwrite { from: self.len + ahead, bytes: data.len() });
        self.len += step;
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        self.calls.lock().push(Call::Sync);
        Ok(())
    }
    fn fsync(&mut self) -> Result<()> {
        self.sync()
    }
    fn range_sync(&mut self, offset: u64, bytes: u64, wait: bool) -> Result<()> {
        self.calls.lock().push(Call::RangeSync { offset, bytes, wait });
        Ok(())
    }
    fn preallocate(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
    fn truncate(&mut self, bytes: u64) -> Result<()> {
        self.calls.lock().push(Call::Truncate(bytes));
        Ok(())
    }
    fn close(&mut self) -> Result<()> {
        self.calls.lock().push(Call::Close);
        Ok(())
    }
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        Err(Error::not_supported("one task writes"))
    }
    fn len(&self) -> u64 {
        self.len
    }
    fn path(&self) -> &Path {
        Path::new("noted")
    }
}

fn writer(options: WriterOptions) -> (BufferedWriter, Arc<Mutex<Vec<Call>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let file = Noted { calls: Arc::clone(&calls), len: 0 };
    (BufferedWriter::new(Box::new(file), options), calls)
}

const MIB: u64 = 1 << 20;

/// Appends 8 MiB in small pieces, as a table builder does, without a flush; returns the calls other
/// than appends.
fn syncs_of(options: WriterOptions) -> Vec<Call> {
    let (mut writer, calls) = writer(options);
    for _ in 0..8 * MIB / 4096 {
        writer.append(&[1; 4096]).unwrap();
    }
    writer.sync(false).unwrap();
    let calls = calls.lock();
    calls.iter().filter(|call| !matches!(call, Call::Append(_))).cloned().collect()
}

#[pumice_test_macros::test]
fn files_go_to_the_device_while_they_are_written() {
    let options = WriterOptions { bytes_per_sync: MIB, ..WriterOptions::new(1 << 20) };
    assert_eq!(syncs_of(WriterOptions::new(1 << 20)), [Call::Sync]);
    // The last MiB is left alone, so the first step comes with the second.
    let step = |at: u64| Call::RangeSync { offset: at * MIB, bytes: MIB, wait: false };
    let mut expected: Vec<Call> = (0..7).map(step).collect();
    expected.push(Call::Sync);
    assert_eq!(syncs_of(options.clone()), expected);
    let strict = WriterOptions { strict_bytes_per_sync: true, ..options };
    let step = |at: u64| Call::RangeSync { offset: 0, bytes: at * MIB, wait: true };
    let mut expected: Vec<Call> = (1..8).map(step).collect();
    expected.push(Call::Sync);
    assert_eq!(syncs_of(strict), expected);
}

#[pumice_test_macros::test]
fn reserved_space_is_given_back_before_the_last_sync() {
    let options = WriterOptions { preallocation_block_bytes: MIB, ..WriterOptions::new(1 << 20) };
    for (options, expected) in [
        (options, vec![Call::Append(5), Call::Truncate(5), Call::Sync, Call::Close]),
        (WriterOptions::new(1 << 20), vec![Call::Append(5), Call::Sync, Call::Close]),
    ] {
        let (mut writer, calls) = writer(options);
        writer.append(b"bytes").unwrap();
        writer.sync_and_close(false).unwrap();
        assert_eq!(*calls.lock(), expected);
    }
}

#[pumice_test_macros::test]
fn a_limiter_cuts_writes_into_portions() {
    let settings =
        RateLimiterOptions { single_burst_bytes: 10_000, ..RateLimiterOptions::new(1 << 40) };
    let limiter = Arc::new(RateLimiter::new(&settings).unwrap());
    for (rate_alignment, portions) in [(0, vec![10_000, 10_000, 5_000]), (4096, vec![8192; 3])] {
        let (mut writer, calls) = writer(WriterOptions {
            rate_limiter: Some(Arc::clone(&limiter)),
            rate_alignment,
            ..WriterOptions::new(1 << 20)
        });
        let total: u64 = portions.iter().sum();
        writer.append(&vec![7; total as usize]).unwrap();
        writer.flush().unwrap();
        let expected: Vec<Call> = portions.into_iter().map(Call::Append).collect();
        assert_eq!(*calls.lock(), expected);
    }
}

/// Over old content each flush ends with an end mark, while there is old content.
#[pumice_test_macros::test]
fn old_content_is_written_over_up_to_a_mark() {
    let (file, calls) = writer(WriterOptions::new(1 << 20));
    let old = OldContent { bytes: 260, end_mark_bytes: 7, block_bytes: 4096 };
    let mut file = file.over(old);
    for bytes in [40, 60, 130, 25, 30] {
        file.append(&vec![1; bytes]).unwrap();
        file.flush().unwrap();
    }
    let over = |from, bytes| Call::Overwrite { from, bytes };
    let expected = vec![over(0, 47), over(40, 67), over(100, 137), over(230, 32), over(255, 30)];
    assert_eq!(*calls.lock(), expected);
    assert!(!file.cut().unwrap(), "all of it is written over");
    let (file, calls) = writer(WriterOptions::new(1 << 20));
    let mut file = file.over(old);
    file.append(b"bytes").unwrap();
    assert!(file.cut().unwrap());
    file.append(b"more").unwrap();
    file.sync(false).unwrap();
    assert_eq!(*calls.lock(), [over(0, 12), Call::Truncate(5), Call::Append(4), Call::Sync]);
}

/// A mark that the old content has no room for makes the file longer, but not by a part of a block:
/// fewer zeros than a header would look like the start of one.
#[pumice_test_macros::test]
fn an_end_mark_is_whole_at_the_end_of_old_content() {
    let over = |from, bytes| Call::Overwrite { from, bytes };
    for left in 1..=6 {
        let (file, calls) = writer(WriterOptions::new(1 << 20));
        let old = OldContent { bytes: 100 + left, end_mark_bytes: 7, block_bytes: 4096 };
        let mut file = file.over(old);
        // What the first mark added is old content to the second flush.
        for bytes in [100, 6] {
            file.append(&vec![1; bytes]).unwrap();
            file.flush().unwrap();
        }
        assert_eq!(*calls.lock(), [over(0, 107), over(100, 13)], "{left} bytes");
        assert!(file.cut().unwrap(), "{left} bytes: the mark is cut off");
        assert_eq!(calls.lock().last(), Some(&Call::Truncate(106)));
    }
    // Of a block with too little room for a header the rest is filled.
    let (file, calls) = writer(WriterOptions::new(1 << 20));
    let mut file = file.over(OldContent { bytes: 62, end_mark_bytes: 7, block_bytes: 64 });
    file.append(&[1; 60]).unwrap();
    file.flush().unwrap();
    file.append(&[1; 20]).unwrap();
    file.flush().unwrap();
    assert_eq!(*calls.lock(), [over(0, 64), over(60, 20)]);
    assert!(!file.cut().unwrap());
}
