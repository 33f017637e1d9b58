//! Random work on a store, every answer compared with the model's.
//!
//! One run is one seed: batches, gets, multi-gets, snapshots, cursors that live across writes,
//! flushes, compactions of random ranges, reopens and full scans. Two engines that both agree with
//! the model gave equal results to each other; the digest of all answers confirms it.

use pumice_base::hash::hash64;
use pumice_base::random::Rng;

use crate::store::{CursorSpec, Step};
use crate::{Entry, Model, Op, OpGenerator, Shape, Store, contents, op};

const SNAPSHOTS_MAX: usize = 4;
const CURSORS_MAX: usize = 4;
const HISTORY_SHOWN: usize = 8;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All choices follow from it.
    pub seed: u64,
    /// Operations to perform: each write, get, multi-get and cursor step counts as one.
    pub ops: u64,
    /// The writes.
    pub shape: Shape,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Single writes in batches.
    pub writes: u64,
    /// Gets and multi-gets.
    pub gets: u64,
    /// Cursor steps.
    pub steps: u64,
    /// Flushes, compactions and reopens.
    pub upkeep: u64,
    /// Snapshots taken.
    pub snapshots: u64,
    /// Folds every answer.
    pub digest: u64,
}

impl Report {
    /// Operations that were checked.
    pub fn ops(&self) -> u64 {
        self.writes + self.gets + self.steps
    }
}

/// Runs `plan` on an empty `store`.
///
/// # Errors
/// The first answer that differs, or the store's first error, with the number of the operation.
pub fn run(store: &mut dyn Store, plan: &Plan) -> Result<Report, String> {
    let mut driver = Driver {
        store,
        model: Model::new(plan.shape.families),
        generator: OpGenerator::new(plan.shape.clone(), plan.seed),
        rng: Rng::new(plan.seed ^ 0x5eed),
        shape: plan.shape.clone(),
        snapshots: Vec::new(),
        cursors: Vec::new(),
        names: 0,
        history: Vec::new(),
        report: Report::default(),
    };
    while driver.report.ops() < plan.ops {
        driver.act().map_err(|e| {
            format!("seed {}, after {} operations: {e}", plan.seed, driver.report.ops())
        })?;
    }
    driver.check_all()?;
    Ok(driver.report)
}

struct Driver<'a> {
    store: &'a mut dyn Store,
    model: Model,
    generator: OpGenerator,
    rng: Rng,
    shape: Shape,
    snapshots: Vec<u64>,
    /// (name, is on a key)
    cursors: Vec<(u64, bool)>,
    names: u64,
    /// What could have changed stored data, for the message of a failure.
    history: Vec<Event>,
    report: Report,
}

#[derive(Debug)]
#[expect(dead_code, reason = "the numbers are read by `Debug`, in the message of a failure")]
enum Event {
    Write(Op),
    Flush(usize),
    Compact(usize),
    Snapshot,
    Reopen,
}

impl Driver<'_> {
    fn act(&mut self) -> Result<(), String> {
        match self.rng.uniform(20_000) {
            0..10_000 => self.write(),
            10_000..14_500 => self.get(),
            14_500..15_500 => self.multi_get(),
            15_500..19_000 => self.walk(),
            19_000..19_500 => self.open_cursor(),
            19_500..19_700 => self.take_snapshot(),
            19_700..19_900 => {
                self.release_snapshot();
                Ok(())
            }
            19_900..19_980 => self.flush(),
            19_980..19_998 => self.compact(),
            19_998 => self.reopen(),
            _ => self.check_all(),
        }
    }

    fn write(&mut self) -> Result<(), String> {
        let batch = self.generator.batch();
        self.report.writes += batch.len() as u64;
        self.model.apply(&batch);
        let result = self.store.write(&batch);
        self.history.extend(batch.into_iter().map(Event::Write));
        result
    }

    fn get(&mut self) -> Result<(), String> {
        self.report.gets += 1;
        let (cf, key, snapshot) = (self.family(), self.some_key(), self.some_snapshot());
        let expected = self.model.get(cf, &key, snapshot)?;
        let found = self.store.get(cf, &key, snapshot)?;
        self.digest_value(found.as_deref());
        self.equal("get", &key, &expected, &found)
    }

    fn multi_get(&mut self) -> Result<(), String> {
        self.report.gets += 1;
        let (cf, snapshot) = (self.family(), self.some_snapshot());
        let keys: Vec<Vec<u8>> = (0..1 + self.rng.uniform(20)).map(|_| self.some_key()).collect();
        let expected = self.model.multi_get(cf, &keys, snapshot)?;
        let found = self.store.multi_get(cf, &keys, snapshot)?;
        for value in &found {
            self.digest_value(value.as_deref());
        }
        self.equal("multi_get", &keys[0], &expected, &found)
    }

    fn open_cursor(&mut self) -> Result<(), String> {
        if self.cursors.len() == CURSORS_MAX {
            let index = self.rng.uniform(CURSORS_MAX as u64) as usize;
            let (name, _) = self.cursors.swap_remove(index);
            self.store.close_cursor(name);
            self.model.close_cursor(name);
        }
        let (mut lower, mut upper) = (self.some_bound(), self.some_bound());
        if lower.is_some() && upper.is_some() && lower > upper {
            std::mem::swap(&mut lower, &mut upper);
        }
        let (cf, snapshot) = (self.family(), self.some_snapshot());
        let spec = CursorSpec { cf, snapshot, lower, upper, ..CursorSpec::default() };
        let name = self.name();
        self.store.open_cursor(name, &spec)?;
        self.model.open_cursor(name, &spec)?;
        self.cursors.push((name, false));
        Ok(())
    }

    fn walk(&mut self) -> Result<(), String> {
        if self.cursors.is_empty() {
            self.open_cursor()?;
        }
        let index = self.rng.uniform(self.cursors.len() as u64) as usize;
        for _ in 0..1 + self.rng.uniform(8) {
            let (name, stands) = self.cursors[index];
            let step = self.some_step(stands);
            let expected = self.model.step(name, &step)?;
            let found = self.store.step(name, &step)?;
            self.report.steps += 1;
            self.digest_entry(found.as_ref());
            self.cursors[index].1 = found.is_some();
            let at = [&expected, &found].map(|e| e.as_ref().map(|(key, _)| key.clone()));
            let key = at.into_iter().flatten().max().unwrap_or_default();
            self.equal(&format!("cursor {step:?}"), &key, &expected, &found)?;
        }
        Ok(())
    }

    fn some_step(&mut self, stands: bool) -> Step {
        let onward = if stands { 8 } else { 0 };
        match self.rng.uniform(4 + onward) {
            0 => Step::First,
            1 => Step::Last,
            2 => Step::Seek(self.some_key()),
            3 => Step::SeekForPrev(self.some_key()),
            4..9 => Step::Next,
            _ => Step::Prev,
        }
    }

    fn take_snapshot(&mut self) -> Result<(), String> {
        if self.snapshots.len() == SNAPSHOTS_MAX {
            self.release_snapshot();
        }
        let name = self.name();
        self.report.snapshots += 1;
        self.snapshots.push(name);
        self.history.push(Event::Snapshot);
        self.model.snapshot(name)?;
        self.store.snapshot(name)
    }

    fn release_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let index = self.rng.uniform(self.snapshots.len() as u64) as usize;
        let name = self.snapshots.swap_remove(index);
        self.model.release(name);
        self.store.release(name);
    }

    fn flush(&mut self) -> Result<(), String> {
        self.report.upkeep += 1;
        let cf = self.family();
        self.history.push(Event::Flush(cf));
        self.store.flush(cf)
    }

    fn compact(&mut self) -> Result<(), String> {
        self.report.upkeep += 1;
        let (cf, mut begin, mut end) = (self.family(), self.some_bound(), self.some_bound());
        if begin.is_some() && end.is_some() && begin > end {
            std::mem::swap(&mut begin, &mut end);
        }
        self.history.push(Event::Compact(cf));
        self.store.compact(cf, begin.as_deref(), end.as_deref())
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.report.upkeep += 1;
        for (name, _) in std::mem::take(&mut self.cursors) {
            self.store.close_cursor(name);
            self.model.close_cursor(name);
        }
        while !self.snapshots.is_empty() {
            self.release_snapshot();
        }
        self.history.push(Event::Reopen);
        self.store.reopen()?;
        self.check_all()
    }

    fn check_all(&mut self) -> Result<(), String> {
        let found = contents::read(self.store, self.shape.families)?;
        for (cf, entries) in found.iter().enumerate() {
            let expected = self.model.entries(cf);
            contents::same(&expected, entries).map_err(|e| {
                let keys = expected.iter().zip(entries).find(|(a, b)| a != b);
                let key = keys.map_or(&[][..], |(a, b)| a.0.as_slice().min(b.0.as_slice()));
                format!("cf {cf}, full scan: {e}\n{}", self.history_of(key))
            })?;
        }
        Ok(())
    }

    fn equal<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        key: &[u8],
        expected: &T,
        found: &T,
    ) -> Result<(), String> {
        if expected == found {
            return Ok(());
        }
        let history = self.history_of(key);
        let key = String::from_utf8_lossy(key);
        Err(format!("{what} {key}:\n  expected {expected:?}\n  found    {found:?}\n{history}"))
    }

    /// The last writes to a key in any column family, and the upkeep among them.
    fn history_of(&self, key: &[u8]) -> String {
        let is_write = |event: &Event| matches!(event, Event::Write(op) if op.touches(key));
        let is_upkeep = |event: &Event| !matches!(event, Event::Write(_) | Event::Snapshot);
        let writes: Vec<usize> = self.numbers(is_write);
        let first = writes[writes.len().saturating_sub(HISTORY_SHOWN)..].first().copied();
        let shown = self.numbers(|event| is_write(event) || is_upkeep(event));
        let shown = shown.into_iter().filter(|n| Some(*n) >= first && first.is_some());
        shown.map(|n| format!("  {n}: {:?}", self.history[n])).collect::<Vec<_>>().join("\n")
    }

    fn numbers(&self, wanted: impl Fn(&Event) -> bool) -> Vec<usize> {
        (0..self.history.len()).filter(|n| wanted(&self.history[*n])).collect()
    }

    fn family(&mut self) -> usize {
        self.rng.uniform(self.shape.families as u64) as usize
    }

    fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    fn some_key(&mut self) -> Vec<u8> {
        let mut key = op::key(&self.shape.prefix, self.rng.uniform(self.shape.keys));
        if self.rng.one_in(5) {
            key[0] = b's';
            key.truncate(8 + self.shape.prefix.len());
            key.push(b'0'); // The generator's mark.
        }
        key
    }

    fn some_bound(&mut self) -> Option<Vec<u8>> {
        self.rng.one_in(3).then(|| self.some_key())
    }

    fn some_snapshot(&mut self) -> Option<u64> {
        if self.snapshots.is_empty() || !self.rng.one_in(3) {
            return None;
        }
        Some(self.snapshots[self.rng.uniform(self.snapshots.len() as u64) as usize])
    }

    fn digest_value(&mut self, value: Option<&[u8]>) {
        let hash = value.map_or(1, hash64);
        self.report.digest = self.report.digest.rotate_left(9).wrapping_mul(31) ^ hash;
    }

    fn digest_entry(&mut self, entry: Option<&Entry>) {
        self.digest_value(entry.map(|(key, _)| key.as_slice()));
        self.digest_value(entry.map(|(_, value)| value.as_slice()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn plan(seed: u64) -> Plan {
        let shape = Shape {
            families: 2,
            prefix: String::new(),
            keys: 100,
            value_bytes_max: 20,
            batch_ops_max: 5,
            range_deletions_per_mille: 5,
        };
        Plan { seed, ops: 30_000, shape }
    }

    #[test]
    fn the_model_agrees_with_itself() {
        let report = run(&mut Model::new(2), &plan(1)).unwrap();
        assert!(report.writes > 5_000 && report.gets > 2_000 && report.steps > 5_000);
        assert!(report.snapshots > 50 && report.upkeep > 20, "{report:?}");
        assert_eq!(run(&mut Model::new(2), &plan(1)).unwrap(), report);
    }

    /// A store that forgets every 1,000th write.
    struct Forgetful(Model, u64);

    impl Store for Forgetful {
        fn write(&mut self, batch: &[Op]) -> Result<(), String> {
            self.1 += 1;
            if !self.1.is_multiple_of(1000) {
                self.0.apply(batch);
            }
            Ok(())
        }
        fn get(
            &mut self,
            cf: usize,
            key: &[u8],
            at: Option<u64>,
        ) -> Result<Option<Vec<u8>>, String> {
            self.0.get(cf, key, at)
        }
        fn multi_get(
            &mut self,
            cf: usize,
            keys: &[Vec<u8>],
            at: Option<u64>,
        ) -> Result<Vec<Option<Vec<u8>>>, String> {
            self.0.multi_get(cf, keys, at)
        }
        fn snapshot(&mut self, name: u64) -> Result<(), String> {
            self.0.snapshot(name)
        }
        fn release(&mut self, name: u64) {
            self.0.release(name);
        }
        fn open_cursor(&mut self, name: u64, spec: &CursorSpec) -> Result<(), String> {
            self.0.open_cursor(name, spec)
        }
        fn step(&mut self, name: u64, step: &Step) -> Result<Option<Entry>, String> {
            self.0.step(name, step)
        }
        fn close_cursor(&mut self, name: u64) {
            self.0.close_cursor(name);
        }
        fn flush(&mut self, _: usize) -> Result<(), String> {
            Ok(())
        }
        fn compact(&mut self, _: usize, _: Option<&[u8]>, _: Option<&[u8]>) -> Result<(), String> {
            Ok(())
        }
        fn reopen(&mut self) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn a_lost_write_is_noticed() {
        let error = run(&mut Forgetful(Model::new(2), 0), &plan(1)).unwrap_err();
        assert!(error.contains("seed 1"), "{error}");
    }
}
