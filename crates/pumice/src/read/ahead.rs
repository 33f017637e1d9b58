//! The first blocks of several cursors, read together before the cursors are used.
//!
//! The cursors begin the moves to their first (or last) keys; what these lack is read in rounds, as
//! the sources of one cursor are (`merging_iterator`). A cursor that is then moved there reads
//! nothing for that. Which blocks are read, and which errors are found, is the same as without.
//!
//! Thread safety: one call on its task. Suspends.

use pumice_env::activity;
use pumice_table::TableIter;

use crate::read::iterator::DbIterator;
use crate::read::together::read_together;

/// A cursor, and its sources that wait for blocks.
struct Begun<'c> {
    cursor: &'c mut DbIterator,
    waiting: Vec<u32>,
}

/// Positions the sources of `cursors`, none of which was moved yet, at their first keys, or with
/// `last` at their last.
pub(crate) fn begin_together<'c>(cursors: impl Iterator<Item = &'c mut DbIterator>, last: bool) {
    let begin = |cursor: &'c mut DbIterator| {
        let waiting = cursor.begin(last);
        Begun { cursor, waiting }
    };
    let mut begun: Vec<_> = cursors.map(begin).collect();
    loop {
        begun.retain(|begun| !begun.waiting.is_empty());
        if begun.is_empty() {
            return;
        }
        let tables = begun.iter_mut().flat_map(|begun| begun.cursor.waiting(&begun.waiting));
        let little_stack = |table: &&mut TableIter| table.fetches_on_little_stack();
        read_together(activity::current(), tables, little_stack, |table| table.fetch());
        for Begun { cursor, waiting } in &mut begun {
            cursor.go_on(last, waiting);
        }
    }
}
