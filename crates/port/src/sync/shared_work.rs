//! Pieces of work that their owner shares with its helpers.
//!
//! Contract: docs/port/shared_work.md. No helper has to come: the owner does the pieces that no
//! task has begun, and waits only for those in progress.
//!
//! | a piece is | entered by | left by |
//! |---|---|---|
//! | to do | `new` | the task that holds its lock and does it |
//! | done | the task that did it | the owner, which takes it back |
//!
//! Invariants: 1. A piece is done under its lock by the task that finds it not done, so it is done
//! once, and the owner, which takes every lock in the end, has seen it done. 2. `next` spreads the
//! tasks over the pieces: a wrong value would only cost an extra check.
//!
//! Thread safety: `help` from anywhere; `finish` by the owner, once.

use super::planted::{Planted, planted};
use super::{Mutex, MutexGuard};
use crate::atomic::{AtomicUsize, Ordering};

struct Piece<T> {
    /// None once the owner has it back.
    value: Option<T>,
    done: bool,
}

/// See the module head.
pub struct SharedWork<T> {
    next: AtomicUsize,
    pieces: Box<[Mutex<Piece<T>>]>,
}

impl<T> Piece<T> {
    /// Does the piece if it is to do; whether it was.
    fn do_once(&mut self, work: &mut impl FnMut(&mut T)) -> bool {
        match &mut self.value {
            Some(value) if !self.done => {
                work(value);
                self.done = true;
                true
            }
            _ => false,
        }
    }
}

impl<T> SharedWork<T> {
    /// All pieces to do.
    pub fn new(pieces: impl IntoIterator<Item = T>) -> Self {
        let to_do = |value| Mutex::foreground(Piece { value: Some(value), done: false });
        let pieces = pieces.into_iter().map(to_do).collect();
        SharedWork { next: AtomicUsize::new(0), pieces }
    }

    /// Does pieces that no task has begun, one after the other, until there is none; returns how
    /// many. Does not wait (in a simulation other tasks may run), unless `work` does.
    pub fn help(&self, mut work: impl FnMut(&mut T)) -> usize {
        let mut did = 0;
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            // A piece whose lock is taken is being done: the owner visits all of them later.
            if let Some(mut piece) = piece.try_lock() {
                did += usize::from(piece.do_once(&mut work));
            }
        }
        did
    }

    /// Does the pieces that no task has begun, waits for the others, and returns all pieces in
    /// order. A piece in which a helper panicked is done again. Suspends.
    pub fn finish(&self, mut work: impl FnMut(&mut T)) -> Vec<T> {
        self.help(&mut work);
        let back = |piece| {
            let mut piece = Self::wait(piece)?;
            piece.do_once(&mut work);
            piece.value.take()
        };
        self.pieces.iter().filter_map(back).collect()
    }

    /// The piece, once no task is working on it.
    fn wait(piece: &Mutex<Piece<T>>) -> Option<MutexGuard<'_, Piece<T>>> {
        if planted(Planted::SharedWorkNotAwaited) {
            return piece.try_lock();
        }
        Some(piece.lock())
    }
}
