//! Pieces of work that their owner shares with its helpers.
//!
//! Contract: docs/port/shared_work.md. Nobody has to come: the owner does what nobody has begun,
//! and waits for what somebody is at, and for nothing else.
//!
//! | a piece is | entered by | left by |
//! |---|---|---|
//! | to do | `new` | the task that holds its lock and does it |
//! | done | the one who did it | the owner, which takes it back |
//!
//! Invariants: 1. A piece is done under its lock by who finds it to do, so it is done once, and the
//! owner, which takes every lock in the end, has seen it done. 2. `next` spreads the tasks over the
//! pieces: a wrong one would cost a look, no more.
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

    /// Does pieces that nobody has begun, one after the other, until there is none; how many. Waits
    /// for nobody (in a simulation other tasks may run), unless `work` does.
    pub fn help(&self, mut work: impl FnMut(&mut T)) -> usize {
        let mut did = 0;
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            // One whose lock is taken is being done: the owner goes through all of them.
            if let Some(mut piece) = piece.try_lock() {
                did += usize::from(piece.do_once(&mut work));
            }
        }
        did
    }

    /// Does what nobody has begun, waits for the others, and returns all pieces in their order. A
    /// piece in which a helper panicked is done again. Suspends.
    pub fn finish(&self, mut work: impl FnMut(&mut T)) -> Vec<T> {
        self.help(&mut work);
        let back = |piece| {
            let mut piece = Self::wait(piece)?;
            piece.do_once(&mut work);
            piece.value.take()
        };
        self.pieces.iter().filter_map(back).collect()
    }

    /// The piece, when nobody is at it any more.
    fn wait(piece: &Mutex<Piece<T>>) -> Option<MutexGuard<'_, Piece<T>>> {
        if planted(Planted::SharedWorkNotAwaited) {
            return piece.try_lock();
        }
        Some(piece.lock())
    }
}
