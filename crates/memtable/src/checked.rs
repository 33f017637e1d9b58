//! Reads that compare what they pass: the order of keys (`paranoid_memory_checks`), and the
//! checksums of entries (`memtable_verify_per_key_checksum_on_seek`).
//!
//! Of a skip list a lookup and a seek show every entry on their way, and steps compare the two
//! neighbours, as in RocksDB. A vector is sorted for its readers, and its searches pass nothing
//! that is not shown: it is read as without these options.
//!
//! Thread safety: as all reads. Not here: the checksum of an entry that is read ([`crate::guard`]),
//! and lengths of entries, which are believed.

use std::cmp::Ordering;

use pumice_base::key::{InternalKey, VALUE_TYPE_FOR_SEEK, pack, unpack};
use pumice_base::{Error, Result, SequenceNumber, UserKey, ValueType};

use crate::entry::EntryRef;
use crate::guard::{Checks, unguarded};
use crate::iter::Move;
use crate::memtable::{MemTable, Rep};
use crate::node::Node;
use crate::skiplist::SkipList;

/// Gets the entries of a key; false ends it.
pub type Shown<'f> = dyn FnMut(UserKey<'_>, SequenceNumber, ValueType, &[u8]) -> bool + 'f;

impl MemTable {
    /// Readers have to compare: entries have checksums, or there are [`Checks`].
    #[inline]
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// As [`MemTable::visit_with`], with the checks of this memtable on the way.
    ///
    /// # Errors
    /// Corruption; some entries may have been shown.
    pub fn visit_checked(
        &self,
        key: UserKey<'_>,
        seq: SequenceNumber,
        f: &mut Shown<'_>,
    ) -> Result<()> {
        let Some(list) = self.watched_list() else {
            self.visit_with(key, seq, f);
            return Ok(());
        };
        if self.filter_may_match(key.as_bytes()) == Some(false) {
            return Ok(());
        }
        let target = (key, pack(seq, VALUE_TYPE_FOR_SEEK));
        let look = &mut |before, entry| self.look(self.checks, before, entry);
        let mut node = list.find_watched(self.comparator(), target, look)?.next;
        while !node.is_null() {
            let entry = list.entry(node);
            if !self.comparator().same_user_key(entry.user_key(), key) {
                break;
            }
            let (seq, tag) = unpack(entry.trailer());
            let unknown = || Error::corruption("memtable entry of an unknown kind");
            let value_type = ValueType::from_u8(tag).ok_or_else(unknown)?;
            if !f(entry.user_key(), seq, value_type, entry.value()) {
                break;
            }
            node = self.next_in_order(list, node)?;
        }
        Ok(())
    }

    /// The skip list, if readers have to compare what they pass.
    pub(crate) fn watched_list(&self) -> Option<&SkipList> {
        match &self.rep {
            Rep::SkipList(list) if self.checks != Checks::default() => Some(list),
            _ => None,
        }
    }

    /// Where a cursor at `node` of `list` comes to.
    pub(crate) fn moved_watched(&self, list: &SkipList, node: Node, to: Move<'_>) -> Result<Node> {
        let find = |key: InternalKey<'_>, checks: Checks| {
            let look = &mut |before, entry| self.look(checks, before, entry);
            list.find_watched(self.comparator(), (key.user_key(), key.trailer()), look)
        };
        Ok(match to {
            Move::First => list.first(),
            Move::Last => list.last(),
            Move::Next => self.next_in_order(list, node)?,
            Move::Prev => {
                let order = Checks { checksums: false, ..self.checks };
                let at = find(list.entry(node).key(), order)?;
                if order.order && at.next != node {
                    return Err(out_of_order());
                }
                list.or_null(at.prev)
            }
            Move::Seek(key) => find(key, self.checks)?.next,
            Move::SeekForPrev(key) => {
                let at = find(key, self.checks)?;
                if at.found { at.next } else { list.or_null(at.prev) }
            }
        })
    }

    fn next_in_order(&self, list: &SkipList, node: Node) -> Result<Node> {
        let next = list.next(node);
        if !next.is_null() {
            let order = Checks { checksums: false, ..self.checks };
            self.look(order, Some(list.entry(node)), list.entry(next))?;
        }
        Ok(next)
    }

    /// Compares an entry behind another one.
    fn look(
        &self,
        checks: Checks,
        before: Option<EntryRef<'_>>,
        entry: EntryRef<'_>,
    ) -> Result<()> {
        if let Some(before) = before.filter(|_| checks.order) {
            let order = self.comparator().compare(before.user_key(), entry.user_key());
            if order.then_with(|| entry.trailer().cmp(&before.trailer())) != Ordering::Less {
                return Err(out_of_order());
            }
        }
        if checks.checksums {
            unguarded(entry.user_key(), entry.trailer(), entry.value(), self.guard_bytes)?;
        }
        Ok(())
    }
}

#[cold]
fn out_of_order() -> Error {
    Error::corruption("Out-of-order keys found in skiplist.")
}
