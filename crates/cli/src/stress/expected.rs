//! What the database must hold, in a file outside of it that outlives the killed process.
//!
//! ```text
//! header, 4096 bytes: magic | threads | keys per thread | lost | wrong | opens | verified   (u64s)
//! thread slots, 64 bytes each: acknowledged operations                                      (u64)
//! records, 16 bytes each: pending id | committed id      per family, per thread, per key    (u64s)
//! ```
//! An operation writes `pending` before it calls the database and `committed` after the database
//! has acknowledged. A killed process leaves both in the page cache, as it leaves the database's
//! unsynced log. So after a kill each key must have its committed id, or its pending id if the two
//! differ; and a thread has at most one operation under way, so all its differing keys belong to
//! that one and must agree.
//!
//! Thread safety: writes go to disjoint places; a key belongs to one thread. Invariants: (1) ids of
//! a key never repeat while it could matter (they grow), 0 is "no such key"; (2) numbers are little
//! endian and aligned, so a kill never leaves half of one.

use pumice_port::os::{File, OpenFlags};
use std::io;
use std::path::Path;

const MAGIC: u64 = 0x7065_6d73_7472_3031;
const HEADER: u64 = 4096;
const SLOT: u64 = 64;
const RECORD: u64 = 16;

/// Number of column families under test.
pub const FAMILIES: usize = 3;

/// A key's place: family, thread and index within the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the column family.
    pub family: usize,
    /// The thread that owns the key.
    pub thread: usize,
    /// Index of the key among the thread's.
    pub key: u64,
}

/// What is expected of one key. Ids; 0 is "absent".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The value of the operation that was begun last.
    pub pending: u64,
    /// The value of the operation that was acknowledged last.
    pub committed: u64,
}

/// Counters in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Acknowledged writes that were missing.
    Lost = 3,
    /// Values that were never written, torn batches, wrong order.
    Wrong = 4,
    /// Times the database was opened.
    Opens = 5,
    /// Times all keys were checked.
    Verified = 6,
}

/// The open file.
pub struct Expected {
    file: File,
    /// Number of threads.
    pub threads: usize,
    /// Keys of each thread in each family.
    pub keys: u64,
}

impl Expected {
    /// A new file: every key absent.
    ///
    /// # Errors
    /// The operating system's.
    pub fn create(path: &Path, threads: usize, keys: u64) -> io::Result<Expected> {
        let file = File::open(
            path,
            OpenFlags {
                read: true,
                write: true,
                create: true,
                truncate: true,
                ..Default::default()
            },
        )?;
        let expected = Expected { file, threads, keys };
        let records = (FAMILIES * threads) as u64 * keys;
        expected.file.truncate(HEADER + threads as u64 * SLOT + records * RECORD)?;
        for (index, number) in [MAGIC, threads as u64, keys].into_iter().enumerate() {
            expected.file.write_all_at(&number.to_le_bytes(), index as u64 * 8)?;
        }
        Ok(expected)
    }

    /// Opens an existing file.
    ///
    /// # Errors
    /// The operating system's; `InvalidData` if it is not such a file.
    pub fn open(path: &Path) -> io::Result<Expected> {
        let file = File::open(path, OpenFlags { read: true, write: true, ..Default::default() })?;
        let mut expected = Expected { file, threads: 0, keys: 0 };
        if expected.number(0)? != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        expected.threads = expected.number(8)? as usize;
        expected.keys = expected.number(16)?;
        Ok(expected)
    }

    fn number(&self, offset: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        match self.file.read_at(&mut bytes, offset)? {
            8 => Ok(u64::from_le_bytes(bytes)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// A counter of the header.
    ///
    /// # Errors
    /// The operating system's.
    pub fn counter(&self, counter: Counter) -> io::Result<u64> {
        self.number(counter as u64 * 8)
    }

    /// Adds to a counter of the header. Requires: one caller at a time per counter.
    ///
    /// # Errors
    /// The operating system's.
    pub fn add(&self, counter: Counter, amount: u64) -> io::Result<()> {
        let sum = self.counter(counter)? + amount;
        self.file.write_all_at(&sum.to_le_bytes(), counter as u64 * 8)
    }

    /// Acknowledged operations of one thread.
    ///
    /// # Errors
    /// The operating system's.
    pub fn acked(&self, thread: usize) -> io::Result<u64> {
        self.number(HEADER + thread as u64 * SLOT)
    }

    /// Sets the acknowledged operations of one thread.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_acked(&self, thread: usize, acked: u64) -> io::Result<()> {
        self.file.write_all_at(&acked.to_le_bytes(), HEADER + thread as u64 * SLOT)
    }

    fn offset(&self, place: Place) -> u64 {
        let row = (place.family * self.threads + place.thread) as u64;
        HEADER + self.threads as u64 * SLOT + (row * self.keys + place.key) * RECORD
    }

    /// Announces that `place` is about to get `id`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn begin(&self, place: Place, id: u64) -> io::Result<()> {
        self.file.write_all_at(&id.to_le_bytes(), self.offset(place))
    }

    /// Notes that the database has acknowledged `id` for `place`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn commit(&self, place: Place, id: u64) -> io::Result<()> {
        self.file.write_all_at(&id.to_le_bytes(), self.offset(place) + 8)
    }

    /// All records of one thread in one family, by key.
    ///
    /// # Errors
    /// The operating system's.
    pub fn records(&self, family: usize, thread: usize) -> io::Result<Vec<Record>> {
        let mut bytes = vec![0; (self.keys * RECORD) as usize];
        let read = self.file.read_at(&mut bytes, self.offset(Place { family, thread, key: 0 }))?;
        if read != bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let number = |half: &[u8]| {
            half.first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_le_bytes(*bytes))
        };
        Ok(bytes
            .chunks_exact(RECORD as usize)
            .map(|record| Record { pending: number(record), committed: number(&record[8..]) })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn what_is_written_is_read_by_the_next_process() {
        let name = format!("pumice-expected-{}", pumice_port::os::pid());
        let path = std::env::temp_dir().join(name);
        let place = Place { family: 1, thread: 2, key: 4 };
        {
            let expected = Expected::create(&path, 3, 5).unwrap();
            expected.begin(place, 77).unwrap();
            expected.set_acked(2, 9).unwrap();
            expected.add(Counter::Lost, 2).unwrap();
            expected.add(Counter::Lost, 3).unwrap();
        }
        let expected = Expected::open(&path).unwrap();
        assert_eq!((expected.threads, expected.keys), (3, 5));
        let before = expected.records(1, 2).unwrap();
        assert_eq!(before[4], Record { pending: 77, committed: 0 });
        expected.commit(place, 77).unwrap();
        assert_eq!(expected.records(1, 2).unwrap()[4].committed, 77);
        assert!(expected.records(0, 2).unwrap().iter().all(|r| r.pending == 0));
        assert_eq!(expected.acked(2).unwrap(), 9);
        assert_eq!(expected.counter(Counter::Lost).unwrap(), 5);
        assert_eq!(expected.counter(Counter::Wrong).unwrap(), 0);
        pumice_port::os::unlink(&path).unwrap();
    }
}
