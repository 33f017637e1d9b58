//! How many blobs of each blob file entries refer to, and the bytes of their records. Embedded
//! blobs are no part of one and do not count.
//!
//! A compaction counts the references of what it reads and of what it writes: what is missing in
//! the output is garbage. Files that only the output refers to are new.
//!
//! Thread safety: plain data. An index that cannot be decoded is Corruption.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pumice_base::planted::{self, Bug};
use pumice_base::{FileNumber, Result, ValueType, wide_columns};
use pumice_manifest::edit::BlobFileGarbage;
use pumice_table::blob::format::RECORD_HEADER_LEN;
use pumice_table::blob::index::{BlobIndex, StackedIndex};

/// Blobs of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub count: u64,
    pub bytes: u64,
}

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(crate) struct References(BTreeMap<FileNumber, Flow>);

/// An entry of that type may refer to blobs.
#[inline]
pub(crate) fn may_refer(tag: u8, value: &[u8]) -> bool {
    tag == ValueType::BlobIndex as u8
        // The version of an entity with columns in blob files.
        || (tag == ValueType::WideColumnEntity as u8 && value.first() == Some(&2))
}

/// An entry, for which `may_refer` holds, refers to an embedded blob.
///
/// # Errors
/// Corruption if it cannot be decoded.
#[cold]
pub(crate) fn is_embedded(tag: u8, value: &[u8]) -> Result<bool> {
    if tag == ValueType::BlobIndex as u8 {
        return Ok(!StackedIndex::has_expiration(value) && BlobIndex::decode(value)?.in_table);
    }
    for stored in wide_columns::decode_stored(value)? {
        if stored.in_blob_file && BlobIndex::decode(stored.column.value)?.in_table {
            return Ok(true);
        }
    }
    Ok(false)
}

impl References {
    /// Counts what an entry refers to, for which `may_refer` holds. The keys of its records have
    /// `key_bytes`.
    ///
    /// # Errors
    /// Corruption if it cannot be decoded.
    #[cold]
    pub fn add(&mut self, key_bytes: usize, tag: u8, value: &[u8]) -> Result<()> {
        if tag == ValueType::BlobIndex as u8 {
            // As in RocksDB, no table names the files of the old BlobDB that expire as a whole.
            if !StackedIndex::has_expiration(value) {
                self.add_index(key_bytes, &BlobIndex::decode(value)?);
            }
            return Ok(());
        }
        for stored in wide_columns::decode_stored(value)? {
            if stored.in_blob_file {
                self.add_index(key_bytes, &BlobIndex::decode(stored.column.value)?);
            }
        }
        Ok(())
    }

    fn add_index(&mut self, key_bytes: usize, index: &BlobIndex) {
        if index.in_table {
            return;
        }
        let record = index.size.saturating_add((RECORD_HEADER_LEN + key_bytes) as u64);
        let flow = self.0.entry(index.file).or_default();
        flow.count += 1;
        flow.bytes = flow.bytes.saturating_add(record);
    }

    /// Adds those of another part of a job.
    pub fn merge(&mut self, other: References) {
        for (file, flow) in other.0 {
            match self.0.entry(file) {
                Entry::Vacant(entry) => _ = entry.insert(flow),
                Entry::Occupied(mut entry) => {
                    entry.get_mut().count += flow.count;
                    entry.get_mut().bytes = entry.get().bytes.saturating_add(flow.bytes);
                }
            }
        }
    }

    /// Those to a file.
    pub fn of(&self, file: FileNumber) -> Flow {
        self.0.get(&file).copied().unwrap_or_default()
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = FileNumber> {
        self.0.keys().copied()
    }

    /// The oldest file; 0 for none.
    pub fn oldest(&self) -> FileNumber {
        self.0.keys().next().copied().unwrap_or(0)
    }

    /// What a job made garbage that read `self` and wrote `out`.
    pub fn garbage(&self, out: &References) -> Vec<BlobFileGarbage> {
        let lost = |(number, flow): (&FileNumber, &Flow)| {
            let kept = out.0.get(number).copied().unwrap_or_default();
            let kept =
                if planted::is(Bug::BlobGarbageOvercounted) { Flow::default() } else { kept };
            let garbage_count = flow.count.saturating_sub(kept.count);
            let garbage_bytes = flow.bytes.saturating_sub(kept.bytes);
            let garbage = BlobFileGarbage { number: *number, garbage_count, garbage_bytes };
            (garbage_count > 0).then_some(garbage)
        };
        self.0.iter().filter_map(lost).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_compress::CompressionType;

    fn index(file: u64, size: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (in_table, compression) = (file == 0, CompressionType::None);
        BlobIndex { file, in_table, offset: 100, size, compression }.encode(&mut bytes);
        bytes
    }

    #[pumice_test_macros::test]
    fn garbage_is_what_the_output_lacks() {
        let (mut read, mut written) = (References::default(), References::default());
        for (key, file, size) in [("a", 5, 10), ("bb", 5, 20), ("c", 7, 30)] {
            read.add(key.len(), 0x11, &index(file, size)).unwrap();
        }
        written.add(1, 0x11, &index(5, 10)).unwrap();
        written.add(1, 0x11, &index(7, 30)).unwrap();
        written.add(3, 0x11, &index(9, 30)).unwrap();
        // In the table itself.
        read.add(1, 0x11, &index(0, 30)).unwrap();
        let garbage = read.garbage(&written);
        let expected = BlobFileGarbage { number: 5, garbage_count: 1, garbage_bytes: 20 + 32 + 2 };
        assert_eq!(garbage, [expected]);
        assert_eq!((read.oldest(), References::default().oldest()), (5, 0));
        let embedded = |file| is_embedded(0x11, &index(file, 10)).unwrap();
        assert!(embedded(0) && !embedded(5) && is_embedded(0x11, b"\x01").is_err());
    }

    #[pumice_test_macros::test]
    fn columns_count_too() {
        // The column `big` is in file 10.
        let entity = b"\x02\x03\x03\x03\x05\x01\x11\x01\x00\x03\x02\x04\x05\x01bigsm\
            dflt\x01\x0a\x40\x28\x00s";
        assert!(may_refer(0x16, entity) && !may_refer(0x16, b"\x01\x00") && may_refer(0x11, b""));
        let mut read = References::default();
        read.add(1, 0x16, entity).unwrap();
        let garbage = read.garbage(&References::default());
        assert_eq!((garbage[0].number, garbage[0].garbage_bytes), (10, 40 + 33));
        assert!(References::default().add(1, 0x11, b"\x01").is_err());
    }
}
