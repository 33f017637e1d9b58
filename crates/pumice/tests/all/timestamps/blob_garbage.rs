//! Garbage of blob files when history goes: what the MANIFEST counts is what no entry of a table
//! refers to any more, of each file and to the byte, and a file without references is gone.
//!
//! The operations are drawn, and RocksDB 11.8.1 runs the same ones beside.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pumice::{FileSystem, PosixFs, WriteBatch};
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKey, InternalKeyComparator, ValueType};
use pumice_manifest::VersionEdit;
use pumice_table::blob::format::RECORD_HEADER_LEN;
use pumice_table::blob::index::BlobIndex;
use pumice_table::{Table, TableReadContext};
use pumice_testkit::seed;
use pumice_wal::{LogReader, LogReaderOptions};

use super::sides::{Ours, Side, Theirs, Walk};
use super::{timed, unkept};
use crate::blobs::theirs::peer;
use crate::common::Scratch;

/// Blobs, and the bytes of their records.
type Sums = BTreeMap<u64, (u64, u64)>;

/// What the MANIFEST of a database says: its tables, and of each blob file what is no garbage.
fn listed(dir: &Path) -> (BTreeSet<u64>, Sums) {
    let current = std::fs::read_to_string(dir.join("CURRENT")).unwrap();
    let file = PosixFs.open_sequential(&dir.join(current.trim_end())).unwrap();
    let mut reader = LogReader::new(file, LogReaderOptions::manifest(), None);
    let (mut tables, mut left, mut record) = (BTreeSet::new(), Sums::new(), Vec::new());
    while reader.read_record(&mut record).unwrap().is_some() {
        let edit = VersionEdit::decode(&record).unwrap();
        edit.deleted_files.iter().for_each(|(_, number)| _ = tables.remove(number));
        tables.extend(edit.new_files.iter().map(|(_, file)| file.number));
        for file in &edit.blob_additions {
            left.insert(file.number, (file.blob_count, file.blob_bytes));
        }
        for garbage in &edit.blob_garbage {
            let Some((count, bytes)) = left.get_mut(&garbage.number) else { continue };
            *count = count.checked_sub(garbage.garbage_count).unwrap();
            *bytes = bytes.checked_sub(garbage.garbage_bytes).unwrap();
        }
    }
    (tables, left)
}

/// What entries of a table refer to. Keys in the records are longer by what tables lack.
fn count(dir: &Path, table: u64, lacking: usize, sums: &mut Sums) {
    let order = match lacking {
        0 => Comparator::builtin(pumice::BYTEWISE_U64_TS).unwrap(),
        _ => Comparator::Bytewise,
    };
    let context = TableReadContext {
        comparator: InternalKeyComparator::new(order),
        file_number: table,
        ..TableReadContext::default()
    };
    let file = PosixFs::shared().open_random(&dir.join(format!("{table:06}.sst"))).unwrap();
    let bytes = file.len();
    let mut entries = Table::open(context, file, bytes).unwrap().salvage();
    while entries.valid() {
        let key = InternalKey::new(entries.key());
        if key.tag() == ValueType::BlobIndex as u8 {
            let index = BlobIndex::decode(entries.value()).unwrap();
            let (count, bytes) = sums.entry(index.file).or_default();
            *count += 1;
            *bytes += (RECORD_HEADER_LEN + key.user_key().len() + lacking) as u64 + index.size;
        }
        entries.next();
    }
    assert!(entries.damage().is_empty());
}

/// The garbage of each file is what no entry refers to.
fn check(dir: &Path, lacking: usize, (what, exact): (&str, bool)) -> usize {
    let (tables, left) = listed(dir);
    let mut used = Sums::new();
    tables.iter().for_each(|table| count(dir, *table, lacking, &mut used));
    let there: BTreeSet<u64> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".blob")?.parse().ok()
        })
        .collect();
    for (file, used) in &used {
        assert_eq!(left.get(file), Some(used), "{what}: {file:06}.blob");
        assert!(there.contains(file), "{what}: {file:06}.blob is gone");
    }
    if exact {
        let needed: BTreeSet<u64> = used.keys().copied().collect();
        assert_eq!(there, needed, "{what}");
    }
    used.len()
}

struct Run<'s> {
    rng: Rng,
    sides: Vec<Box<dyn Side + 's>>,
    clock: u64,
    low: u64,
    merges: bool,
    raises: bool,
}

impl Run<'_> {
    fn key(&mut self) -> Vec<u8> {
        let n = self.rng.uniform(30);
        match n % 2 {
            0 => format!("k{n}").into_bytes(),
            _ => format!("key-{n:09}").into_bytes(),
        }
    }

    fn write(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.rng.uniform(5) {
            self.clock += u64::from(!self.rng.one_in(5));
            let (key, end, time) = (self.key(), self.key(), self.clock.to_le_bytes());
            let value = format!("{}-", self.clock).repeat(1 + self.rng.uniform(20) as usize);
            match self.rng.uniform(12) {
                0 | 1 => batch.delete_cf_with_ts(0, key, time),
                2 if !self.merges && key < end => {
                    batch.delete_range_cf_with_ts(0, key, end, time);
                }
                3 | 4 if self.merges => batch.merge_cf_with_ts(0, key, time, value),
                _ => batch.put_cf_with_ts(0, key, time, value),
            }
        }
        self.sides.iter_mut().for_each(|side| side.write(&batch));
    }

    fn step(&mut self) {
        match self.rng.uniform(12) {
            0..6 => self.write(),
            6 | 7 => {
                self.write();
                self.sides.iter().for_each(|side| side.flush());
            }
            8 | 9 => {
                let (a, b) = (self.key(), self.key());
                let range = (self.rng.one_in(2) && a < b).then_some((&a[..], &b[..]));
                self.sides.iter().for_each(|side| side.compact(range));
            }
            10 if self.raises => {
                self.low += self.rng.uniform(1 + self.clock - self.low.min(self.clock));
                // A new version, so that both have it.
                self.write();
                self.sides.iter().for_each(|side| {
                    side.raise(self.low).unwrap();
                    side.flush();
                });
            }
            _ => self.sides.iter_mut().for_each(|side| side.reopen()),
        }
    }
}

// Plain #[test]: the engines work on real files, and RocksDB has its own threads.
#[test]
fn garbage_is_what_no_entry_refers_to() {
    let peer = peer();
    let mut files = 0;
    for seed in seed::range(12) {
        let what = seed::replay_hint("blob_garbage", seed);
        let dir = Scratch::new("timed-garbage");
        std::fs::create_dir_all(&dir.0).unwrap();
        let (keeps, collects, merges) = (seed % 3 > 0, seed % 2 == 1, seed % 5 == 4);
        let fs: Arc<dyn FileSystem> = Arc::new(PosixFs);
        let mut options = if keeps { timed(&fs) } else { unkept(&fs) };
        super::blobs::separate(&mut options.cf, 20, collects);
        options.cf.disable_auto_compactions = seed % 4 > 0;
        options.cf.level0_file_num_compaction_trigger = 2;
        options.cf.target_file_size_base = 2 << 10;
        options.db.max_subcompactions = 1 + (seed % 3) as u32;
        if seed % 7 == 6 {
            options.cf.compaction_style = pumice::options::CompactionStyle::Universal;
        }
        let ours = Ours::open(options, &dir.0.join("ours"));
        let mut sides: Vec<Box<dyn Side + '_>> = vec![Box::new(ours)];
        // RocksDB 11.8.1 cannot read the blob of an entry that has lost its time, which the
        // collection of garbage would do, and merges operands otherwise.
        let raises = keeps && seed % 4 != 1;
        if let Some(peer) = peer.as_ref().filter(|_| !(merges || raises && collects)) {
            let text = format!(
                "enable_blob_files=true;min_blob_size=20;blob_file_size=3000;\
                 enable_blob_garbage_collection={collects};blob_garbage_collection_age_cutoff=0.5;\
                 target_file_size_base=2048;disable_auto_compactions=true{}",
                if keeps {
                    ""
                } else {
                    ";persist_user_defined_timestamps=false;allow_concurrent_memtable_write=false"
                }
            );
            sides.push(Box::new(Theirs::open(peer, &dir.0.join("theirs"), &text)));
        }
        let mut run = Run { rng: Rng::new(seed), sides, clock: 1, low: 0, merges, raises };
        let lacking = if keeps { 0 } else { 8 };
        for step in 0..40 {
            run.step();
            if step % 4 > 0 {
                continue;
            }
            run.sides[0].settle();
            let what = format!("{what} step {step}");
            files += check(&dir.0.join("ours"), lacking, (&what, true));
            if run.sides.len() > 1 {
                let theirs = format!("{what} RocksDB");
                check(&dir.0.join("theirs"), lacking, (&theirs, false));
            }
        }
        // Nothing is left of what is deleted, and no file.
        let mut batch = WriteBatch::new();
        run.clock += 1;
        batch.delete_range_cf_with_ts(0, "", "z", run.clock.to_le_bytes());
        let side = &mut run.sides[0];
        side.write(&batch);
        side.flush();
        if keeps {
            side.raise(run.clock + 1).unwrap();
        }
        side.compact(None);
        side.settle();
        assert_eq!(side.walk(run.clock + 1, &Walk::default()).unwrap(), [], "{what}");
        assert_eq!(check(&dir.0.join("ours"), lacking, (&what, true)), 0, "{what}");
    }
    assert!(files > 200 || seed::wanted().is_some(), "{files}");
}
