//! A fixed workload that leaves a database of a given shape: many keys in several column families,
//! overwritten, deleted, merged and range-deleted, spread over levels, the last writes unflushed.
//!
//! The same work is done on a store and on the model, so that the model gives what any engine must
//! find there afterwards.

use crate::{Model, Op, OpGenerator, Shape, Store, op};

/// How much work.
#[derive(Clone, Debug)]
pub struct Workload {
    /// All choices follow from it.
    pub seed: u64,
    /// Column families; they get equal shares.
    pub families: usize,
    /// Keys that `load` puts into each family; not a multiple of 7,919.
    pub keys: u64,
    /// Random batches that `mutate` writes.
    pub batches: u64,
}

/// Operations of a batch while loading.
const LOAD_BATCH: usize = 64;

impl Workload {
    /// Puts every key once, in scattered order, with flushes in between, then compacts half of the
    /// first half's keys in each family.
    ///
    /// # Errors
    /// The store's.
    pub fn load(&self, store: &mut dyn Store, model: &mut Model) -> Result<(), String> {
        let mut generator = self.generator(0);
        let mut batch = Vec::new();
        for n in 0..self.keys {
            let key = op::key("", n * 7919 % self.keys);
            for cf in 0..self.families {
                batch.push(Op::Put { cf, key: key.clone(), value: generator.value() });
            }
            if batch.len() >= LOAD_BATCH {
                apply(store, model, &std::mem::take(&mut batch))?;
            }
            if n % (self.keys / 3).max(1) == self.keys / 4 {
                for cf in 0..self.families {
                    store.flush(cf)?;
                }
            }
        }
        apply(store, model, &batch)?;
        let (begin, end) = (op::key("", 0), op::key("", self.keys / 4));
        for cf in 0..self.families {
            store.compact(cf, Some(&begin), Some(&end))?;
        }
        Ok(())
    }

    /// Random batches of every kind of write, with flushes of single families in between. The
    /// writes of the last fifth stay in memtables and WAL as far as the store's options allow.
    /// `phase` must differ between calls on one database.
    ///
    /// # Errors
    /// The store's.
    pub fn mutate(
        &self,
        store: &mut dyn Store,
        model: &mut Model,
        phase: u64,
    ) -> Result<(), String> {
        let mut generator = self.generator(1 + phase);
        for n in 0..self.batches {
            apply(store, model, &generator.batch())?;
            let last_fifth = n > self.batches / 5 * 4;
            if n % (self.batches / 9).max(1) == 0 && !last_fifth {
                store.flush((n % self.families as u64) as usize)?;
            }
        }
        Ok(())
    }

    fn generator(&self, phase: u64) -> OpGenerator {
        let shape = Shape {
            families: self.families,
            prefix: String::new(),
            keys: self.keys,
            value_bytes_max: 120,
            batch_ops_max: 30,
            range_deletions_per_mille: 1,
        };
        OpGenerator::new(shape, self.seed.wrapping_mul(1000).wrapping_add(phase))
            .with_single_mark(phase)
    }
}

fn apply(store: &mut dyn Store, model: &mut Model, batch: &[Op]) -> Result<(), String> {
    model.apply(batch);
    store.write(batch)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_work_is_the_same_every_time_and_leaves_most_keys() {
        let work = Workload { seed: 3, families: 2, keys: 1000, batches: 300 };
        let run = || {
            let (mut store, mut model) = (Model::new(2), Model::new(2));
            work.load(&mut store, &mut model).unwrap();
            assert_eq!(model.family(1).len(), 1000);
            work.mutate(&mut store, &mut model, 0).unwrap();
            work.mutate(&mut store, &mut model, 1).unwrap();
            assert_eq!(store, model);
            model
        };
        let model = run();
        assert_eq!(model, run());
        assert!(model.family(0).len() > 700, "{}", model.family(0).len());
    }
}
