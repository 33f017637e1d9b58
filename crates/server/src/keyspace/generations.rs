//! Generations of collections: what becomes of the elements of those that are gone, and how a
//! collection gets rid of what has been removed from it.
//!
//! A collection that is deleted with more than a few elements leaves them where they are. Its
//! record goes, and a mark of its generation is written with that batch. What follows:
//!
//! | who | does |
//! |---|---|
//! | compactions | drop elements of marked generations |
//! | [`Keyspace::sweep`], now and then | deletes the rest as ranges, and the marks |
//!
//! An engine that has many range deletions pays for them with every read; a sweep writes one for
//! all marked generations of a slot between which nothing lives, and none where nothing is left.
//!
//! What is removed from a collection stays in the engine as deletions for a while, too, and every
//! walk passes them. So a hash, set or sorted set counts them. Whenever [`BOUNDED_EVERY`] more have
//! been removed, the record gets bounds of what is left; and one of at most [`RENEWED_MAX`]
//! elements from which [`RENEWED`], and twice as many as it has, were removed is written anew under
//! another generation, which costs each removal half an element.
//!
//! Invariants:
//! 1. A generation is in `Graves` only once the write that ended its collection is readable: a
//!    compaction drops only what no snapshot taken after that can reach, and the engine shows its
//!    filters nothing that an earlier snapshot can.
//! 2. A generation that has had a mark gets no element any more.
//!
//! Thread safety: everything may be shared. Calls suspend.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice::{Db, ReadOptions, WriteBatch};
use pumice_port::sync::Mutex;

use super::database::cursor_between;
use super::encoding::{self, Collection, DEAD, Dead, Kind};
use super::txn::Txn;
use super::{Keyspace, Outcome};

/// The most elements that are deleted one by one; the generation of more is marked.
const SINGLY: u64 = 32;
/// How many elements are removed until bounds are looked for.
const BOUNDED_EVERY: u32 = 64;
/// How many elements are removed, at least, until a collection is written anew.
const RENEWED: u32 = 512;
/// The most elements, and bytes of them, that are written anew.
const RENEWED_MAX: u64 = 1024;
const RENEWED_BYTES: usize = 256 << 10;

/// Marks that a sweep does not wait for, and how many generations one batch is about.
pub const SWEPT_AT_ONCE: usize = 8192;
const BATCH: usize = 1024;

/// Marked generations.
#[derive(Default)]
pub(super) struct Graves(Mutex<Vec<Dead>>);

impl Graves {
    /// Takes over the generations whose marks are in the database.
    ///
    /// # Errors
    /// The engine's.
    pub(super) fn restore(&self, db: &Db) -> pumice::Result<()> {
        let mut end = DEAD.to_vec();
        end.push(u8::MAX);
        let mut cursor = cursor_between(db, &ReadOptions::DEFAULT, DEAD, &end)?;
        cursor.seek(DEAD);
        let mut marked = Vec::new();
        while cursor.valid() {
            marked.extend(encoding::dead_of(cursor.key().unwrap_or_default()));
            cursor.next();
        }
        self.add(&mut marked);
        cursor.status()
    }

    pub(super) fn add(&self, dead: &mut Vec<Dead>) {
        if !dead.is_empty() {
            self.0.lock().append(dead);
        }
    }

    /// The numbers of dead generations, in order.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.0.lock().iter().map(|dead| dead.generation).collect();
        numbers.sort_unstable();
        numbers
    }

    fn copy(&self) -> Vec<Dead> {
        let mut marked = self.0.lock().clone();
        marked.sort_unstable();
        marked.dedup();
        marked
    }

    fn remove(&self, swept: &[Dead]) {
        self.0.lock().retain(|dead| swept.binary_search(dead).is_err());
    }
}

impl Txn<'_> {
    /// Deletes all elements; the record stays as it is.
    ///
    /// # Errors
    /// The engine's.
    pub fn clear_collection(&mut self, collection: &Collection) -> Outcome<()> {
        let (first, end) = collection.all();
        if collection.count > SINGLY || collection.removed > RENEWED {
            self.bury(collection);
            return Ok(());
        }
        let mut keys = Vec::new();
        self.pass(&(first, end), false, &mut |key, _| {
            keys.push(key.to_vec());
            true
        })?;
        keys.into_iter().for_each(|key| self.delete(key));
        Ok(())
    }

    /// The collection is going, its elements are not read any more: marks its generation.
    fn bury(&mut self, collection: &Collection) {
        // What this transaction wrote of it takes no room any more.
        let (first, end) = collection.all();
        self.drop_writes(&first, &end);
        let dead = collection.as_dead();
        self.put(encoding::dead_key(&dead), Vec::new());
        self.counted.dead.push(dead);
    }

    /// Sees to it that what has been removed from a collection costs no more than what it has.
    pub(super) fn tidy(&mut self, collection: &mut Collection) {
        if collection.kind == Kind::List || collection.count == 0 {
            return;
        }
        let is_small = collection.count <= RENEWED_MAX;
        if is_small && u64::from(collection.removed) > u64::from(RENEWED).max(2 * collection.count)
        {
            self.write_anew(collection);
        } else if collection.has_removed(BOUNDED_EVERY) {
            self.find_bounds(collection);
        }
    }

    fn write_anew(&mut self, collection: &mut Collection) {
        let bytes_max = RENEWED_BYTES.min(self.bytes_max.saturating_sub(self.bytes) / 4);
        let (mut elements, mut bytes) = (Vec::new(), 0);
        let read = self.pass(&collection.all(), false, &mut |key, value| {
            bytes += key.len() + value.len();
            elements.push((key.to_vec(), value.to_vec()));
            bytes <= bytes_max
        });
        // An engine that cannot read, or reserve generations, fails the command when it writes.
        let Ok(()) = read else { return };
        if bytes > bytes_max {
            // It is looked at again when as much has been removed again.
            collection.removed = 1;
            return;
        }
        let Ok(generation) = self.keyspace().new_generation() else { return };
        self.bury(collection);
        let places = &self.keyspace().places;
        places.follow(self.stored(), collection.generation, generation);
        let skip = collection.element(0, b"").len() - 1;
        collection.renew(generation);
        for (key, value) in elements {
            self.put(collection.element(key[skip], &key[skip + 1..]), value);
        }
    }

    fn find_bounds(&self, collection: &mut Collection) {
        let range = collection.part(collection.ordered());
        let end = |backwards| {
            let mut found = Vec::new();
            let passed = self.pass(&range, backwards, &mut |key, _| {
                found = key.to_vec();
                false
            });
            // The bounds stay as they are where nothing can be read.
            passed.ok().filter(|()| !found.is_empty()).map(|()| found)
        };
        if let (Some(first), Some(last)) = (end(false), end(true)) {
            collection.bound(&first, &last);
        }
    }
}

impl Keyspace {
    /// Deletes what is left of collections that are gone, and their marks: if many are waiting, or
    /// always if `is_due`. Returns how many generations that were. Suspends.
    ///
    /// # Errors
    /// The engine's; then the rest is left to the next sweep.
    pub fn sweep(&self, is_due: bool) -> Outcome<usize> {
        let marked = self.graves.0.lock().len();
        if marked == 0 || !is_due && marked < SWEPT_AT_ONCE {
            return Ok(0);
        }
        let dead = self.graves.copy();
        // Generations are given in order. Once every command is over that runs now, a generation
        // between two dead ones has all elements that it can begin with.
        self.locks.settle();
        for some in dead.chunks(BATCH) {
            let (mut batch, mut ranges) = (WriteBatch::new(), 0);
            for run in self.runs(some)? {
                let ((first, _), (_, end)) = (run[0].range(), run[run.len() - 1].range());
                if self.has_any(&first, &end)? {
                    batch.delete_range(&first, &end);
                    ranges += 1;
                }
            }
            some.iter().for_each(|dead| batch.delete(encoding::dead_key(dead)));
            self.db.write(&mut batch)?;
            self.ranges_deleted.fetch_add(ranges, Ordering::Relaxed);
            self.graves.remove(some);
        }
        Ok(dead.len())
    }

    /// Dead generations that follow each other in a slot, with nothing alive in between.
    fn runs<'d>(&self, dead: &'d [Dead]) -> pumice::Result<Vec<&'d [Dead]>> {
        let (mut runs, mut from) = (Vec::new(), 0);
        for at in 1..=dead.len() {
            let goes_on = match (&dead[at - 1], dead.get(at)) {
                (one, Some(two)) if (one.slot, one.db) == (two.slot, two.db) => {
                    let (end, first) = (one.range().1, two.range().0);
                    end == first || !self.has_any(&end, &first)?
                }
                _ => false,
            };
            if !goes_on {
                runs.push(&dead[from..at]);
                from = at;
            }
        }
        Ok(runs)
    }

    fn has_any(&self, first: &[u8], end: &[u8]) -> pumice::Result<bool> {
        let mut cursor = cursor_between(&self.db, &ReadOptions::DEFAULT, first, end)?;
        cursor.seek(first);
        cursor.status().map(|()| cursor.valid())
    }

    /// Generations that a sweep has not deleted yet.
    pub fn marked(&self) -> usize {
        self.graves.0.lock().len()
    }
}

/// What a filter asks: the marked generations of a moment.
pub(super) struct Marked(Vec<u64>);

impl Marked {
    pub(super) fn of(graves: &Arc<Graves>) -> Marked {
        Marked(graves.numbers())
    }

    /// The element of a collection that is gone.
    pub(super) fn has(&self, element: &[u8]) -> bool {
        let number = encoding::generation_of(element);
        number.is_some_and(|number| self.0.binary_search(&number).is_ok())
    }
}
