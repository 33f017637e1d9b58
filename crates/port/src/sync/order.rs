//! The order in which a task takes locks, checked in debug builds.
//!
//! A lock that has a [`LockRank`] may be taken only by a task that holds none of the same or a
//! later place, so that no two tasks wait for each other. An attempt that cannot wait
//! (`Mutex::try_lock`, [`LockRank::enter_untested`]) may come in any order, and counts from then
//! on.
//! The order holds for all locks with ranks in a process: those of two databases too.
//!
//! Release builds check nothing and keep nothing. Thread safety: what a task holds is its own.

#[cfg(all(debug_assertions, not(loom)))]
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

/// A lock's place in the order.
#[derive(Debug)]
#[cfg_attr(any(not(debug_assertions), loom), expect(dead_code, reason = "only debug builds check"))]
pub struct LockRank {
    /// Ascending: a task takes a lock only if all that it holds have smaller places.
    place: u16,
    /// The first of the places that a task which takes it must not hold.
    refused: u16,
    name: &'static str,
    foreground: bool,
}

/// Something with a place in the order is held; over when dropped.
#[derive(Debug)]
#[must_use = "what is not kept counts as released"]
pub struct RankHeld {
    #[cfg(all(debug_assertions, not(loom)))]
    rank: &'static LockRank,
    /// The task that takes is the one that releases.
    stays: PhantomData<*const ()>,
}

impl LockRank {
    /// Of a lock that only background work needs.
    pub const fn background(place: u16, name: &'static str) -> Self {
        LockRank { place, refused: place, name, foreground: false }
    }
    /// Of a lock that readers or writers may need (`Mutex::foreground`).
    pub const fn foreground(place: u16, name: &'static str) -> Self {
        LockRank { place, refused: place, name, foreground: true }
    }
    /// It may be taken under all places before `place`: those of another owner, which calls this
    /// one's.
    pub const fn under_all_before(self, place: u16) -> Self {
        LockRank { refused: place, ..self }
    }
    /// Readers or writers may need it.
    pub(super) fn is_foreground(&self) -> bool {
        self.foreground
    }
    /// The calling task has what this rank is of, which is no mutex, and waited for it.
    ///
    /// # Panics
    /// In debug builds, if it holds anything of the same or a later place.
    pub fn enter(&'static self) -> RankHeld {
        self.check();
        self.enter_untested()
    }
    /// As [`Self::enter`], for a task that has called [`Self::check`], or that would not have
    /// waited.
    pub fn enter_untested(&'static self) -> RankHeld {
        self.push();
        RankHeld {
            #[cfg(all(debug_assertions, not(loom)))]
            rank: self,
            stays: PhantomData,
        }
    }
}

impl Drop for RankHeld {
    fn drop(&mut self) {
        #[cfg(all(debug_assertions, not(loom)))]
        self.rank.pop();
    }
}

#[cfg(any(not(debug_assertions), loom))]
impl LockRank {
    /// The calling task is about to wait for this. Release builds do not check it.
    #[inline(always)]
    pub fn check(&self) {}
    /// As [`Self::check`].
    #[inline(always)]
    pub fn check_none_held(&self, _places: Range<u16>) {}
    #[inline(always)]
    fn push(&self) {}
}

/// While it lives, what the calling task held before does not count: it calls code that is not the
/// holder's, and whose locks have an order of their own.
#[derive(Debug)]
#[must_use = "what is held counts again once this is dropped"]
pub struct HeldAside {
    #[cfg(all(debug_assertions, not(loom)))]
    held: [Option<&'static LockRank>; HELD_MAX],
}

impl HeldAside {
    /// Begins now.
    pub fn begin() -> Self {
        HeldAside {
            #[cfg(all(debug_assertions, not(loom)))]
            held: HELD.with(|held| held.replace([None; HELD_MAX])),
        }
    }
}

impl Drop for HeldAside {
    fn drop(&mut self) {
        #[cfg(all(debug_assertions, not(loom)))]
        HELD.set(self.held);
    }
}

/// A task holds at most this many at once.
#[cfg(all(debug_assertions, not(loom)))]
const HELD_MAX: usize = 16;

#[cfg(all(debug_assertions, not(loom)))]
crate::task_local! {
    /// Without a destructor, so that it is there until the very end of a thread.
    static HELD: Cell<[Option<&'static LockRank>; HELD_MAX]> = Cell::new([None; HELD_MAX]);
}

#[cfg(all(debug_assertions, not(loom)))]
impl LockRank {
    /// The calling task is about to wait for this.
    ///
    /// # Panics
    /// If it holds anything of the same or a later place, or of those that `under_all_before` left.
    pub fn check(&self) {
        self.check_none_held(self.refused..u16::MAX);
    }

    /// As [`Self::check`], for a condvar: the task has this, and is about to wait for it again.
    pub(super) fn check_again(&self) {
        self.check_none_held(self.place + 1..u16::MAX);
    }

    /// As [`Self::check`], where what it may not hold are these `places` only.
    ///
    /// # Panics
    /// If it holds anything of them.
    pub fn check_none_held(&self, places: Range<u16>) {
        let held = HELD.get();
        let held = held.iter().flatten().filter(|held| places.contains(&held.place));
        if let Some(last) = held.max_by_key(|held| held.place) {
            let (name, place) = (self.name, self.place);
            panic!(
                "wrong order of locks: `{name}` (place {place}) is taken by a task that holds \
                 `{}` (place {})",
                last.name, last.place
            );
        }
    }

    /// The calling task has it.
    pub(super) fn push(&'static self) {
        let mut held = HELD.get();
        let free = held.iter().position(Option::is_none).expect("a task holds few locks");
        held[free] = Some(self);
        HELD.set(held);
    }

    /// The calling task has it no more.
    pub(super) fn pop(&'static self) {
        let mut held = HELD.get();
        let at = held.iter().rposition(|held| held.is_some_and(|held| std::ptr::eq(held, self)));
        held[at.expect("it was taken by this task")] = None;
        HELD.set(held);
    }
}
