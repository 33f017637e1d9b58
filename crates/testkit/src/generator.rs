//! The seeded generator of operations.
//!
//! The generator always keeps the contract of single deletes: keys that begin with `s` are put
//! once, then single-deleted or left, and nothing else touches them; all other work, range
//! deletions included, stays below `s` (keys that begin with `k`).

use std::collections::BTreeSet;

use pumice_base::random::Rng;

use crate::model::Bytes;
use crate::op::key;
use crate::{Model, Op};

/// The shape of the generated work.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Column families, at least 1.
    pub families: usize,
    /// Follows the first letter of every key, so that generators can use disjoint keys.
    pub prefix: String,
    /// Different keys per column family and kind.
    pub keys: u64,
    /// Bytes of the longest value.
    pub value_bytes_max: u64,
    /// Operations of the largest batch, at least 1.
    pub batch_ops_max: u64,
    /// Out of 1,000 operations, the range deletions; each spans at most 1/20 of the keys.
    pub range_deletions_per_mille: u64,
}

/// Makes operations from a seed.
#[derive(Clone, Debug)]
pub struct OpGenerator {
    shape: Shape,
    rng: Rng,
    /// Per column family, the numbers of the `s` keys that are there.
    single: Vec<BTreeSet<u64>>,
    /// Part of the `s` keys, after the prefix.
    single_mark: u64,
    /// Counts values, so that no two are equal.
    values: u64,
}

impl OpGenerator {
    /// A generator; two with one shape and seed make the same operations.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let single = vec![BTreeSet::new(); shape.families];
        OpGenerator { shape, rng: Rng::new(seed), single, single_mark: 0, values: 0 }
    }

    /// The same generator with `s` keys of its own, for work that continues on a database of an
    /// earlier generator, whose `s` keys it cannot know.
    #[must_use]
    pub fn with_single_mark(mut self, mark: u64) -> Self {
        self.single_mark = mark;
        self
    }

    /// The same generator with values unlike those of generators that share its keys.
    #[must_use]
    pub fn with_values_from(mut self, first: u64) -> Self {
        self.values = first;
        self
    }

    /// Continues with new `s` keys: after a write whose fate is unknown it is undecidable which of
    /// the old ones may be put or removed.
    pub fn forget_singles(&mut self, mark: u64) {
        self.single_mark = mark;
        self.single.iter_mut().for_each(BTreeSet::clear);
    }

    /// Continues from a state other than the one it left, as after a crash: the contract of single
    /// deletes depends on which `s` keys are there.
    pub fn resume(&mut self, state: &Model) {
        for (cf, single) in self.single.iter_mut().enumerate() {
            let start = format!("s{}", self.shape.prefix);
            let mark = self.single_mark.to_string();
            let number = |key: &Bytes| {
                let key = std::str::from_utf8(key).ok()?;
                key.strip_prefix(start.as_str())?.strip_suffix(mark.as_str())?.parse().ok()
            };
            *single = state.family(cf).keys().filter_map(number).collect();
        }
    }

    /// The next batch, 1 to `batch_ops_max` operations, mostly few.
    pub fn batch(&mut self) -> Vec<Op> {
        let len = 1 + match self.rng.one_in(3) {
            true => self.rng.uniform(self.shape.batch_ops_max),
            false => 0,
        };
        (0..len.min(self.shape.batch_ops_max)).map(|_| self.op()).collect()
    }

    /// The next operation.
    pub fn op(&mut self) -> Op {
        let cf = self.rng.uniform(self.shape.families as u64) as usize;
        if self.rng.uniform(1000) < self.shape.range_deletions_per_mille {
            let span = 1 + self.rng.uniform((self.shape.keys / 20).max(2));
            let begin = self.rng.uniform(self.shape.keys);
            let prefix = &self.shape.prefix;
            return Op::DeleteRange {
                cf,
                begin: key(prefix, begin),
                end: key(prefix, begin + span),
            };
        }
        match self.rng.uniform(100) {
            0..60 => Op::Put { cf, key: self.key(), value: self.value() },
            60..75 => Op::Delete { cf, key: self.key() },
            75..90 => Op::Merge { cf, key: self.key(), operand: self.operand() },
            _ => self.put_once_or_remove(cf),
        }
    }

    /// A key of the general space.
    pub fn key(&mut self) -> Vec<u8> {
        key(&self.shape.prefix, self.rng.uniform(self.shape.keys))
    }

    fn put_once_or_remove(&mut self, cf: usize) -> Op {
        let n = self.rng.uniform(self.shape.keys);
        if self.single[cf].remove(&n) {
            return Op::SingleDelete { cf, key: self.single_key(n) };
        }
        self.single[cf].insert(n);
        Op::Put { cf, key: self.single_key(n), value: self.value() }
    }

    fn single_key(&self, n: u64) -> Vec<u8> {
        let (prefix, mark) = (&self.shape.prefix, self.single_mark);
        format!("s{prefix}{n:07}{mark}").into_bytes()
    }

    fn operand(&mut self) -> Vec<u8> {
        self.values += 1;
        format!("m{}", self.values).into_bytes()
    }

    /// A unique value, half of it compressible.
    pub fn value(&mut self) -> Vec<u8> {
        self.values += 1;
        let bytes = self.rng.uniform(self.shape.value_bytes_max + 1) as usize;
        let mut value = format!("v{}:", self.values).into_bytes();
        while value.len() < bytes {
            let word = self.rng.next_u64();
            value.extend_from_slice(&word.to_le_bytes());
            value.extend_from_slice(b"compress");
        }
        value
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeMap;

    fn shape() -> Shape {
        Shape {
            families: 3,
            prefix: "p".into(),
            keys: 50,
            value_bytes_max: 40,
            batch_ops_max: 9,
            range_deletions_per_mille: 20,
        }
    }

    #[test]
    fn one_seed_one_history() {
        let make = |seed| {
            let mut generator = OpGenerator::new(shape(), seed);
            (0..200).map(|_| generator.batch()).collect::<Vec<_>>()
        };
        assert_eq!(make(4), make(4));
        assert_ne!(make(4), make(5));
    }

    #[test]
    fn a_resumed_generator_knows_the_keys() {
        let mut generator = OpGenerator::new(shape(), 1);
        let mut model = Model::new(3);
        for _ in 0..500 {
            model.apply(&generator.batch());
        }
        let mut resumed = OpGenerator::new(shape(), 2);
        resumed.resume(&model);
        assert_eq!(resumed.single, generator.single);
        assert!(!resumed.single[0].is_empty());
    }

    #[test]
    fn single_deletes_follow_one_put() {
        let mut generator = OpGenerator::new(shape(), 1);
        let mut puts = BTreeMap::new();
        let mut removed = 0;
        for op in (0..20_000).map(|_| generator.op()) {
            match op {
                Op::Put { cf, key, .. } if key[0] == b's' => {
                    assert_eq!(puts.insert((cf, key), ()), None);
                }
                Op::SingleDelete { cf, key } => {
                    puts.remove(&(cf, key)).unwrap();
                    removed += 1;
                }
                Op::Delete { key, .. } | Op::Merge { key, .. } => assert_eq!(key[0], b'k'),
                Op::DeleteRange { begin, end, .. } => assert!(begin < end && end[0] == b'k'),
                Op::Put { .. } => {}
            }
        }
        assert!(removed > 100);
    }
}
