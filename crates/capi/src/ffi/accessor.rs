//! What generated setters and getters do.

use std::ffi::c_char;

use pumice_binding::store::Fields;
use pumice_port::os::c_memory;

use super::call::{abort, guarded};
use super::handle;

/// A number of C as the 64 bits of a stored value.
pub trait Scalar {
    /// The value's bits: the sign extended, or those of a double.
    fn to_bits(self) -> u64;
    /// The number with these bits.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integers {
    ($($ty:ty),+) => {$(
        impl Scalar for $ty {
            fn to_bits(self) -> u64 {
                // Widening, the sign extended.
                self as i64 as u64
            }
            fn from_bits(bits: u64) -> Self {
                // What C's conversion of the stored value gives.
                bits as $ty
            }
        }
    )+};
}
integers!(u8, i8, i32, u32, i64, u64, usize);

impl Scalar for f64 {
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

const NO_OBJECT: &str = "the object is NULL";

/// Sets a number.
///
/// # Safety
/// Invariant 1 of `ffi`.
pub unsafe fn set<T: Fields, V: Scalar>(name: &str, object: *mut T, place: usize, value: V) {
    // SAFETY: the caller's promise; options are changed by one thread at a time.
    let Some(object) = (unsafe { handle::exclusive(name, object) }) else { abort(name, NO_OBJECT) };
    guarded(name, || {
        object.store_mut().set_number(place, value.to_bits());
        object.changed();
    });
}

/// Reads a number.
///
/// # Safety
/// Invariant 1 of `ffi`.
pub unsafe fn get<T: Fields, V: Scalar>(name: &str, object: *mut T, place: usize) -> V {
    // SAFETY: the caller's promise.
    let Some(object) = (unsafe { handle::shared(name, object) }) else { abort(name, NO_OBJECT) };
    guarded(name, || V::from_bits(object.store().number(place)))
}

/// Lends a text, and stores its length.
///
/// # Safety
/// Invariant 1 of `ffi`; `length` is null or may be written.
pub unsafe fn lend<T: Fields>(
    name: &str,
    object: *mut T,
    place: usize,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: the caller's promise.
    let Some(object) = (unsafe { handle::shared(name, object) }) else { abort(name, NO_OBJECT) };
    let text = guarded(name, || object.store().text_with_zero(place));
    // SAFETY: the caller's promise.
    if let Some(length) = unsafe { length.as_mut() } {
        *length = text.len() - 1;
    }
    text.as_ptr().cast()
}

/// The same, but a text that is not set is null.
///
/// # Safety
/// As [`lend`].
pub unsafe fn lend_optional<T: Fields>(
    name: &str,
    object: *mut T,
    place: usize,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: the caller's promise.
    let text = unsafe { lend(name, object, place, length) };
    // SAFETY: a text has at least the zero byte at its end.
    if unsafe { *text } == 0 { std::ptr::null() } else { text }
}

/// Copies a text into a block that C frees, and stores its length.
///
/// # Safety
/// Invariant 1 of `ffi`; `length` is null or may be written.
pub unsafe fn copy<T: Fields>(
    name: &str,
    object: *mut T,
    place: usize,
    length: *mut usize,
) -> *mut c_char {
    // SAFETY: the caller's promise.
    let Some(object) = (unsafe { handle::shared(name, object) }) else { abort(name, NO_OBJECT) };
    let text = guarded(name, || object.store().text_with_zero(place));
    let text = &text[..text.len() - 1];
    // SAFETY: the caller's promise.
    if let Some(length) = unsafe { length.as_mut() } {
        *length = text.len();
    }
    c_memory::copy(text)
}
