//! Several arguments of C as one value: lists of keys, names, handles, and places for results.

use std::ffi::{CStr, c_char, c_int};

use pumice::{PinnedSlice, Result};
use pumice_binding::status;
use pumice_port::os::c_memory;

use super::from::{FromC, bytes};
use super::handle;
use super::into::{IntoC, Slice};
use super::spare::Held;
use crate::ffi::types::{Family, Pinned, rocksdb_options_t};

/// A list of C: a pointer to `count` elements; null is an empty one if `count` is 0.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
unsafe fn list<'a, T>(data: *const T, count: usize) -> Option<&'a [T]> {
    if count == 0 {
        return Some(&[]);
    }
    if data.is_null() || count.checked_mul(size_of::<T>())? > isize::MAX.unsigned_abs() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(data, count) })
}

/// The same, to write to.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
unsafe fn places<'a, T>(data: *mut T, count: usize) -> Option<&'a mut [T]> {
    if count == 0 {
        return Some(&mut []);
    }
    if data.is_null() || count.checked_mul(size_of::<T>())? > isize::MAX.unsigned_abs() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts_mut(data, count) })
}

/// Keys.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn keys<'a>(
    count: usize,
    pointers: *const *const c_char,
    lengths: *const usize,
) -> Option<Vec<&'a [u8]>> {
    // SAFETY: the caller's promise.
    unsafe {
        let (pointers, lengths) = (list(pointers, count)?, list(lengths, count)?);
        pointers.iter().zip(lengths).map(|(&data, &length)| bytes(data, length)).collect()
    }
}

/// Keys in slices.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn slices<'a>(count: usize, slices: *const Slice) -> Option<Vec<&'a [u8]>> {
    // SAFETY: the caller's promise.
    unsafe { list(slices, count)?.iter().map(|slice| bytes(slice.data, slice.size)).collect() }
}

/// Ranges of keys; a null end gives an empty key.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn ranges<'a>(
    count: c_int,
    starts: *const *const c_char,
    start_lengths: *const usize,
    ends: *const *const c_char,
    end_lengths: *const usize,
) -> Option<Vec<(&'a [u8], &'a [u8])>> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's promise.
    let (starts, ends) =
        unsafe { (keys(count, starts, start_lengths)?, keys(count, ends, end_lengths)?) };
    Some(starts.into_iter().zip(ends).collect())
}

/// Texts that end with a zero byte.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn texts(count: usize, pointers: *const *const c_char) -> Option<Vec<String>> {
    // SAFETY: the caller's promise.
    let pointers = unsafe { list(pointers, count)? };
    let text = |&pointer: &*const c_char| {
        // SAFETY: the caller's promise.
        let text = (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) });
        text.map(|text| text.to_string_lossy().into_owned())
    };
    pointers.iter().map(text).collect()
}

/// Names and values.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn settings(
    count: c_int,
    names: *const *const c_char,
    values: *const *const c_char,
) -> Option<Vec<(String, String)>> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's promise.
    let (names, values) = unsafe { (texts(count, names)?, texts(count, values)?) };
    Some(names.into_iter().zip(values).collect())
}

/// Numbers.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn numbers<'a>(data: *const c_int, count: usize) -> Option<&'a [c_int]> {
    // SAFETY: the caller's promise.
    unsafe { list(data, count) }
}

/// Handles.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn handles<'a, T>(
    function: &str,
    pointers: *mut *mut T,
    count: usize,
) -> Option<Vec<&'a T>> {
    // SAFETY: the caller's promise.
    unsafe {
        let pointers = list(pointers.cast_const(), count)?;
        pointers.iter().map(|&pointer| handle::shared(function, pointer)).collect()
    }
}

/// The column families of an open.
pub struct Families<'a> {
    /// The families' names.
    pub names: Vec<String>,
    /// The families' options.
    pub options: Vec<&'a rocksdb_options_t>,
    places: &'a mut [*mut Family],
}

impl Families<'_> {
    /// Gives out the handles.
    pub fn fill(self, families: Vec<Family>) {
        for (place, family) in self.places.iter_mut().zip(families) {
            *place = handle::give(family);
        }
    }
}

/// The column families of an open.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn families<'a>(
    function: &str,
    count: c_int,
    names: *const *const c_char,
    options: *mut *mut rocksdb_options_t,
    places_at: *mut *mut Family,
) -> Option<Families<'a>> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's promise.
    unsafe {
        let places = places(places_at, count)?;
        places.fill(std::ptr::null_mut());
        let (names, options) = (texts(count, names)?, handles(function, options, count)?);
        Some(Families { names, options, places })
    }
}

/// A read of many keys, whose values C frees.
pub struct MultiGet<'a> {
    /// The keys.
    pub keys: Vec<&'a [u8]>,
    /// A column family for each, if they were given.
    pub families: Vec<&'a Family>,
    values: &'a mut [*mut c_char],
    lengths: &'a mut [usize],
    errors: &'a mut [*mut c_char],
}

impl MultiGet<'_> {
    /// Stores the results, in the order of the keys.
    pub fn fill(self, results: Vec<Result<Option<PinnedSlice>>>) {
        for (at, result) in results.into_iter().enumerate() {
            let (mut value, mut length, mut error) = (std::ptr::null_mut(), 0, value_none());
            match result {
                Ok(Some(found)) => (value, length) = (c_memory::copy(&found), found.len()),
                Ok(None) => {}
                Err(e) => error = c_memory::copy(status::text(&e).as_bytes()),
            }
            // The three lists have as many places as there are keys.
            self.values[at] = value;
            self.lengths[at] = length;
            self.errors[at] = error;
        }
    }
}

fn value_none() -> *mut c_char {
    std::ptr::null_mut()
}

/// A read of many keys.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn multi_get<'a>(
    function: &str,
    families: *mut *mut Family,
    (count, pointers, key_lengths): (usize, *const *const c_char, *const usize),
    (values, lengths, errors): (*mut *mut c_char, *mut usize, *mut *mut c_char),
) -> Option<MultiGet<'a>> {
    // SAFETY: the caller's promise.
    unsafe {
        Some(MultiGet {
            keys: keys(count, pointers, key_lengths)?,
            families: match families.is_null() {
                true => Vec::new(),
                false => handles(function, families, count)?,
            },
            values: places(values, count)?,
            lengths: places(lengths, count)?,
            errors: places(errors, count)?,
        })
    }
}

/// The value of a key with its timestamp.
pub type TimedResult = Result<Option<pumice::TimedValue>>;

/// A read of many keys that also tells what is newer than the snapshot.
pub struct MetadataGet<'a> {
    /// The read.
    pub read: MultiGet<'a>,
    timestamps: Option<(&'a mut [*mut c_char], &'a mut [usize])>,
    newer: Option<&'a mut [u8]>,
}

impl MetadataGet<'_> {
    /// Stores the results, in the order of the keys. `newer` is asked only where it is wanted.
    pub fn fill(self, results: Vec<TimedResult>, newer: impl Fn(usize) -> Result<bool>) {
        let newer = |at| self.newer.is_some() && newer(at).unwrap_or(false);
        let found: Vec<bool> = (0..results.len()).map(newer).collect();
        if let Some(places) = self.newer {
            places.iter_mut().zip(found).for_each(|(place, newer)| *place = u8::from(newer));
        }
        if let Some((values, lengths)) = self.timestamps {
            lengths.fill(0);
            for ((value, length), result) in values.iter_mut().zip(lengths).zip(&results) {
                *value = match result {
                    Ok(Some((_, timestamp))) => {
                        *length = timestamp.len();
                        c_memory::copy(timestamp)
                    }
                    _ => value_none(),
                };
            }
        }
        let value = |found: Option<pumice::TimedValue>| found.map(|(value, _)| value);
        self.read.fill(results.into_iter().map(|result| result.map(value)).collect());
    }
}

/// A read of many keys, with places that may be null for timestamps and what is newer.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn metadata_get<'a>(
    read: Option<MultiGet<'a>>,
    (timestamps, lengths): (*mut *mut c_char, *mut usize),
    newer: *mut u8,
) -> Option<MetadataGet<'a>> {
    let read = read?;
    let count = read.keys.len();
    let wanted = !timestamps.is_null() && !lengths.is_null();
    // SAFETY: the caller's promise.
    unsafe {
        Some(MetadataGet {
            timestamps: match wanted {
                true => Some((places(timestamps, count)?, places(lengths, count)?)),
                false => None,
            },
            newer: if newer.is_null() { None } else { Some(places(newer, count)?) },
            read,
        })
    }
}

/// A read of many keys, whose values are handles.
pub struct PinnedGet<'a> {
    /// The keys.
    pub keys: Vec<&'a [u8]>,
    values: &'a mut [*mut Pinned],
    errors: &'a mut [*mut c_char],
}

impl PinnedGet<'_> {
    /// Stores the results, in the order of the keys.
    pub fn fill(self, results: Vec<Result<Option<PinnedSlice>>>) {
        for (at, result) in results.into_iter().enumerate() {
            let (mut value, mut error) = (std::ptr::null_mut(), value_none());
            match result {
                Ok(Some(found)) => value = Held::<Pinned>::new(found).into_c(),
                Ok(None) => {}
                Err(e) => error = c_memory::copy(status::text(&e).as_bytes()),
            }
            self.values[at] = value;
            self.errors[at] = error;
        }
    }
}

/// A read of many keys.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn pinned_get<'a>(
    keys: Option<Vec<&'a [u8]>>,
    values: *mut *mut Pinned,
    errors: *mut *mut c_char,
) -> Option<PinnedGet<'a>> {
    let keys = keys?;
    // SAFETY: the caller's promise.
    let (values, errors) = unsafe { (places(values, keys.len())?, places(errors, keys.len())?) };
    Some(PinnedGet { keys, values, errors })
}

/// Numbers, one for each column family of an open.
pub struct FamilyTimes(*const c_int);

impl FamilyTimes {
    /// The first `count` numbers; None for null.
    pub fn read(&self, count: usize) -> Option<Vec<c_int>> {
        // SAFETY: by the header there is one for each column family (invariant 1 of ffi).
        unsafe { list(self.0, count) }.map(<[c_int]>::to_vec)
    }
}

// SAFETY: the pointer is followed by `read` alone.
unsafe impl FromC for FamilyTimes {
    type Raw = *const c_int;
    unsafe fn from_c(_: &'static str, raw: *const c_int) -> Option<Self> {
        Some(FamilyTimes(raw))
    }
}

/// A list of texts that the library gave out.
pub struct CopiedTexts(*mut *mut c_char);

impl CopiedTexts {
    /// Frees the texts and the list.
    pub fn free(self, count: usize) {
        // SAFETY: the list came from `Copied::list` with as many texts (invariant 1 of ffi).
        unsafe {
            for &text in list(self.0.cast_const(), count).unwrap_or_default() {
                c_memory::free(text.cast());
            }
            c_memory::free(self.0.cast());
        }
    }
}

// SAFETY: the pointer is followed by `free` alone.
unsafe impl FromC for CopiedTexts {
    type Raw = *mut *mut c_char;
    unsafe fn from_c(_: &'static str, raw: *mut *mut c_char) -> Option<Self> {
        Some(CopiedTexts(raw))
    }
}

/// A list of handles that the library gave out.
pub struct HandleList<T>(*mut *mut T);

impl<T> HandleList<T> {
    /// Destroys the objects and the list.
    pub fn destroy(self, function: &'static str, count: usize) {
        // SAFETY: the list came from the library with as many handles (invariant 1 of ffi).
        unsafe {
            for &object in list(self.0.cast_const(), count).unwrap_or_default() {
                handle::destroy(function, object);
            }
            c_memory::free(self.0.cast());
        }
    }
    /// Frees the list; the objects stay.
    pub fn free(self) {
        // SAFETY: the list came from the library (invariant 1 of ffi).
        unsafe { c_memory::free(self.0.cast()) };
    }
}

// SAFETY: the pointer is followed by the methods alone.
unsafe impl<T> FromC for HandleList<T> {
    type Raw = *mut *mut T;
    unsafe fn from_c(_: &'static str, raw: *mut *mut T) -> Option<Self> {
        Some(HandleList(raw))
    }
}

/// Handles for which others are made: pointers, places, count.
pub struct NewHandles<'a, F, T> {
    /// The handles that exist.
    pub from: Vec<&'a F>,
    places: &'a mut [*mut T],
}

impl<F, T> NewHandles<'_, F, T> {
    /// Gives out the new ones.
    pub fn fill(self, made: Vec<T>) {
        for (place, object) in self.places.iter_mut().zip(made) {
            *place = handle::give(object);
        }
    }
}

/// Handles for which others are made.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn new_handles<'a, F, T>(
    function: &str,
    from: *mut *mut F,
    places_at: *mut *mut T,
    count: usize,
) -> Option<NewHandles<'a, F, T>> {
    // SAFETY: the caller's promise.
    unsafe {
        let places = places(places_at, count)?;
        places.fill(std::ptr::null_mut());
        Some(NewHandles { from: handles(function, from, count)?, places })
    }
}

/// Ranges whose sizes are asked for.
pub struct SizesOut<'a> {
    /// The ranges; one with a null end is empty.
    pub ranges: Vec<(&'a [u8], &'a [u8])>,
    places: &'a mut [u64],
}

impl SizesOut<'_> {
    /// Stores the sizes, in the order of the ranges.
    pub fn fill(self, sizes: &[u64]) {
        for (place, size) in self.places.iter_mut().zip(sizes) {
            *place = *size;
        }
    }
}

/// Ranges whose sizes are asked for.
///
/// # Safety
/// Invariants 1 and 3 of `ffi`.
pub unsafe fn sizes_out<'a>(
    ranges: Option<Vec<(&'a [u8], &'a [u8])>>,
    sizes: *mut u64,
) -> Option<SizesOut<'a>> {
    let ranges = ranges?;
    // SAFETY: the caller's promise.
    let places = unsafe { places(sizes, ranges.len())? };
    Some(SizesOut { ranges, places })
}
