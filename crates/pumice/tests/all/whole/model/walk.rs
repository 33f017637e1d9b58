//! Where an iterator of the model stands after each of its moves.

use super::{Extractor, prefix_of};
use pumice::{Comparator, DbIterator};
use pumice_base::UserKey;

/// Where an iterator should be.
pub(super) struct Walk {
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// The prefix that the last seek fixed.
    pub prefix: Option<Vec<u8>>,
    /// Only keys with that prefix are shown.
    pub extractor: Extractor,
    pub order: Comparator,
    pub at: Option<usize>,
}

impl Walk {
    fn prefix_of(&self, key: &[u8]) -> Option<Vec<u8>> {
        prefix_of(&self.extractor, key).map(<[u8]>::to_vec)
    }

    /// `at` if it is a row of the fixed prefix.
    fn admit(&self, at: Option<usize>) -> Option<usize> {
        at.filter(|&at| match (self.rows.get(at), &self.prefix) {
            (None, _) => false,
            (Some((key, _)), Some(prefix)) => prefix_of(&self.extractor, key) == Some(prefix),
            (Some(_), None) => true,
        })
    }

    pub fn step(&mut self, step: u64, target: &[u8], cursor: &mut DbIterator) {
        match step {
            0 | 1 => {
                self.prefix = None;
                let end = if step == 0 { Some(0) } else { self.rows.len().checked_sub(1) };
                self.at = self.admit(end);
                self.prefix = self.at.and_then(|at| self.prefix_of(&self.rows[at].0));
                if step == 0 { cursor.seek_to_first() } else { cursor.seek_to_last() }
            }
            2 => {
                self.prefix = self.prefix_of(target);
                let at = self.rows.partition_point(|r| {
                    self.order.compare(UserKey::new(&r.0), UserKey::new(target)).is_lt()
                });
                self.at = self.admit(Some(at));
                cursor.seek(target);
            }
            3 => {
                self.prefix = self.prefix_of(target);
                let at = self.rows.partition_point(|r| {
                    self.order.compare(UserKey::new(&r.0), UserKey::new(target)).is_le()
                });
                self.at = self.admit(at.checked_sub(1));
                cursor.seek_for_prev(target);
            }
            4..=8 => {
                self.at = self.admit(self.at.map(|at| at + 1));
                cursor.next();
            }
            _ => {
                self.at = self.admit(self.at.and_then(|at| at.checked_sub(1)));
                cursor.prev();
            }
        }
    }
}
