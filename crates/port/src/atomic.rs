//! What the primitives are made of: std's atomics and cells, or loom's when models run.
//!
//! Thread safety: as the types re-exported; [`UnsafeCell`] gives no exclusion of its own.
//! Under loom every access through these types is a step that the model checker orders.

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(loom)]
#[allow(unused_imports)] // Some models compile only a part of the crate.
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(not(loom))]
#[allow(unused_imports)] // The same list as loom's.
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// std's cell with loom's interface.
#[cfg(not(loom))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }
    /// The value, to be read by `f`; the caller guarantees that there is no writer.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }
    /// The value, to be changed by `f`; the caller guarantees exclusive access.
    #[inline]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Constructors that are `const`, except under loom, whose atomics must be made at run time.
macro_rules! constant {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty $body:block
    )+) => {$(
        $(#[$meta])*
        #[cfg(not(loom))]
        #[inline]
        $vis const fn $name($($arg: $type),*) -> $ret $body
        $(#[$meta])*
        #[cfg(loom)]
        $vis fn $name($($arg: $type),*) -> $ret $body
    )+};
}
pub(crate) use constant;
