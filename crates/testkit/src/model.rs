//! The expected state: one sorted map per column family.
//!
//! A clone shares the maps until one side is written to, and a map that is copied then shares its
//! keys and values: a run with many snapshots and cursors copies maps all the time.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::Arc;

use crate::store::{CursorSpec, Step, Store};
use crate::{Entry, Op};

/// A key or value, shared by all maps that hold it.
pub type Bytes = Arc<[u8]>;

/// What one column family holds.
pub type Map = BTreeMap<Bytes, Bytes>;

/// What a database should hold.
#[derive(Clone, Debug, Default)]
pub struct Model {
    families: Vec<Arc<Map>>,
    snapshots: BTreeMap<u64, Vec<Arc<Map>>>,
    cursors: BTreeMap<u64, Cursor>,
}

#[derive(Clone, Debug)]
struct Cursor {
    map: Arc<Map>,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    at: Option<Bytes>,
}

impl PartialEq for Model {
    /// Equal contents; snapshots and cursors do not matter.
    fn eq(&self, other: &Self) -> bool {
        self.families == other.families
    }
}

impl Model {
    /// An empty state.
    pub fn new(families: usize) -> Self {
        Model { families: vec![Arc::default(); families], ..Model::default() }
    }

    /// The state that holds exactly `entries` per column family.
    pub fn from_entries(families: Vec<Vec<Entry>>) -> Self {
        let map = |entries: Vec<Entry>| {
            Arc::new(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
        };
        Model { families: families.into_iter().map(map).collect(), ..Model::default() }
    }

    /// The part of this state that a generator with `prefix` made: see [`crate::Shape::prefix`].
    #[must_use]
    pub fn part(&self, prefix: &str) -> Model {
        let mine = |key: &[u8]| key.get(1..).is_some_and(|k| k.starts_with(prefix.as_bytes()));
        let part = |map: &Arc<Map>| {
            let entries = map.iter().filter(|(key, _)| mine(key));
            Arc::new(entries.map(|(key, value)| (key.clone(), value.clone())).collect())
        };
        Model { families: self.families.iter().map(part).collect(), ..Model::default() }
    }

    /// Number of column families.
    pub fn families(&self) -> usize {
        self.families.len()
    }

    /// What a column family holds.
    pub fn family(&self, cf: usize) -> &Map {
        &self.families[cf]
    }

    /// What a column family holds, in key order.
    pub fn entries(&self, cf: usize) -> Vec<Entry> {
        self.family(cf).iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    /// Applies a batch.
    pub fn apply(&mut self, batch: &[Op]) {
        for op in batch {
            self.apply_op(op);
        }
    }

    fn apply_op(&mut self, op: &Op) {
        match op {
            Op::Put { cf, key, value } => {
                self.family_mut(*cf).insert(key.as_slice().into(), value.as_slice().into());
            }
            Op::Delete { cf, key } | Op::SingleDelete { cf, key } => {
                self.family_mut(*cf).remove(key.as_slice());
            }
            Op::Merge { cf, key, operand } => {
                let map = self.family_mut(*cf);
                let merged = match map.get(key.as_slice()) {
                    Some(value) => [&**value, b",", operand].concat().into(),
                    None => operand.as_slice().into(),
                };
                map.insert(key.as_slice().into(), merged);
            }
            Op::DeleteRange { cf, begin, end } => {
                let map = self.family_mut(*cf);
                let range = map.range::<[u8], _>((Included(&begin[..]), Excluded(&end[..])));
                let dead: Vec<Bytes> = range.map(|(key, _)| key.clone()).collect();
                for key in dead {
                    map.remove(&key);
                }
            }
        }
    }

    fn family_mut(&mut self, cf: usize) -> &mut Map {
        Arc::make_mut(&mut self.families[cf])
    }

    fn map_at(&self, cf: usize, snapshot: Option<u64>) -> &Arc<Map> {
        match snapshot {
            Some(name) => &self.snapshots[&name][cf],
            None => &self.families[cf],
        }
    }
}

impl Cursor {
    fn moved<'a>(&'a self, step: &'a Step) -> Option<(&'a Bytes, &'a Bytes)> {
        let excluded = |key: &'a Option<Bytes>| match key {
            Some(key) => Excluded(&key[..]),
            None => panic!("a cursor that stands on no key cannot go on"),
        };
        match step {
            Step::First => self.first_from(bound(&self.lower)),
            Step::Last => self.last_to(bound(&self.upper)),
            Step::Seek(key) => self.first_from(Included(key)),
            Step::SeekForPrev(key) => self.last_to(Included(key)),
            Step::Next => self.first_from(excluded(&self.at)),
            Step::Prev => self.last_to(excluded(&self.at)),
        }
    }

    /// The first key after `start` and inside the bounds.
    fn first_from(&self, start: Bound<&[u8]>) -> Option<(&Bytes, &Bytes)> {
        let mut range = self.map.range::<[u8], _>((start, Unbounded));
        range.find(|(key, _)| self.above_lower(key)).filter(|(key, _)| self.below_upper(key))
    }

    /// The last key before `end` and inside the bounds.
    fn last_to(&self, end: Bound<&[u8]>) -> Option<(&Bytes, &Bytes)> {
        let mut range = self.map.range::<[u8], _>((Unbounded, end)).rev();
        range.find(|(key, _)| self.below_upper(key)).filter(|(key, _)| self.above_lower(key))
    }

    fn above_lower(&self, key: &[u8]) -> bool {
        !matches!(&self.lower, Included(lower) if key < &lower[..])
    }

    fn below_upper(&self, key: &[u8]) -> bool {
        !matches!(&self.upper, Excluded(upper) if key >= &upper[..])
    }
}

fn bound(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Store for Model {
    fn write(&mut self, batch: &[Op]) -> Result<(), String> {
        self.apply(batch);
        Ok(())
    }

    fn get(
        &mut self,
        cf: usize,
        key: &[u8],
        snapshot: Option<u64>,
    ) -> Result<Option<Vec<u8>>, String> {
        Ok(self.map_at(cf, snapshot).get(key).map(|value| value.to_vec()))
    }

    fn multi_get(
        &mut self,
        cf: usize,
        keys: &[Vec<u8>],
        snapshot: Option<u64>,
    ) -> Result<Vec<Option<Vec<u8>>>, String> {
        let map = self.map_at(cf, snapshot);
        let value = |key: &Vec<u8>| map.get(key.as_slice()).map(|value| value.to_vec());
        Ok(keys.iter().map(value).collect())
    }

    fn snapshot(&mut self, name: u64) -> Result<(), String> {
        self.snapshots.insert(name, self.families.clone());
        Ok(())
    }

    fn release(&mut self, name: u64) {
        self.snapshots.remove(&name);
    }

    fn open_cursor(&mut self, name: u64, spec: &CursorSpec) -> Result<(), String> {
        let cursor = Cursor {
            map: self.map_at(spec.cf, spec.snapshot).clone(),
            lower: spec.lower.clone().map_or(Unbounded, Included),
            upper: spec.upper.clone().map_or(Unbounded, Excluded),
            at: None,
        };
        self.cursors.insert(name, cursor);
        Ok(())
    }

    fn step(&mut self, name: u64, step: &Step) -> Result<Option<Entry>, String> {
        let cursor = self.cursors.get_mut(&name).ok_or("no such cursor")?;
        let found = cursor.moved(step).map(|(key, value)| (key.clone(), value.clone()));
        cursor.at = found.as_ref().map(|(key, _)| key.clone());
        Ok(found.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    fn close_cursor(&mut self, name: u64) {
        self.cursors.remove(&name);
    }

    fn flush(&mut self, _cf: usize) -> Result<(), String> {
        Ok(())
    }

    fn compact(
        &mut self,
        _cf: usize,
        _begin: Option<&[u8]>,
        _end: Option<&[u8]>,
    ) -> Result<(), String> {
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn put(key: &str, value: &str) -> Op {
        Op::Put { cf: 0, key: key.into(), value: value.into() }
    }

    #[test]
    fn writes_do_what_they_say() {
        let mut model = Model::new(1);
        model.apply(&[put("a", "1"), put("b", "2"), put("c", "3"), put("d", "4")]);
        model.apply(&[Op::DeleteRange { cf: 0, begin: "b".into(), end: "d".into() }]);
        model.apply(&[Op::Merge { cf: 0, key: "a".into(), operand: "x".into() }]);
        model.apply(&[Op::Merge { cf: 0, key: "n".into(), operand: "y".into() }]);
        let expected = [("a", "1,x"), ("d", "4"), ("n", "y")];
        let expected = expected.map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()));
        assert_eq!(model, Model::from_entries(vec![expected.to_vec()]));
    }

    #[test]
    fn snapshots_and_cursors_keep_their_state() {
        let mut model = Model::new(1);
        model.apply(&[put("a", "1"), put("c", "3")]);
        model.snapshot(7).unwrap();
        model
            .open_cursor(1, &CursorSpec { lower: Some("b".into()), ..Default::default() })
            .unwrap();
        model.apply(&[put("b", "2"), Op::Delete { cf: 0, key: "a".into() }]);
        assert_eq!(model.get(0, b"a", Some(7)).unwrap(), Some(b"1".to_vec()));
        assert_eq!(model.get(0, b"a", None).unwrap(), None);
        assert_eq!(model.step(1, &Step::First).unwrap().unwrap().0, b"c");
        assert_eq!(model.step(1, &Step::Prev).unwrap(), None);
        assert_eq!(model.step(1, &Step::Seek("a".into())).unwrap().unwrap().0, b"c");
        assert_eq!(model.step(1, &Step::SeekForPrev("b".into())).unwrap(), None);
    }

    #[test]
    fn bounds_hold_both_ways() {
        let mut model = Model::new(1);
        model.apply(&[put("a", "1"), put("b", "2"), put("c", "3"), put("d", "4")]);
        let spec =
            CursorSpec { lower: Some("b".into()), upper: Some("d".into()), ..Default::default() };
        model.open_cursor(1, &spec).unwrap();
        assert_eq!(model.step(1, &Step::Last).unwrap().unwrap().0, b"c");
        assert_eq!(model.step(1, &Step::Next).unwrap(), None);
        assert_eq!(model.step(1, &Step::SeekForPrev("z".into())).unwrap().unwrap().0, b"c");
        assert_eq!(model.step(1, &Step::Seek("d".into())).unwrap(), None);
        assert_eq!(model.step(1, &Step::First).unwrap().unwrap().0, b"b");
    }
}
