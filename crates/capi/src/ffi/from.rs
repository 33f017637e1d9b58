//! Arguments of C functions as values.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;

use super::handle;

/// A value that one argument of C stands for.
///
/// # Safety
/// `from_c` makes nothing of a pointer that invariants 1 and 3 of `ffi` do not allow.
pub unsafe trait FromC: Sized {
    /// The type of C.
    type Raw;
    /// The value; None for a null pointer where that is not allowed.
    ///
    /// # Safety
    /// Invariants 1 and 3 of `ffi`.
    unsafe fn from_c(function: &'static str, raw: Self::Raw) -> Option<Self>;
}

macro_rules! as_it_is {
    ($($ty:ty),+ $(,)?) => {$(
        // SAFETY: no pointer is followed.
        unsafe impl FromC for $ty {
            type Raw = $ty;
            #[inline]
            unsafe fn from_c(_: &'static str, raw: $ty) -> Option<Self> {
                Some(raw)
            }
        }
    )+};
}
as_it_is! { c_char, u8, c_int, c_uint, i64, u64, usize, f64 }

// SAFETY: no pointer is followed.
unsafe impl FromC for bool {
    type Raw = u8;
    #[inline]
    unsafe fn from_c(_: &'static str, raw: u8) -> Option<Self> {
        Some(raw != 0)
    }
}

// SAFETY: a handle, by invariant 1.
unsafe impl<T> FromC for &T {
    type Raw = *mut T;
    #[inline]
    unsafe fn from_c(function: &'static str, raw: *mut T) -> Option<Self> {
        // SAFETY: the caller's promise.
        unsafe { handle::shared(function, raw) }
    }
}

// SAFETY: a handle, by invariant 1.
unsafe impl<T> FromC for &mut T {
    type Raw = *mut T;
    #[inline]
    unsafe fn from_c(function: &'static str, raw: *mut T) -> Option<Self> {
        // SAFETY: the caller's promise.
        unsafe { handle::exclusive(function, raw) }
    }
}

// SAFETY: a handle or null, by invariant 1.
unsafe impl<T> FromC for Option<&T> {
    type Raw = *mut T;
    #[inline]
    unsafe fn from_c(function: &'static str, raw: *mut T) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(unsafe { handle::shared(function, raw) })
    }
}

// SAFETY: a handle or null, by invariant 1.
unsafe impl<T> FromC for Option<&mut T> {
    type Raw = *mut T;
    #[inline]
    unsafe fn from_c(function: &'static str, raw: *mut T) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(unsafe { handle::exclusive(function, raw) })
    }
}

/// A handle that the function takes over; null gives None.
pub type Taken<T> = Option<Box<T>>;

// SAFETY: a handle or null, by invariant 1, which the caller does not use again.
unsafe impl<T> FromC for Option<Box<T>> {
    type Raw = *mut T;
    unsafe fn from_c(function: &'static str, raw: *mut T) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(unsafe { handle::take(function, raw) })
    }
}

/// Where a result goes; null is allowed and takes nothing.
pub struct Out<'a, T>(Option<&'a mut T>);

impl<T> Out<'_, T> {
    /// Stores the value.
    #[inline]
    pub fn set(&mut self, value: T) {
        if let Some(place) = &mut self.0 {
            **place = value;
        }
    }
    /// There is a place.
    pub fn wanted(&self) -> bool {
        self.0.is_some()
    }
}

// SAFETY: a pointer that may be written, or null.
unsafe impl<T> FromC for Out<'_, T> {
    type Raw = *mut T;
    #[inline]
    unsafe fn from_c(_: &'static str, raw: *mut T) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(Out(unsafe { raw.as_mut() }))
    }
}

/// A text that ends with a zero byte.
#[derive(Clone, Copy)]
pub struct Text<'a>(&'a CStr);

impl Text<'_> {
    /// The text's bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.to_bytes()
    }
    /// As text; bytes that are none are replaced.
    pub fn text(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
    /// As a path.
    pub fn path(&self) -> PathBuf {
        pumice_binding::path(self.0.to_bytes())
    }
}

// SAFETY: a text by invariant 1.
unsafe impl FromC for Text<'_> {
    type Raw = *const c_char;
    unsafe fn from_c(_: &'static str, raw: *const c_char) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!raw.is_null()).then(|| Text(unsafe { CStr::from_ptr(raw) }))
    }
}

// SAFETY: a text by invariant 1, or null.
unsafe impl FromC for Option<Text<'_>> {
    type Raw = *const c_char;
    unsafe fn from_c(function: &'static str, raw: *const c_char) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(unsafe { Text::from_c(function, raw) })
    }
}

/// What a program wants back in its call-backs. Never followed here.
#[derive(Clone, Copy, Debug)]
pub struct State(pub *mut c_void);

// SAFETY: the pointer is only handed to the program's functions, which may be called from any
// thread (invariant 4).
unsafe impl Send for State {}
// SAFETY: as for Send.
unsafe impl Sync for State {}

// SAFETY: the pointer is not followed.
unsafe impl FromC for State {
    type Raw = *mut c_void;
    unsafe fn from_c(_: &'static str, raw: *mut c_void) -> Option<Self> {
        Some(State(raw))
    }
}

macro_rules! functions {
    ($($arg:ident)*) => {
        // SAFETY: a function or null, by invariant 1.
        unsafe impl<R $(, $arg)*> FromC for Option<unsafe extern "C" fn($($arg),*) -> R> {
            type Raw = Self;
            unsafe fn from_c(_: &'static str, raw: Self) -> Option<Self> {
                Some(raw)
            }
        }
    };
}
functions!(A);
functions!(A B);
functions!(A B C);
functions!(A B C D);
functions!(A B C D E);
functions!(A B C D E F);
functions!(A B C D E F G);
functions!(A B C D E F G H);
functions!(A B C D E F G H I);
functions!(A B C D E F G H I J);

/// Bytes by pointer and length; null stands for none.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
#[inline]
pub unsafe fn bytes<'a>(data: *const c_char, length: usize) -> Option<&'a [u8]> {
    if data.is_null() || length > isize::MAX.unsigned_abs() {
        return (length == 0 || data.is_null()).then_some(&[]);
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// Bytes to write to, by pointer and length.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn bytes_mut<'a>(data: *mut c_char, length: usize) -> Option<&'a mut [u8]> {
    if data.is_null() || length > isize::MAX.unsigned_abs() {
        return (length == 0).then_some(&mut []);
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts_mut(data.cast(), length) })
}

/// Bytes of the caller that are read later: RocksDB keeps the pointer, and programs may change the
/// bytes until they are used.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    data: *const c_char,
    length: usize,
}

// SAFETY: the bytes are only read; the caller keeps them as long as the object that has them.
unsafe impl Send for Kept {}
// SAFETY: as for Send.
unsafe impl Sync for Kept {}

impl Kept {
    /// The bytes at `data`; null stands for none.
    pub fn new(data: *const c_char, length: usize) -> Kept {
        Kept { data, length }
    }

    /// None of the program's bytes.
    pub const NOTHING: Kept = Kept { data: std::ptr::null(), length: 0 };

    /// There are none.
    #[inline]
    pub fn is_nothing(&self) -> bool {
        self.data.is_null()
    }

    /// A copy of the bytes as they are now; None for null.
    pub fn read(&self) -> Option<Vec<u8>> {
        if self.data.is_null() {
            return None;
        }
        // SAFETY: the caller of the function that got the pointer keeps the bytes (invariant 1).
        unsafe { bytes(self.data, self.length) }.map(<[u8]>::to_vec)
    }
}

/// A handle that RocksDB asks for and nothing here needs; it may be gone.
pub struct Unused<T>(std::marker::PhantomData<T>);

// SAFETY: the pointer is not followed.
unsafe impl<T> FromC for Unused<T> {
    type Raw = *mut T;
    unsafe fn from_c(_: &'static str, _: *mut T) -> Option<Self> {
        Some(Unused(std::marker::PhantomData))
    }
}

/// A block that the library gave out, or null.
pub struct Block(*mut c_void);

impl Block {
    /// Frees it.
    pub fn free(self) {
        handle::forget(self.0);
        // SAFETY: the block came from malloc (invariant 1 of ffi).
        unsafe { pumice_port::os::c_memory::free(self.0) };
    }
}

// SAFETY: the pointer is followed by `free` alone.
unsafe impl FromC for Block {
    type Raw = *mut c_void;
    unsafe fn from_c(_: &'static str, raw: *mut c_void) -> Option<Self> {
        Some(Block(raw))
    }
}
