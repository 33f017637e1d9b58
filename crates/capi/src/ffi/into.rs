//! Values as results of C functions.

use std::ffi::{c_char, c_int};

use pumice_binding::database::Database;
use pumice_port::os::c_memory;

use super::handle;

/// A value that a C function returns.
pub trait IntoC {
    /// What C gets.
    type Raw;
    /// The value for C.
    fn into_c(self) -> Self::Raw;
    /// What a function returns that failed.
    fn failed() -> Self::Raw;
}

macro_rules! as_it_is {
    ($($ty:ty = $failed:expr),+ $(,)?) => {$(
        impl IntoC for $ty {
            type Raw = $ty;
            fn into_c(self) -> $ty {
                self
            }
            fn failed() -> $ty {
                $failed
            }
        }
    )+};
}
as_it_is! { () = (), u8 = 0, c_int = 0, u32 = 0, i64 = 0, u64 = 0, usize = 0, f64 = 0.0 }
as_it_is! { Slice = Slice::EMPTY }

impl IntoC for bool {
    type Raw = u8;
    fn into_c(self) -> u8 {
        u8::from(self)
    }
    fn failed() -> u8 {
        0
    }
}

/// A new handle, which C destroys.
pub struct New<T>(pub T);

impl<T> IntoC for New<T> {
    type Raw = *mut T;
    fn into_c(self) -> *mut T {
        handle::give(self.0)
    }
    fn failed() -> *mut T {
        std::ptr::null_mut()
    }
}

/// A new handle of a database, which its listeners then know.
pub struct Opened(pub Database);

impl IntoC for Opened {
    type Raw = *mut Database;
    fn into_c(self) -> *mut Database {
        let slot = self.0.slot_handle();
        let database = handle::give(self.0);
        slot.set_address(database.expose_provenance());
        database
    }
    fn failed() -> *mut Database {
        std::ptr::null_mut()
    }
}

/// A result that may be null.
impl<R: IntoC> IntoC for Option<R> {
    type Raw = R::Raw;
    fn into_c(self) -> R::Raw {
        self.map_or_else(R::failed, IntoC::into_c)
    }
    fn failed() -> R::Raw {
        R::failed()
    }
}

/// A handle that is new, or one that was given.
pub enum Begun<T> {
    /// C destroys it.
    New(T),
    /// C has it already.
    Old(Part<T>),
}

impl<T> IntoC for Begun<T> {
    type Raw = *mut T;
    fn into_c(self) -> *mut T {
        match self {
            Begun::New(object) => handle::give(object),
            Begun::Old(object) => object.into_c(),
        }
    }
    fn failed() -> *mut T {
        std::ptr::null_mut()
    }
}

/// A handle that C frees like any block of memory: the bits of an object that another handle keeps
/// for as long. Nothing is dropped with the block.
pub struct Alias<T>(*mut T);

impl<T> Alias<T> {
    /// A copy of the bits of `object`.
    pub fn of(object: &T) -> Alias<T> {
        let bits = std::ptr::from_ref(object).cast::<u8>();
        // SAFETY: the object's own bytes; handles of this kind are pointers, which have no padding.
        let bits = unsafe { std::slice::from_raw_parts(bits, size_of::<T>()) };
        Alias(handle::lend(c_memory::copy(bits).cast()))
    }
}

impl<T> IntoC for Alias<T> {
    type Raw = *mut T;
    fn into_c(self) -> *mut T {
        self.0
    }
    fn failed() -> *mut T {
        std::ptr::null_mut()
    }
}

/// A handle that belongs to another one, which must stay.
pub struct Part<T>(*mut T);

impl<T> Part<T> {
    /// A pointer to `part`; null for None.
    pub fn of(part: Option<&T>) -> Part<T> {
        Part(part.map_or(std::ptr::null_mut(), |part| std::ptr::from_ref(part).cast_mut()))
    }
}

impl<T> IntoC for Part<T> {
    type Raw = *mut T;
    fn into_c(self) -> *mut T {
        handle::part(self.0)
    }
    fn failed() -> *mut T {
        std::ptr::null_mut()
    }
}

/// Bytes in a block that C frees, a zero byte behind them.
pub struct Copied(*mut c_char);

impl Copied {
    /// A copy of `bytes`.
    pub fn of(bytes: &[u8]) -> Copied {
        Copied(c_memory::copy(bytes))
    }
    /// A list of blocks, which is a block itself.
    pub fn list(texts: &[impl AsRef<[u8]>]) -> CopiedList {
        let texts: Vec<_> = texts.iter().map(|text| c_memory::copy(text.as_ref())).collect();
        CopiedList(c_memory::pointers(&texts))
    }
}

impl IntoC for Copied {
    type Raw = *mut c_char;
    fn into_c(self) -> *mut c_char {
        self.0
    }
    fn failed() -> *mut c_char {
        std::ptr::null_mut()
    }
}

/// A block with blocks, which C frees by a function of its own.
pub struct CopiedList(*mut *mut c_char);

impl IntoC for CopiedList {
    type Raw = *mut *mut c_char;
    fn into_c(self) -> *mut *mut c_char {
        self.0
    }
    fn failed() -> *mut *mut c_char {
        std::ptr::null_mut()
    }
}

/// A block with new handles, which C frees by a function of its own.
pub struct NewList<T>(pub Vec<T>);

impl<T> IntoC for NewList<T> {
    type Raw = *mut *mut T;
    fn into_c(self) -> *mut *mut T {
        let handles: Vec<*mut T> = self.0.into_iter().map(handle::give).collect();
        c_memory::pointers(&handles)
    }
    fn failed() -> *mut *mut T {
        std::ptr::null_mut()
    }
}

/// Bytes that belong to a handle, which must stay as it is.
pub struct Lent(*const c_char);

impl Lent {
    /// A pointer to `bytes`, never null.
    pub fn of(bytes: &[u8]) -> Lent {
        Lent(bytes.as_ptr().cast())
    }
    /// Null.
    pub fn nothing() -> Lent {
        Lent(std::ptr::null())
    }
}

impl IntoC for Lent {
    type Raw = *const c_char;
    fn into_c(self) -> *const c_char {
        self.0
    }
    fn failed() -> *const c_char {
        std::ptr::null()
    }
}

/// `rocksdb_slice_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The first byte.
    pub data: *const c_char,
    /// How many.
    pub size: usize,
}

impl Slice {
    /// No bytes.
    pub const EMPTY: Slice = Slice { data: std::ptr::null(), size: 0 };

    /// Bytes that belong to a handle.
    pub fn of(bytes: &[u8]) -> Slice {
        Slice { data: bytes.as_ptr().cast(), size: bytes.len() }
    }
}
