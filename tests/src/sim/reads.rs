//! Reads while others write: each must show one P(k) between its start and its end.
//!
//! A read of the order key together with other keys knows k exactly; a single get does not, and is
//! judged once the order is known.

use pumice::{ColumnFamily, Db, ReadOptions, Snapshot};
use pumice_base::random::Rng;
use pumice_testkit::Entry;
use pumice_testkit::history::{ORDER_KEY, View};
use pumice_testkit::op;

use super::session::{Session, Stop};
use super::verdict::Count;

/// Snapshots that a reader keeps at most.
const KEPT_MAX: usize = 3;

/// Everything in a family inside the bounds of `reads`, in key order.
///
/// # Errors
/// The engine's.
pub fn scan(
    db: &Db,
    family: &ColumnFamily,
    reads: &ReadOptions,
    backward: bool,
) -> pumice::Result<Vec<Entry>> {
    let mut cursor = db.cursor_cf_opt(reads, family)?;
    walk(&mut cursor, backward, usize::MAX)
}

/// Walks from one end, at most `entries`.
fn walk(
    cursor: &mut pumice::DbIterator,
    backward: bool,
    entries: usize,
) -> pumice::Result<Vec<Entry>> {
    if backward {
        cursor.seek_to_last();
    } else {
        cursor.seek_to_first();
    }
    let mut found = Vec::new();
    while cursor.valid() && found.len() < entries {
        found.push((
            cursor.key().unwrap_or_default().to_vec(),
            cursor.value().unwrap_or_default().to_vec(),
        ));
        if backward {
            cursor.prev();
        } else {
            cursor.next();
        }
    }
    cursor.status()?;
    if backward {
        found.reverse();
    }
    Ok(found)
}

/// A task that reads.
pub struct Reader<'a> {
    session: &'a Session,
    rng: Rng,
    /// Snapshots taken earlier and what each showed, which must not change.
    kept: Vec<(Snapshot, View, usize)>,
}

impl<'a> Reader<'a> {
    /// A reader whose choices follow from `rng`.
    pub fn new(session: &'a Session, rng: Rng) -> Self {
        Reader { session, rng, kept: Vec::new() }
    }

    /// Reads something and judges it.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn step(&mut self) -> Result<(), Stop> {
        self.session.tally.add(Count::Ops, 1);
        match self.rng.uniform(10) {
            0..3 => self.get(),
            3..5 => self.multi_get(),
            5 => self.iterate(),
            6..8 => self.snapshot(),
            _ => self.read_again(),
        }?;
        self.session.tally.add(Count::Reads, 1);
        Ok(())
    }

    fn cf(&mut self) -> usize {
        self.rng.uniform(self.session.plan.families as u64) as usize
    }
    fn key(&mut self) -> Vec<u8> {
        op::key(&self.session.plan.key_prefix, self.rng.uniform(self.session.plan.keys + 2))
    }

    fn get(&mut self) -> Result<(), Stop> {
        let (cf, key) = (self.cf(), self.key());
        let begun = self.session.history.lock().now();
        let family = &self.session.families[cf];
        let found = self.session.db.get_cf_opt(&ReadOptions::default(), family, &key)?;
        let found = found.map(|value| value.to_vec());
        self.session.history.lock().saw_value(cf, &key, found, begun);
        Ok(())
    }

    /// Keys of all families of one line, and its order key, in one call.
    fn multi_get(&mut self) -> Result<(), Stop> {
        let order_cf = self.cf();
        let order = self.session.order_family(order_cf);
        let mut keys = vec![(order, ORDER_KEY.to_vec())];
        for _ in 0..1 + self.rng.uniform(8) {
            let cf = if self.session.plan.one_line() { self.cf() } else { order };
            keys.push((cf, self.key()));
        }
        // The order key is not always the first that is read.
        let swap = self.rng.uniform(keys.len() as u64) as usize;
        keys.swap(0, swap);
        let asked: Vec<(&ColumnFamily, &[u8])> =
            keys.iter().map(|(cf, key)| (&self.session.families[*cf], key.as_slice())).collect();
        let begun = self.session.history.lock().now();
        let found = self.session.db.multi_get_cf_opt(&ReadOptions::default(), &asked);
        let mut values = Vec::new();
        for value in found {
            values.push(value?.map(|value| value.to_vec()));
        }
        let mut history = self.session.history.lock();
        let ended = history.now();
        let view = history.saw_order(order, values[swap].as_deref(), begun, ended);
        let view = view.map_err(|b| Stop::Broken(b.into()))?;
        for ((cf, key), value) in keys.iter().zip(&values) {
            let judged = history.check_get(view, *cf, key, value.as_deref());
            judged.map_err(|b| Stop::Broken(b.into()))?;
        }
        Ok(())
    }

    /// A cursor over a family that has the order key shows one state, however long it takes.
    fn iterate(&mut self) -> Result<(), Stop> {
        let cf = self.cf();
        let order = self.session.order_family(cf);
        let begun = self.session.history.lock().now();
        let family = &self.session.families[order];
        let mut cursor = self.session.db.cursor_cf_opt(&ReadOptions::default(), family)?;
        let ended = self.session.history.lock().now();
        let backward = self.rng.one_in(2);
        if self.rng.one_in(2) {
            pumice_port::thread::yield_now();
        } else if self.rng.one_in(3) {
            // Long enough for compactions to replace the files that the cursor is on.
            let micros = self.rng.uniform(20_000);
            pumice_port::thread::sleep(std::time::Duration::from_micros(micros));
        }
        let found = walk(&mut cursor, backward, usize::MAX)?;
        let again = if self.rng.one_in(3) {
            walk(&mut cursor, !backward, usize::MAX)?
        } else {
            found.clone()
        };
        let value =
            found.iter().find(|(key, _)| key == ORDER_KEY).map(|(_, value)| value.as_slice());
        let mut history = self.session.history.lock();
        let view = history.saw_order(order, value, begun, ended);
        let view = view.map_err(|b| Stop::Broken(b.into()))?;
        for found in [&found, &again] {
            let judged = history.check_range(view, order, (None, None), found);
            judged.map_err(|b| Stop::Broken(b.into()))?;
        }
        Ok(())
    }

    /// Takes a snapshot and keeps it.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn snapshot(&mut self) -> Result<(), Stop> {
        let line_cf = self.cf();
        let begun = self.session.history.lock().now();
        let snapshot = self.session.db.snapshot();
        let ended = self.session.history.lock().now();
        let order = self.session.order_family(line_cf);
        let reads = ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() };
        let found = self.session.db.get_cf_opt(&reads, &self.session.families[order], ORDER_KEY)?;
        let view = {
            let mut history = self.session.history.lock();
            history.saw_order(line_cf, found.as_deref(), begun, ended)
        };
        let view = view.map_err(|b| Stop::Broken(b.into()))?;
        if self.kept.len() == KEPT_MAX {
            let oldest = self.rng.uniform(KEPT_MAX as u64) as usize;
            self.kept.swap_remove(oldest);
        }
        self.kept.push((snapshot, view, line_cf));
        Ok(())
    }

    /// Reads at an earlier snapshot.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn read_again(&mut self) -> Result<(), Stop> {
        if self.kept.is_empty() {
            self.snapshot()?;
        }
        let which = self.rng.uniform(self.kept.len() as u64) as usize;
        let (snapshot, view, line_cf) = self.kept[which].clone();
        let cf = if self.session.plan.one_line() { self.cf() } else { line_cf };
        let mut reads = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
        let family = &self.session.families[cf];
        self.session.tally.add(Count::Snapshots, 1);
        if self.rng.one_in(3) {
            let key = self.key();
            let found = self.session.db.get_cf_opt(&reads, family, &key)?;
            let history = self.session.history.lock();
            let judged = history.check_get(view, cf, &key, found.as_deref());
            return judged.map_err(|b| Stop::Broken(b.into()));
        }
        let (mut lower, mut upper) = (None, None);
        if self.rng.one_in(2) {
            let (a, b) = (self.key(), self.key());
            (lower, upper) = (Some(a.clone().min(b.clone())), Some(a.max(b)));
        }
        reads.iterate_lower_bound.clone_from(&lower);
        reads.iterate_upper_bound.clone_from(&upper);
        let found = scan(&self.session.db, family, &reads, self.rng.one_in(2))?;
        let history = self.session.history.lock();
        let judged = history.check_range(view, cf, (lower.as_deref(), upper.as_deref()), &found);
        judged.map_err(|b| Stop::Broken(b.into()))
    }
}
