//! Reads a table in every possible way and checks the results.
//!
//! Errors are fine everywhere. Not fine: a panic (which the caller catches), more work than the
//! table justifies, and contradictory answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::hash::hash64;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{Result, UserKey, ValueType};
use pumice_env::{RandomAccessFile, ReadRequest, read_one_by_one};
use pumice_table::{Table, TableIter, TableOptions, TableReadContext, TableReadOptions, dump};

use crate::kinds::Honest;
use crate::support;

/// An in-memory file that counts reads.
struct CountedFile {
    bytes: Arc<[u8]>,
    reads: AtomicU64,
    read_bytes: AtomicU64,
}

impl RandomAccessFile for CountedFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let rest = &self.bytes[from..];
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        read_one_by_one(self, requests);
    }
    fn needs_little_stack(&self) -> bool {
        false
    }
    fn prefetch(&self, _: u64, _: u64) {}
    fn prefetches(&self) -> bool {
        false
    }
    fn read_unit(&self) -> usize {
        1
    }
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn path(&self) -> &Path {
        Path::new("/hostile.sst")
    }
}

/// How blocks are cached during an exam.
#[derive(Clone, Copy, Debug)]
pub enum Caching {
    None,
    /// Every block stays.
    Large,
    /// Next to nothing stays, so that index partitions are searched in their encoded form.
    Tiny,
}

/// The result of an exam.
#[derive(Clone, Copy, Debug, Default)]
pub struct Findings {
    /// The table was opened.
    pub opened: bool,
    /// The attempts that ended in an error.
    pub errors: u32,
    pub tried: u32,
}

impl Findings {
    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        self.tried += 1;
        if let Err(error) = &result {
            self.errors += 1;
            assert!(!error.to_string().is_empty());
        }
        result.ok()
    }
}

/// An exam under way.
struct Exam<'a> {
    honest: &'a Honest,
    table: Arc<Table>,
    file: Arc<CountedFile>,
    findings: Findings,
}

/// Examines `bytes`, which were made from `honest`.
///
/// # Panics
/// If the reader misbehaves.
pub fn examine(honest: &Honest, bytes: &[u8], caching: Caching, rng: &mut Rng) -> Findings {
    let file = Arc::new(CountedFile {
        bytes: Arc::from(bytes),
        reads: AtomicU64::new(0),
        read_bytes: AtomicU64::new(0),
    });
    let context = context(honest, caching);
    let opened = Table::open(context, file.clone(), bytes.len() as u64);
    let limit = 4 * bytes.len() as u64 + (64 << 10);
    let read = file.read_bytes.load(Ordering::Relaxed);
    assert!(read <= limit, "opening reads {read} bytes of {}", bytes.len());
    let Ok(table) = opened else { return Findings::default() };
    let findings = Findings { opened: true, ..Findings::default() };
    let mut exam = Exam { honest, table, file, findings };
    exam.walk();
    exam.lookups(rng);
    exam.seeks(rng);
    exam.whole();
    exam.findings
}

fn context(honest: &Honest, caching: Caching) -> TableReadContext {
    let mut context = honest.read.clone();
    let capacity = match caching {
        Caching::None => None,
        Caching::Large => Some(1 << 20),
        Caching::Tiny => Some(1 << 10),
    };
    let options = TableOptions {
        block_cache: capacity.map(support::cache),
        no_block_cache: capacity.is_none(),
        cache_index_and_filter_blocks: capacity.is_some(),
        pin_top_level_index_and_filter: false,
        ..TableOptions::clone(&context.options)
    };
    context.options = Arc::new(options);
    context
}

impl Exam<'_> {
    /// Runs `work` and checks that it makes at most `reads_max` reads.
    fn bounded<T>(&mut self, reads_max: u64, what: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        self.file.reads.store(0, Ordering::Relaxed);
        let done = work(self);
        let reads = self.file.reads.load(Ordering::Relaxed);
        assert!(reads <= reads_max, "{what}: {reads} reads");
        done
    }

    /// Blocks that a file of this size may have if each has the minimum size.
    fn blocks_max(&self) -> u64 {
        self.file.len() / 5 + 10
    }

    /// Forward, and backward the same.
    fn walk(&mut self) {
        let walk = |exam: &mut Self, forward| {
            exam.bounded(exam.blocks_max(), "a walk", |exam| exam.all(forward))
        };
        let forward = walk(self, true);
        let backward = walk(self, false);
        if let (Some(forward), Some(mut backward)) = (forward, backward) {
            backward.reverse();
            assert!(forward == backward, "{} forward, {} back", forward.len(), backward.len());
        }
    }

    /// Hashes of all entries in one direction, if there is no error.
    fn all(&mut self, forward: bool) -> Option<Vec<(u64, u64)>> {
        let options = TableReadOptions { fill_cache: forward, ..Default::default() };
        let mut iter = self.table.iter(&options);
        let mut list = Vec::new();
        let most = 40 * self.honest.bytes.len();
        if forward {
            iter.seek_to_first()
        } else {
            iter.seek_to_last()
        }
        while iter.valid() {
            list.push((hash64(iter.key().as_bytes()), hash64(iter.value())));
            assert!(list.len() <= most, "an endless table");
            if forward { iter.next() } else { iter.prev() }
        }
        self.findings.note(iter.status())?;
        Some(list)
    }

    /// Keys that exist and keys that do not.
    fn targets(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let mut targets: Vec<Vec<u8>> = Vec::new();
        for _ in 0..6 {
            let at = rng.uniform(self.honest.entries.len() as u64) as usize;
            let user = InternalKey::new(&self.honest.entries[at].0).user_key();
            targets.extend([user.to_vec(), [user.as_bytes(), b"!"].concat()]);
        }
        targets.extend([Vec::new(), vec![0], vec![0xff; 40], vec![b'k'; 300], b"key".to_vec()]);
        targets
    }

    fn lookups(&mut self, rng: &mut Rng) {
        let options = TableReadOptions::default();
        for user in self.targets(rng) {
            let target = seek_key(&user, if rng.one_in(2) { MAX_SEQUENCE } else { 880 });
            let mut versions = 0;
            let most = self.file.len() + 1000;
            // Filter, filter partition, top level, two partitions, two blocks; then one for each
            // block of versions.
            self.bounded(most, "a lookup", |exam| {
                let result =
                    exam.table.get(&options, InternalKey::new(&target), &mut |key, _, _| {
                        assert_eq!(key.user_key.as_bytes(), user);
                        versions += 1;
                        true
                    });
                exam.findings.note(result);
            });
            let reads = self.file.reads.load(Ordering::Relaxed);
            assert!(reads <= 12 + versions, "{reads} reads for {versions} versions");
            let may = self.table.key_may_match(&options, &user);
            self.findings.note(may);
            let offset = self.table.approximate_offset_of(InternalKey::new(&target));
            if let Some(offset) = self.findings.note(offset) {
                assert!(offset <= self.file.len(), "data at {offset}");
            }
        }
    }

    fn seeks(&mut self, rng: &mut Rng) {
        let options = TableReadOptions {
            total_order_seek: rng.one_in(2),
            prefix_same_as_start: rng.one_in(3),
            ..Default::default()
        };
        let mut iter = self.table.iter(&options);
        for user in self.targets(rng) {
            if rng.one_in(2) {
                iter = self.table.iter(&options);
            }
            self.seek(&mut iter, &seek_key(&user, MAX_SEQUENCE), true);
            self.seek(&mut iter, &internal_key(&user, 0, ValueType::Deletion), false);
        }
    }

    /// A seek lands on the right side of its target.
    fn seek(&mut self, iter: &mut TableIter, target: &[u8], forward: bool) {
        // Blocks without entries are skipped one by one.
        self.bounded(self.blocks_max(), "a seek", |_| {
            if forward {
                iter.seek(InternalKey::new(target))
            } else {
                iter.seek_for_prev(InternalKey::new(target))
            }
        });
        if iter.valid() {
            let order = self.table.comparator().compare(iter.key(), InternalKey::new(target));
            let right = if forward { order.is_ge() } else { order.is_le() };
            assert!(right, "forward {forward}: {:?} for {target:?}", iter.key());
            if forward { iter.next() } else { iter.prev() }
        }
        self.findings.note(iter.status());
    }

    /// Operations on the whole table.
    fn whole(&mut self) {
        let most = 2 * self.blocks_max();
        self.bounded(most, "a verification", |exam| {
            let verified = exam.table.verify_checksums();
            exam.findings.note(verified);
        });
        assert!(!dump::properties_text(self.table.properties()).is_empty());
        self.bounded(most, "a dump", |exam| {
            let dumped = dump::raw_text(&exam.table, false);
            exam.findings.note(dumped);
        });
        assert!(self.table.approximate_memory() < 64 << 20);
        if let Some(tombstones) = self.table.range_tombstones() {
            let cmp = &self.table.comparator().user;
            assert!(tombstones.num_tombstones() <= self.honest.bytes.len());
            for fragment in tombstones.fragments() {
                assert!(
                    cmp.compare(UserKey::new(&fragment.start), UserKey::new(&fragment.end)).is_lt()
                );
            }
        }
    }
}
