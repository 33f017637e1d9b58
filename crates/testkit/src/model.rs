//! The expected state: one sorted map per column family.
//!
//! A clone shares the maps until one side is written to, so snapshots and cursors are cheap.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::sync::Arc;

use crate::store::{CursorSpec, Step, Store};
use crate::{Entry, Op};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

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
    at: Option<Vec<u8>>,
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
        let families = families.into_iter().map(|entries| Arc::new(entries.into_iter().collect()));
        Model { families: families.collect(), ..Model::default() }
    }

    /// The part of this state that a generator with `prefix` made: see [`crate::Shape::prefix`].
    #[must_use]
    pub fn part(&self, prefix: &str) -> Model {
        let mine = |key: &Vec<u8>| key.get(1..).is_some_and(|k| k.starts_with(prefix.as_bytes()));
        let part = |map: &Arc<Map>| {
            let entries = map.iter().filter(|(key, _)| mine(key));
            entries.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        Model::from_entries(self.families.iter().map(part).collect())
    }

    /// Number of column families.
    pub fn families(&self) -> usize {
        self.families.len()
    }

    /// What a column family holds.
    pub fn family(&self, cf: usize) -> &Map {
        &self.families[cf]
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
                self.family_mut(*cf).insert(key.clone(), value.clone());
            }
            Op::Delete { cf, key } | Op::SingleDelete { cf, key } => {
                self.family_mut(*cf).remove(key);
            }
            Op::Merge { cf, key, operand } => match self.family_mut(*cf).entry(key.clone()) {
                btree_map::Entry::Occupied(mut value) => {
                    value.get_mut().push(b',');
                    value.get_mut().extend_from_slice(operand);
                }
                btree_map::Entry::Vacant(empty) => {
                    empty.insert(operand.clone());
                }
            },
            Op::DeleteRange { cf, begin, end } => {
                let map = self.family_mut(*cf);
                let range = map.range(begin.clone()..end.clone());
                let dead: Vec<Vec<u8>> = range.map(|(key, _)| key.clone()).collect();
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
    fn moved(&self, step: &Step) -> Option<Entry> {
        let excluded = |key: &Option<Vec<u8>>| match key {
            Some(key) => Bound::Excluded(key.clone()),
            None => panic!("a cursor that stands on no key cannot go on"),
        };
        match step {
            Step::First => self.first_from(self.lower.clone()),
            Step::Last => self.last_to(self.upper.clone()),
            Step::Seek(key) => self.first_from(Bound::Included(key.clone())),
            Step::SeekForPrev(key) => self.last_to(Bound::Included(key.clone())),
            Step::Next => self.first_from(excluded(&self.at)),
            Step::Prev => self.last_to(excluded(&self.at)),
        }
    }

    /// The first key after `start` and inside the bounds.
    fn first_from(&self, start: Bound<Vec<u8>>) -> Option<Entry> {
        let range = self.map.range((start, Bound::Unbounded));
        let found = range.map(|(key, _)| key).find(|key| self.above_lower(key))?;
        self.below_upper(found).then(|| (found.clone(), self.map[found].clone()))
    }

    /// The last key before `end` and inside the bounds.
    fn last_to(&self, end: Bound<Vec<u8>>) -> Option<Entry> {
        let range = self.map.range((Bound::Unbounded, end));
        let found = range.map(|(key, _)| key).rev().find(|key| self.below_upper(key))?;
        self.above_lower(found).then(|| (found.clone(), self.map[found].clone()))
    }

    fn above_lower(&self, key: &Vec<u8>) -> bool {
        !matches!(&self.lower, Bound::Included(lower) if key < lower)
    }

    fn below_upper(&self, key: &Vec<u8>) -> bool {
        !matches!(&self.upper, Bound::Excluded(upper) if key >= upper)
    }
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
        Ok(self.map_at(cf, snapshot).get(key).cloned())
    }

    fn multi_get(
        &mut self,
        cf: usize,
        keys: &[Vec<u8>],
        snapshot: Option<u64>,
    ) -> Result<Vec<Option<Vec<u8>>>, String> {
        let map = self.map_at(cf, snapshot);
        Ok(keys.iter().map(|key| map.get(key).cloned()).collect())
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
            lower: spec.lower.clone().map_or(Bound::Unbounded, Bound::Included),
            upper: spec.upper.clone().map_or(Bound::Unbounded, Bound::Excluded),
            at: None,
        };
        self.cursors.insert(name, cursor);
        Ok(())
    }

    fn step(&mut self, name: u64, step: &Step) -> Result<Option<Entry>, String> {
        let cursor = self.cursors.get_mut(&name).ok_or("no such cursor")?;
        let found = cursor.moved(step);
        cursor.at = found.as_ref().map(|(key, _)| key.clone());
        Ok(found)
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
