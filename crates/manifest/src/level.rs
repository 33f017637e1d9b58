//! The files of one level in search order, with the data that searches and scores need.
//!
//! Thread safety: immutable; shared by every version in which the level did not change.
//!
//! Invariants: (1) L0 is ordered newest first (epoch, sequence numbers, number); every other level
//! by smallest key, and no two files overlap as internal keys, unless `is_overlapping`; (2) under
//! the bytewise comparator and unless `is_overlapping`, `prefixes` holds for each file the first
//! eight bytes, big-endian, of its smallest and largest user key after the common prefix of all
//! keys of the level, so that a search touches no file until prefixes tie;
//! (3) the sums are over all files.

use pumice_base::narrow::{len_u32, saturating_u64};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pumice_base::{Comparator, InternalKey, InternalKeyComparator, UserKey};

use crate::file_meta::{FileMetaData, FileStats};
use crate::range::UserRange;

/// Sums over the entry counts of files, for the average value size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatsSum {
    pub file_bytes: u64,
    pub non_deletions: u64,
    pub raw_key_bytes: u64,
    pub raw_value_bytes: u64,
}

impl StatsSum {
    pub(crate) fn add_file(&mut self, file: &FileMetaData) {
        let Some(FileStats { num_entries, num_deletions, raw_key_size, raw_value_size, .. }) =
            file.stats.get()
        else {
            return;
        };
        self.file_bytes = self.file_bytes.saturating_add(file.file_size);
        let non_deletions = num_entries.saturating_sub(*num_deletions);
        self.non_deletions = self.non_deletions.saturating_add(non_deletions);
        self.raw_key_bytes = self.raw_key_bytes.saturating_add(*raw_key_size);
        self.raw_value_bytes = self.raw_value_bytes.saturating_add(*raw_value_size);
    }

    pub(crate) fn add(&mut self, other: &StatsSum) {
        self.file_bytes = self.file_bytes.saturating_add(other.file_bytes);
        self.non_deletions = self.non_deletions.saturating_add(other.non_deletions);
        self.raw_key_bytes = self.raw_key_bytes.saturating_add(other.raw_key_bytes);
        self.raw_value_bytes = self.raw_value_bytes.saturating_add(other.raw_value_bytes);
    }

    /// Average bytes of a value as stored, compression included; 0 while nothing is known.
    pub(crate) fn average_value_size(&self) -> u64 {
        let raw = self.raw_key_bytes.saturating_add(self.raw_value_bytes);
        if self.non_deletions == 0 || raw == 0 {
            return 0;
        }
        let average = u128::from(self.raw_value_bytes / self.non_deletions);
        saturating_u64(average * u128::from(self.file_bytes) / u128::from(raw))
    }
}

/// See invariant 2.
#[derive(Debug, Default)]
struct Prefixes {
    common: Box<[u8]>,
    smallest: Box<[u64]>,
    largest: Box<[u64]>,
}

/// The position of a key relative to the keys of a level, as far as prefixes tell.
#[derive(Clone, Copy)]
enum Probe {
    /// Before all keys.
    Before,
    /// After all keys.
    After,
    /// Among them, with these eight bytes after the common ones.
    At(u64),
}

/// The first eight bytes of `bytes`, zero-padded, as an integer that orders as they do.
#[inline]
fn prefix_of(bytes: &[u8]) -> u64 {
    if let Some(chunk) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*chunk);
    }
    let mut padded = [0u8; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(padded)
}

impl Prefixes {
    /// `sorted`: the files are in key order, so that the outermost keys bound all others.
    fn new(files: &[Arc<FileMetaData>], sorted: bool) -> Self {
        let (Some(first), Some(last)) = (files.first(), files.last()) else {
            return Prefixes::default();
        };
        let base = first.smallest_user_key().as_bytes();
        let with_base = |key: UserKey<'_>| common_len(base, key.as_bytes());
        let mut common = with_base(last.largest_user_key());
        if !sorted {
            for file in files {
                common = common.min(with_base(file.smallest_user_key()));
                common = common.min(with_base(file.largest_user_key()));
            }
        }
        let prefix = |key: UserKey<'_>| prefix_of(&key.as_bytes()[common..]);
        Prefixes {
            common: base[..common].into(),
            smallest: files.iter().map(|f| prefix(f.smallest_user_key())).collect(),
            largest: files.iter().map(|f| prefix(f.largest_user_key())).collect(),
        }
    }

    #[inline]
    fn probe(&self, user_key: UserKey<'_>) -> Probe {
        let (n, user_key) = (self.common.len(), user_key.as_bytes());
        match user_key.split_at_checked(n) {
            Some((head, tail)) => match head.cmp(&self.common) {
                Ordering::Less => Probe::Before,
                Ordering::Equal => Probe::At(prefix_of(tail)),
                Ordering::Greater => Probe::After,
            },
            // A shorter key that equals the common bytes as far as it goes sorts before them.
            None if user_key > &self.common[..] => Probe::After,
            None => Probe::Before,
        }
    }
}

fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// The files of one level.
#[derive(Debug, Default)]
pub struct Level {
    number: usize,
    files: Vec<Arc<FileMetaData>>,
    /// See invariant 2.
    prefixes: Option<Prefixes>,
    /// (file number, index), ascending.
    by_number: Vec<(u64, u32)>,
    /// Indices of files a property collector marked for compaction.
    marked: Vec<u32>,
    /// Indices of files that hold mostly tombstones of single keys, or may, because their counts
    /// were not known.
    dense: Vec<u32>,
    /// Indices of files with a sequence number above zero.
    unzeroed: Vec<u32>,
    /// Indices of files that were not known to have no range tombstones.
    range_deletions: Vec<u32>,
    /// This many of the first ones are known to have none by now.
    cleared: AtomicUsize,
    total_bytes: u64,
    compensated_bytes: u64,
    max_epoch: u64,
    oldest_ancester_time: u64,
    oldest_creation_time: u64,
    overlapping: bool,
    pub(crate) stats: StatsSum,
}

impl Level {
    /// A level of `files` that are in the order of invariant 1.
    pub fn new(number: usize, files: Vec<Arc<FileMetaData>>, cmp: &Comparator) -> Self {
        Self::of(number, files, cmp, false)
    }

    /// A level whose files overlap, if it is `overlapping`.
    pub(crate) fn of(
        number: usize,
        files: Vec<Arc<FileMetaData>>,
        cmp: &Comparator,
        overlapping: bool,
    ) -> Self {
        let mut level = Level { number, overlapping, ..Level::default() };
        let oldest = |time: fn(&FileMetaData) -> u64| {
            files.iter().map(|file| time(file)).filter(|time| *time > 0).min().unwrap_or(u64::MAX)
        };
        level.oldest_ancester_time = oldest(|file| file.oldest_ancester_time);
        level.oldest_creation_time = oldest(|file| file.file_creation_time);
        level.by_number.reserve_exact(files.len());
        for (i, file) in files.iter().enumerate() {
            let i = len_u32(i);
            level.by_number.push((file.number, i));
            if file.marked_for_compaction {
                level.marked.push(i);
            }
            if file.stats.get().is_none_or(FileStats::is_dense) {
                level.dense.push(i);
            }
            if file.largest_seq != 0 {
                level.unzeroed.push(i);
            }
            if !file.has_no_range_deletions() {
                level.range_deletions.push(i);
            }
            level.total_bytes = level.total_bytes.saturating_add(file.file_size);
            level.compensated_bytes =
                level.compensated_bytes.saturating_add(file.compensated_size());
            level.max_epoch = level.max_epoch.max(file.epoch_number);
            level.stats.add_file(file);
        }
        level.by_number.sort_unstable();
        let has_prefixes = cmp.is_bytewise() && !overlapping;
        level.prefixes = has_prefixes.then(|| Prefixes::new(&files, number > 0));
        level.files = files;
        level
    }

    /// Files overlap where they must not (L0: those of one flush or compaction): their order does
    /// not tell which is newer, only sequence numbers do, and no search by key finds all of them.
    #[inline]
    pub fn is_overlapping(&self) -> bool {
        self.overlapping
    }

    /// Which level this is.
    pub fn number(&self) -> usize {
        self.number
    }
    /// The files, in the order of invariant 1.
    #[inline]
    pub fn files(&self) -> &[Arc<FileMetaData>] {
        &self.files
    }
    /// Number of files.
    #[inline]
    pub fn len(&self) -> usize {
        self.files.len()
    }
    /// There are no files.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
    /// Sum of the file sizes.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }
    /// Sum of the compensated file sizes.
    pub fn compensated_bytes(&self) -> u64 {
        self.compensated_bytes
    }
    /// Largest epoch number.
    pub fn max_epoch(&self) -> u64 {
        self.max_epoch
    }
    /// Smallest `oldest_ancester_time` of a file that has one, else `u64::MAX`.
    pub fn oldest_ancester_time(&self) -> u64 {
        self.oldest_ancester_time
    }
    /// Smallest `file_creation_time` of a file that has one, else `u64::MAX`.
    pub fn oldest_creation_time(&self) -> u64 {
        self.oldest_creation_time
    }
    /// Files a table property collector marked for compaction.
    pub fn marked_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
        self.marked.iter().map(|&i| (i as usize, &self.files[i as usize]))
    }
    /// Files that are known to hold mostly tombstones of single keys.
    pub fn dense_files(&self) -> impl Iterator<Item = &Arc<FileMetaData>> {
        let files = self.dense.iter().map(|&i| &self.files[i as usize]);
        files.filter(|file| file.stats().is_dense())
    }
    /// Files that are known to have range tombstones.
    pub fn range_deleting_files(&self) -> impl Iterator<Item = &Arc<FileMetaData>> {
        let files = self.range_deletions.iter().map(|&i| &self.files[i as usize]);
        files.filter(|file| file.stats().num_range_deletions > 0)
    }
    /// Files that hold a sequence number above zero.
    pub fn unzeroed_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
        self.unzeroed.iter().map(|&i| (i as usize, &self.files[i as usize]))
    }

    /// Whether some file has range tombstones, or may have because it was not opened yet.
    pub fn may_have_range_deletions(&self) -> bool {
        let mut at = self.cleared.load(Relaxed);
        let clear = |&i: &u32| self.files[i as usize].has_no_range_deletions();
        if self.range_deletions.get(at).is_some_and(clear) {
            at += self.range_deletions[at..].iter().take_while(|i| clear(i)).count();
            self.cleared.store(at, Relaxed);
        }
        at < self.range_deletions.len()
    }

    /// Index of the file with that number.
    pub fn index_of(&self, number: u64) -> Option<usize> {
        let at = self.by_number.binary_search_by_key(&number, |&(n, _)| n).ok()?;
        Some(self.by_number[at].1 as usize)
    }

    /// Index of the first file whose largest key is at or after `ikey`; `len()` if none.
    /// Not for L0.
    #[inline]
    pub fn find_file(&self, icmp: &InternalKeyComparator, ikey: InternalKey<'_>) -> usize {
        debug_assert!(self.number > 0);
        let before = |f: &Arc<FileMetaData>| icmp.compare(f.largest_key(), ikey) == Ordering::Less;
        let Some(prefixes) = &self.prefixes else {
            return self.files.partition_point(before);
        };
        match prefixes.probe(ikey.user_key()) {
            Probe::Before => 0,
            Probe::After => self.files.len(),
            Probe::At(p) => {
                let low = prefixes.largest.partition_point(|&x| x < p);
                let ties = prefixes.largest[low..].partition_point(|&x| x == p);
                low + self.files[low..low + ties].partition_point(before)
            }
        }
    }

    /// Whether file `index` holds keys on both sides of, or at, `user_key`.
    #[inline]
    fn covers(&self, index: usize, probe: Probe, cmp: &Comparator, user_key: UserKey<'_>) -> bool {
        if let Some(prefixes) = &self.prefixes {
            let Probe::At(p) = probe else {
                return false;
            };
            let (low, high) = (prefixes.smallest[index], prefixes.largest[index]);
            if p != low && p != high {
                return low < p && p < high;
            }
        }
        let file = &self.files[index];
        cmp.compare_without_timestamp(file.smallest_user_key(), user_key) != Ordering::Greater
            && cmp.compare_without_timestamp(user_key, file.largest_user_key()) != Ordering::Greater
    }

    /// The files that may hold versions of the user key of `ikey` at or after `ikey`, in the order
    /// in which a read must search them.
    #[inline]
    pub fn candidates<'a>(
        &'a self,
        icmp: &'a InternalKeyComparator,
        ikey: InternalKey<'a>,
    ) -> Candidates<'a> {
        let user_key = ikey.user_key();
        let probe = match &self.prefixes {
            Some(prefixes) => prefixes.probe(user_key),
            None => Probe::At(0),
        };
        let next = match self.number {
            _ if self.files.is_empty() => 0,
            0 => 0,
            _ => self.find_file(icmp, ikey),
        };
        Candidates { level: self, cmp: &icmp.user, user_key, probe, next }
    }

    /// Indices of the files that share a user key with `range`. Not for L0.
    pub fn overlapping_range(&self, range: &UserRange<'_>, cmp: &Comparator) -> Range<usize> {
        debug_assert!(self.number > 0);
        let start = match range.begin {
            Some(begin) => {
                self.files.partition_point(|f| UserRange::of_file(f).is_before_key(begin, cmp))
            }
            None => 0,
        };
        let end = self.files.partition_point(|f| !range.is_before_key(f.smallest_user_key(), cmp));
        start..end.max(start)
    }

    /// The files that share a user key with `range`; any level.
    pub fn overlapping_files(
        &self,
        range: &UserRange<'_>,
        cmp: &Comparator,
    ) -> Vec<Arc<FileMetaData>> {
        if self.number > 0 {
            return self.files[self.overlapping_range(range, cmp)].to_vec();
        }
        let overlaps = |f: &&Arc<FileMetaData>| UserRange::of_file(f).overlaps(range, cmp);
        self.files.iter().filter(overlaps).cloned().collect()
    }

    /// Some file shares a user key with `range`.
    pub fn overlaps(&self, range: &UserRange<'_>, cmp: &Comparator) -> bool {
        if self.number > 0 {
            return !self.overlapping_range(range, cmp).is_empty();
        }
        self.files.iter().any(|f| UserRange::of_file(f).overlaps(range, cmp))
    }

    /// The files that must be compacted together if `range` is: in L0 the overlapping files and
    /// those that overlap these, in other levels the overlapping files extended to a clean cut.
    pub fn overlapping_inputs(
        &self,
        range: &UserRange<'_>,
        cmp: &Comparator,
    ) -> Vec<Arc<FileMetaData>> {
        if self.number > 0 {
            let indices = self.overlapping_range(range, cmp);
            return self.files[self.clean_cut(indices, cmp)].to_vec();
        }
        let mut taken = vec![false; self.files.len()];
        let mut range = *range;
        loop {
            let before = taken.iter().filter(|&&t| t).count();
            for (file, taken) in self.files.iter().zip(&mut taken) {
                let own = UserRange::of_file(file);
                if !*taken && own.overlaps(&range, cmp) {
                    *taken = true;
                    range = range.union(own, cmp);
                }
            }
            if taken.iter().filter(|&&t| t).count() == before {
                break;
            }
        }
        let picked = self.files.iter().zip(taken).filter(|(_, taken)| *taken);
        picked.map(|(file, _)| file.clone()).collect()
    }

    /// `left` and its right neighbour hold versions of one user key.
    fn shares_key(left: &FileMetaData, right: &FileMetaData, cmp: &Comparator) -> bool {
        !left.largest_key().is_range_end()
            && cmp.same_user_key(left.largest_user_key(), right.smallest_user_key())
    }

    /// Extends `indices` until no file outside shares a user key with one inside. Not for L0.
    pub fn clean_cut(&self, indices: Range<usize>, cmp: &Comparator) -> Range<usize> {
        if indices.is_empty() {
            return indices;
        }
        let (mut start, mut end) = (indices.start, indices.end);
        while start > 0 && Self::shares_key(&self.files[start - 1], &self.files[start], cmp) {
            start -= 1;
        }
        while end < self.files.len()
            && Self::shares_key(&self.files[end - 1], &self.files[end], cmp)
        {
            end += 1;
        }
        start..end
    }

    /// The files wholly inside `range`, reduced to a clean cut. Not for L0.
    pub fn clean_inputs_within(&self, range: &UserRange<'_>, cmp: &Comparator) -> Range<usize> {
        let Range { mut start, mut end } = self.overlapping_range(range, cmp);
        let sticks_out_left = |f: &FileMetaData| {
            range.begin.is_some_and(|b| {
                cmp.compare_without_timestamp(f.smallest_user_key(), b) == Ordering::Less
            })
        };
        let sticks_out_right = |f: &FileMetaData| {
            let own_end = f.largest_user_key();
            range.end.is_some_and(|e| match cmp.compare_without_timestamp(own_end, e) {
                Ordering::Less => false,
                Ordering::Equal => range.end_open && !f.largest_key().is_range_end(),
                Ordering::Greater => true,
            })
        };
        while start < end
            && (sticks_out_left(&self.files[start])
                || (start > 0 && Self::shares_key(&self.files[start - 1], &self.files[start], cmp)))
        {
            start += 1;
        }
        while start < end
            && (sticks_out_right(&self.files[end - 1])
                || (end < self.files.len()
                    && Self::shares_key(&self.files[end - 1], &self.files[end], cmp)))
        {
            end -= 1;
        }
        start..end
    }
}

/// Iterator over the files of a level that a point read must search.
pub struct Candidates<'a> {
    level: &'a Level,
    cmp: &'a Comparator,
    user_key: UserKey<'a>,
    probe: Probe,
    next: usize,
}

impl<'a> Iterator for Candidates<'a> {
    type Item = &'a Arc<FileMetaData>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.next < self.level.files.len() {
            let index = self.next;
            self.next += 1;
            if self.level.covers(index, self.probe, self.cmp, self.user_key) {
                return Some(&self.level.files[index]);
            }
            if self.level.number > 0 {
                self.next = self.level.files.len();
            }
        }
        None
    }
}
