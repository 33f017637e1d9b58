//! Handles of values, made and destroyed with every pinned read: a thread keeps the memory of those
//! that it destroyed for its next ones, so that such a read allocates nothing.
//!
//! Thread safety: each thread has its own; a handle may be destroyed by another thread than the one
//! that made it.

use std::cell::RefCell;
use std::marker::PhantomData;

use pumice::PinnedSlice;

use super::handle;
use super::into::IntoC;
use super::types::{Pinned, PinnedValue};

/// More are freed. A read of many keys makes as many at once.
const SPARES_MAX: usize = 64;

/// The empty handles of a thread.
type Spares<T> = RefCell<Vec<Box<T>>>;

/// A handle of one value.
pub trait Holds: Sized {
    /// One without a value.
    fn empty() -> Self;
    /// The place of the value.
    fn place(&mut self) -> &mut Option<PinnedSlice>;
    /// Gives the thread's empty ones to `f`; None on a thread that ends.
    fn with_spares<R>(f: impl FnOnce(&Spares<Self>) -> R) -> Option<R>;
}

macro_rules! holds {
    ($ty:ident) => {
        impl Holds for $ty {
            fn empty() -> Self {
                $ty(None)
            }
            fn place(&mut self) -> &mut Option<PinnedSlice> {
                &mut self.0
            }
            fn with_spares<R>(f: impl FnOnce(&Spares<Self>) -> R) -> Option<R> {
                pumice_port::worker_local! {
                    static SPARES: Spares<$ty> = const { RefCell::new(Vec::new()) };
                }
                SPARES.try_with(f).ok()
            }
        }
    };
}
holds!(Pinned);
holds!(PinnedValue);

/// A value in a handle, which C destroys.
pub struct Held<T>(PinnedSlice, PhantomData<T>);

impl<T> Held<T> {
    /// `value` in a handle of its own.
    pub fn new(value: PinnedSlice) -> Held<T> {
        Held(value, PhantomData)
    }
}

impl<T: Holds> IntoC for Held<T> {
    type Raw = *mut T;
    fn into_c(self) -> *mut T {
        let spare = T::with_spares(|spares| spares.borrow_mut().pop()).flatten();
        let mut object = spare.unwrap_or_else(|| Box::new(T::empty()));
        *object.place() = Some(self.0);
        handle::give_box(object)
    }
    fn failed() -> *mut T {
        std::ptr::null_mut()
    }
}

/// Drops the value of a handle that C destroys, and keeps its memory.
pub fn keep<T: Holds>(mut object: Box<T>) {
    *object.place() = None;
    T::with_spares(|spares| {
        let mut spares = spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(object);
        }
    })
    .unwrap_or_default();
}
