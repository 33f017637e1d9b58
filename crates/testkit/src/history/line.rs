//! One line of states P(0), P(1), ... : the order of batches as far as it was observed, and every
//! value that each key had in between.
//!
//! Invariants:
//! 1. `order[..base]` is what the last recovery showed; it never changes.
//! 2. `versions` holds, per family and key, the value from each P(k) on at which it changed, by
//!    rising k; `None` means that the key is not there.
//! 3. `issued_max[k]` is the latest moment at which one of the first k batches was issued.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use super::{Batch, BatchId, Breach, Broken, Stamp};
use crate::Op;

type Versions = BTreeMap<Vec<u8>, Vec<(usize, Option<Vec<u8>>)>>;

#[derive(Clone)]
pub(super) struct Line {
    pub(super) order_family: usize,
    families: Range<usize>,
    base: usize,
    order: Vec<BatchId>,
    places: BTreeMap<BatchId, usize>,
    issued_max: Vec<Stamp>,
    versions: BTreeMap<usize, Versions>,
}

impl Line {
    pub(super) fn new(order_family: usize, families: Range<usize>) -> Self {
        Line {
            order_family,
            families,
            base: 0,
            order: Vec::new(),
            places: BTreeMap::new(),
            issued_max: vec![0],
            versions: BTreeMap::new(),
        }
    }

    pub(super) fn families(&self) -> Range<usize> {
        self.families.clone()
    }
    pub(super) fn covers(&self, cf: usize) -> bool {
        self.families.contains(&cf)
    }
    /// The position of a batch in the order.
    pub(super) fn place(&self, id: BatchId) -> Option<usize> {
        self.places.get(&id).copied()
    }
    /// Whether the batch is one of the first `k`.
    pub(super) fn has(&self, id: BatchId, k: usize) -> bool {
        self.place(id).is_some_and(|place| place < k)
    }

    /// Compares an order that was read with the known one, and learns new batches; returns its
    /// length.
    pub(super) fn follow(
        &mut self,
        found: Option<&[u8]>,
        batches: &[Batch],
        settled: BatchId,
    ) -> Result<usize, Broken> {
        let wrong = |text: String| Err(Broken::new(Breach::Torn, text));
        let mut k = 0;
        for word in found.unwrap_or(b"").split(|c| *c == b',').filter(|word| !word.is_empty()) {
            let id = std::str::from_utf8(word).ok().and_then(|word| word.parse::<usize>().ok());
            let Some(id) = id.filter(|id| *id < batches.len()) else {
                return wrong(format!("{:?} is not a batch", String::from_utf8_lossy(word)));
            };
            match self.order.get(k) {
                Some(known) if *known == id => {}
                Some(known) => {
                    let tail = self.tail(self.order.len());
                    return wrong(format!("batch {id} at place {k}, where {known} was: {tail}"));
                }
                None if id < settled => {
                    return wrong(format!("batch {id}, gone in a recovery, is back at place {k}"));
                }
                None if batches[id].refused => {
                    return wrong(format!("batch {id}, which was refused, is at place {k}"));
                }
                None if self.places.contains_key(&id) => {
                    return wrong(format!("batch {id} is there twice"));
                }
                None => self.extend(id, &batches[id])?,
            }
            k += 1;
        }
        if k < self.base {
            let text = format!("{k} batches are there, a recovery showed {}", self.base);
            return Err(Broken::new(Breach::Lost, text));
        }
        Ok(k)
    }

    fn extend(&mut self, id: BatchId, batch: &Batch) -> Result<(), Broken> {
        let latest = self.issued_max.last().copied().unwrap_or(0);
        if batch.acked_before(latest) {
            let text = format!(
                "batch {id}, acked at {:?}, comes after one that was issued at {latest}: {}",
                batch.acked,
                self.tail(self.order.len())
            );
            return Err(Broken::new(Breach::Wrong, text));
        }
        self.places.insert(id, self.order.len());
        self.order.push(id);
        self.issued_max.push(latest.max(batch.issued));
        for op in &batch.ops {
            self.apply(op);
        }
        Ok(())
    }

    fn apply(&mut self, op: &Op) {
        if !self.covers(op.family()) {
            return;
        }
        let k = self.order.len();
        let map = self.versions.entry(op.family()).or_default();
        match op {
            Op::Put { key, value, .. } => set(map, key, k, Some(value.clone())),
            Op::Delete { key, .. } | Op::SingleDelete { key, .. } => set(map, key, k, None),
            Op::Merge { key, operand, .. } => {
                let value = match map.get(key).and_then(|v| v.last()).and_then(|v| v.1.as_ref()) {
                    Some(old) => [old.as_slice(), b",", operand].concat(),
                    None => operand.clone(),
                };
                set(map, key, k, Some(value));
            }
            Op::DeleteRange { begin, end, .. } => {
                let range = (Bound::Included(begin.clone()), Bound::Excluded(end.clone()));
                for (_, versions) in map.range_mut(range) {
                    push(versions, k, None);
                }
            }
        }
    }

    /// No batch is missing from the first `k` that was acknowledged before one of them was issued.
    pub(super) fn check_holes(
        &self,
        k: usize,
        batches: &[Batch],
        settled: BatchId,
    ) -> Result<(), Broken> {
        self.check_missing(k, batches, settled, 0, false)
    }

    /// Whether P(`k`) may be what a call from `begun` to `ended` saw; `placed` ignores batches
    /// whose position was never observed, since they are missing everywhere.
    pub(super) fn check_moment(
        &self,
        k: usize,
        batches: &[Batch],
        settled: BatchId,
        (begun, ended): (Stamp, Stamp),
        placed: bool,
    ) -> Result<(), Broken> {
        if self.issued_max[k] > ended {
            let text = format!("P({k}) holds a batch issued after the read ended at {ended}");
            return Err(Broken::new(Breach::Wrong, text));
        }
        self.check_missing(k, batches, settled, begun, placed)
    }

    fn check_missing(
        &self,
        k: usize,
        batches: &[Batch],
        settled: BatchId,
        begun: Stamp,
        placed: bool,
    ) -> Result<(), Broken> {
        for (id, batch) in batches.iter().enumerate().skip(settled) {
            let here = batch.ops.iter().any(|op| self.covers(op.family()));
            let missing = here && !self.has(id, k) && !(placed && self.place(id).is_none());
            if missing && batch.acked_before(self.issued_max[k].max(begun)) {
                let hole = batch.acked_before(self.issued_max[k]);
                let breach = if hole { Breach::Hole } else { Breach::Wrong };
                let text = format!(
                    "batch {id}, acked at {:?}, is missing in P({k}), where one issued at {} is \
                     there, read from {begun} on: {}",
                    batch.acked,
                    self.issued_max[k],
                    self.tail(k)
                );
                return Err(Broken::new(breach, text));
            }
        }
        Ok(())
    }

    /// The value of a key at P(`k`).
    pub(super) fn value(&self, cf: usize, key: &[u8], k: usize) -> Option<&[u8]> {
        at(self.versions.get(&cf)?.get(key)?, k)
    }

    /// The entries at P(`k`) inside bounds, in key order.
    pub(super) fn range<'a>(
        &'a self,
        cf: usize,
        bounds: (Option<&[u8]>, Option<&[u8]>),
        k: usize,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let lower = bounds.0.map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
        let upper = bounds.1.map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec()));
        let map = self.versions.get(&cf);
        let range = map.into_iter().flat_map(move |m| m.range((lower.clone(), upper.clone())));
        range.filter_map(move |(key, versions)| Some((key.as_slice(), at(versions, k)?)))
    }

    /// The values a key had at those P(k) that `may_be` allows.
    pub(super) fn values_between(
        &self,
        key: &[u8],
        cf: usize,
        may_be: impl Fn(usize) -> bool,
    ) -> Vec<Option<&[u8]>> {
        let mut values = Vec::new();
        for k in (self.base..=self.order.len()).rev().filter(|k| may_be(*k)) {
            let value = self.value(cf, key, k);
            if values.last() != Some(&value) {
                values.push(value);
            }
        }
        values
    }

    /// The last batches of the first `k`, for messages.
    pub(super) fn tail(&self, k: usize) -> String {
        let k = k.min(self.order.len());
        format!("{k} batches, the last {:?}", &self.order[k.saturating_sub(12)..k])
    }

    /// P(`k`) is the current state: forgets later and earlier states.
    pub(super) fn settle(&mut self, k: usize) {
        for id in self.order.drain(k..) {
            self.places.remove(&id);
        }
        self.issued_max.truncate(k + 1);
        self.base = k;
        for map in self.versions.values_mut() {
            map.retain(|_, versions| {
                let value = at(versions, k).map(<[u8]>::to_vec);
                let there = value.is_some();
                *versions = vec![(k, value)];
                there
            });
        }
    }
}

fn set(map: &mut Versions, key: &[u8], k: usize, value: Option<Vec<u8>>) {
    match map.get_mut(key) {
        Some(versions) => push(versions, k, value),
        None => {
            map.insert(key.to_vec(), vec![(k, value)]);
        }
    }
}

fn push(versions: &mut Vec<(usize, Option<Vec<u8>>)>, k: usize, value: Option<Vec<u8>>) {
    match versions.last_mut() {
        Some(last) if last.0 == k => last.1 = value,
        _ => versions.push((k, value)),
    }
}

fn at(versions: &[(usize, Option<Vec<u8>>)], k: usize) -> Option<&[u8]> {
    let after = versions.partition_point(|(from, _)| *from <= k);
    versions[..after].last()?.1.as_deref()
}
