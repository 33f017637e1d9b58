//! The range tombstones of a memtable: a list, and its fragmented form for readers.
//!
//! Thread safety: one lock; a memtable without range tombstones costs a reader one load. The
//! fragmented form is made by the first reader after an addition and kept until the next one, so
//! alternating additions and reads fragment the whole list each time, as in RocksDB.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Release},
};

use pumice_base::Comparator;
use pumice_base::range_tombstone::{FragmentedTombstones, RangeTombstone};
use pumice_port::sync::Mutex;

#[derive(Default)]
struct State {
    list: Vec<RangeTombstone>,
    /// All of `list`, fragmented.
    fragmented: Option<Arc<FragmentedTombstones>>,
}

/// See the head.
pub(crate) struct RangeDels {
    count: AtomicUsize,
    state: Mutex<State>,
}

impl RangeDels {
    pub(crate) fn new() -> Self {
        RangeDels { count: AtomicUsize::new(0), state: Mutex::foreground(State::default()) }
    }

    /// Adds a tombstone and returns the bytes it takes.
    pub(crate) fn add(&self, tombstone: RangeTombstone) -> usize {
        // Twice the keys: in the list and fragmented.
        let keys = tombstone.start.len() + tombstone.end.len();
        let bytes = 2 * (keys + size_of::<RangeTombstone>());
        let mut state = self.state.lock();
        state.list.push(tombstone);
        state.fragmented = None;
        self.count.store(state.list.len(), Release);
        bytes
    }

    /// Number of tombstones.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count.load(Acquire)
    }

    /// The tombstones, fragmented; `None` if there are none.
    #[inline]
    pub(crate) fn fragmented(&self, comparator: &Comparator) -> Option<Arc<FragmentedTombstones>> {
        if self.len() == 0 {
            return None;
        }
        let mut state = self.state.lock();
        let State { list, fragmented } = &mut *state;
        let built = fragmented
            .get_or_insert_with(|| Arc::new(FragmentedTombstones::build(list.clone(), comparator)));
        Some(Arc::clone(built))
    }
}
