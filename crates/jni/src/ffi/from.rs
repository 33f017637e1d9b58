//! Arguments of native methods as values.
//!
//! A byte array or a direct buffer with offset and length, or with a length alone, is one argument.

use std::ops::Deref;

use jni_sys::jobject;
use pumice::Error;

use super::call::{Failure, Result};
use super::env::{Env, Object};
use super::handle::{self, Held};

/// A value from what the virtual machine passes.
pub trait FromJava<'a, Raw>: Sized {
    /// Reads it.
    ///
    /// # Safety
    /// Invariants 1, 2 and 4 of `ffi`.
    unsafe fn from_java(env: Env<'a>, raw: Raw) -> Result<Self>;
}

/// See [`FromJava`].
///
/// # Safety
/// Invariants 1, 2 and 4 of `ffi`.
#[inline]
pub unsafe fn from<'a, Raw, T: FromJava<'a, Raw>>(env: Env<'a>, raw: Raw) -> Result<T> {
    // SAFETY: the caller's promise.
    unsafe { T::from_java(env, raw) }
}

macro_rules! plain {
    ($($raw:ty => $kind:ty: $name:ident $make:expr;)+) => {$(
        impl<'a> FromJava<'a, $raw> for $kind {
            #[inline]
            unsafe fn from_java(_env: Env<'a>, $name: $raw) -> Result<Self> {
                Ok($make)
            }
        }
    )+};
}
plain! {
    i64 => i64: value value;
    i64 => u64: value value.cast_unsigned();
    i32 => i32: value value;
    i8 => i8: value value;
    i16 => i16: value value;
    u16 => u16: value value;
    f64 => f64: value value;
    bool => bool: value value;
}

impl<'a> FromJava<'a, i64> for usize {
    unsafe fn from_java(_env: Env<'a>, value: i64) -> Result<usize> {
        usize::try_from(value).map_err(|_| Failure::illegal(format!("{value} is negative")))
    }
}

impl<'a, T: Held> FromJava<'a, i64> for &'a T {
    #[inline]
    unsafe fn from_java(_env: Env<'a>, raw: i64) -> Result<&'a T> {
        // SAFETY: the caller's promise.
        unsafe { handle::shared(raw) }
    }
}

impl<'a, T: Held> FromJava<'a, i64> for &'a mut T {
    #[inline]
    unsafe fn from_java(_env: Env<'a>, raw: i64) -> Result<&'a mut T> {
        // SAFETY: the caller's promise.
        unsafe { handle::exclusive(raw) }
    }
}

impl<'a, T: Held> FromJava<'a, i64> for Option<&'a T> {
    #[inline]
    unsafe fn from_java(_env: Env<'a>, raw: i64) -> Result<Option<&'a T>> {
        // SAFETY: the caller's promise.
        if raw == 0 { Ok(None) } else { unsafe { handle::shared(raw) }.map(Some) }
    }
}

/// A handle whose kind the method finds out.
#[derive(Clone, Copy, Debug)]
pub struct Handle(i64);

impl Handle {
    /// The object, if it is of that kind.
    ///
    /// # Errors
    /// It is of another kind, or was ended.
    pub fn get<'a, T: Held>(self, _env: Env<'a>) -> Result<&'a T> {
        // SAFETY: invariant 2 of ffi: the handle was passed to this call.
        unsafe { handle::shared(self.0) }
    }

    /// Ends the object.
    ///
    /// # Errors
    /// It is of another kind, or was ended.
    pub fn end<T: Held>(self) -> Result<()> {
        handle::take::<T>(self.0).map(drop)
    }
}

impl<'a> FromJava<'a, i64> for Handle {
    unsafe fn from_java(_env: Env<'a>, raw: i64) -> Result<Handle> {
        Ok(Handle(raw))
    }
}

/// An object that Java ends.
#[derive(Debug)]
pub struct Taken<T>(pub Box<T>);

impl<'a, T: Held> FromJava<'a, i64> for Taken<T> {
    unsafe fn from_java(_env: Env<'a>, raw: i64) -> Result<Taken<T>> {
        handle::take(raw).map(Taken)
    }
}

impl<'a> FromJava<'a, jobject> for Object<'a> {
    unsafe fn from_java(_env: Env<'a>, raw: jobject) -> Result<Object<'a>> {
        // SAFETY: the caller's promise.
        Ok(unsafe { Object::from_raw(raw) })
    }
}

impl<'a> FromJava<'a, jobject> for String {
    unsafe fn from_java(env: Env<'a>, raw: jobject) -> Result<String> {
        // SAFETY: the caller's promise.
        env.text(unsafe { Object::from_raw(raw) })
    }
}

/// Elements of an array of objects.
fn elements<'a, T>(
    env: Env<'a>,
    array: Object<'a>,
    read: impl Fn(Object<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = env.length(env.present(array)?);
    let mut values = Vec::with_capacity(count);
    for at in 0..count {
        let element = env.element(array, at)?;
        values.push(read(element)?);
        env.forget(element);
    }
    Ok(values)
}

/// The bytes of a whole array.
///
/// # Errors
/// It is null.
pub fn whole(env: Env<'_>, array: Object<'_>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; env.length(env.present(array)?)];
    env.read_bytes(array, 0, &mut bytes)?;
    Ok(bytes)
}

macro_rules! lists {
    ($($kind:ty: $env:ident $array:ident $make:expr;)+) => {$(
        impl<'a> FromJava<'a, jobject> for $kind {
            unsafe fn from_java($env: Env<'a>, raw: jobject) -> Result<Self> {
                // SAFETY: the caller's promise.
                let $array: Object<'a> = unsafe { Object::from_raw(raw) };
                $make
            }
        }
    )+};
}
lists! {
    Vec<u8>: env array whole(env, array);
    Option<Vec<u8>>: env array
        if array.is_null() { Ok(None) } else { whole(env, array).map(Some) };
    Vec<i64>: env array env.longs(array);
    Vec<i32>: env array env.ints(array);
    Vec<String>: env array elements(env, array, |text| env.text(text));
    Vec<Vec<u8>>: env array elements(env, array, |bytes| whole(env, bytes));
    Vec<Option<Vec<u8>>>: env array elements(env, array, |bytes| {
        if bytes.is_null() { Ok(None) } else { whole(env, bytes).map(Some) }
    });
    Vec<Object<'a>>: env array {
        let count = env.length(env.present(array)?);
        (0..count).map(|at| env.element(array, at)).collect()
    };
}

const INLINE: usize = 128;

/// A part of a byte array, copied.
#[derive(Debug)]
pub struct Bytes {
    short: [u8; INLINE],
    long: Vec<u8>,
    length: usize,
}

impl Deref for Bytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.short.get(..self.length).unwrap_or(&self.long)
    }
}

impl Bytes {
    fn read(env: Env<'_>, array: Object<'_>, at: i32, length: i32) -> Result<Bytes> {
        env.present(array)?;
        let outside = || {
            let text = format!("offset {at}, length {length}");
            Failure::java("java/lang/ArrayIndexOutOfBoundsException", text)
        };
        let length = usize::try_from(length).map_err(|_| outside())?;
        let mut bytes = Bytes { short: [0; INLINE], long: Vec::new(), length };
        if let Some(short) = bytes.short.get_mut(..length) {
            env.read_bytes(array, at, short)?;
            return Ok(bytes);
        }
        if length > env.length(array) {
            return Err(outside());
        }
        bytes.long = vec![0; length];
        env.read_bytes(array, at, &mut bytes.long)?;
        Ok(bytes)
    }
}

impl<'a> FromJava<'a, (jobject, i32, i32)> for Bytes {
    unsafe fn from_java(env: Env<'a>, raw: (jobject, i32, i32)) -> Result<Bytes> {
        // SAFETY: the caller's promise.
        Bytes::read(env, unsafe { Object::from_raw(raw.0) }, raw.1, raw.2)
    }
}

impl<'a> FromJava<'a, (jobject, i32)> for Bytes {
    unsafe fn from_java(env: Env<'a>, raw: (jobject, i32)) -> Result<Bytes> {
        // SAFETY: the caller's promise.
        Bytes::read(env, unsafe { Object::from_raw(raw.0) }, 0, raw.1)
    }
}

impl<'a> FromJava<'a, (jobject, i32)> for Option<Bytes> {
    unsafe fn from_java(env: Env<'a>, raw: (jobject, i32)) -> Result<Option<Bytes>> {
        if raw.0.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        Bytes::read(env, unsafe { Object::from_raw(raw.0) }, 0, raw.1).map(Some)
    }
}

/// The bytes of an array behind an offset.
#[derive(Debug)]
pub struct Rest(pub Vec<u8>);

impl<'a> FromJava<'a, (jobject, i32)> for Rest {
    unsafe fn from_java(env: Env<'a>, raw: (jobject, i32)) -> Result<Rest> {
        // SAFETY: the caller's promise.
        let array = env.present(unsafe { Object::from_raw(raw.0) })?;
        let length = usize::try_from(raw.1).ok().and_then(|at| env.length(array).checked_sub(at));
        let Some(length) = length else {
            let text = format!("offset {}", raw.1);
            return Err(Failure::java("java/lang/ArrayIndexOutOfBoundsException", text));
        };
        let mut bytes = vec![0; length];
        env.read_bytes(array, raw.1, &mut bytes)?;
        Ok(Rest(bytes))
    }
}

/// A part of a byte array that takes a value.
#[derive(Debug)]
pub struct Place<'a> {
    array: Object<'a>,
    at: i32,
    length: i32,
}

impl<'a> FromJava<'a, (jobject, i32, i32)> for Place<'a> {
    unsafe fn from_java(env: Env<'a>, raw: (jobject, i32, i32)) -> Result<Place<'a>> {
        // SAFETY: the caller's promise.
        let array = env.present(unsafe { Object::from_raw(raw.0) })?;
        Ok(Place { array, at: raw.1, length: raw.2 })
    }
}

impl Place<'_> {
    /// Copies as much of `value` as there is room for; its whole length.
    ///
    /// # Errors
    /// The part is not in the array.
    pub fn fill(&self, env: Env<'_>, value: &[u8]) -> Result<i32> {
        let room = usize::try_from(self.length).unwrap_or(0).min(value.len());
        env.write_bytes(self.array, self.at, &value[..room])?;
        super::env::size(value.len())
    }
}

/// A part of a direct buffer, to read.
#[derive(Clone, Copy, Debug)]
pub struct Direct<'a>(pub &'a [u8]);

/// A part of a direct buffer, to write.
#[derive(Debug)]
pub struct DirectMut<'a>(pub &'a mut [u8]);

fn part(
    env: Env<'_>,
    (buffer, at, length): (Object<'_>, i32, i32),
    what: &str,
) -> Result<(*mut u8, usize)> {
    let found = if buffer.is_null() { None } else { env.direct(buffer) };
    let Some((address, capacity)) = found else {
        return Err(Failure::Text(format!(
            "Invalid {what} argument (argument is not a valid direct ByteBuffer)"
        )));
    };
    let wrong = || {
        let text = "Capacity is less than requested region (offset + length).";
        Failure::Text(format!("Invalid {what} argument. {text}"))
    };
    let at = usize::try_from(at).map_err(|_| wrong())?;
    let length = usize::try_from(length).map_err(|_| wrong())?;
    if at.checked_add(length).is_none_or(|end| end > capacity) {
        return Err(wrong());
    }
    Ok((address.wrapping_add(at), length))
}

impl<'a> FromJava<'a, (jobject, i32, i32)> for Direct<'a> {
    unsafe fn from_java(env: Env<'a>, raw: (jobject, i32, i32)) -> Result<Direct<'a>> {
        // SAFETY: the caller's promise.
        let buffer = unsafe { Object::from_raw(raw.0) };
        let (address, length) = part(env, (buffer, raw.1, raw.2), "key")?;
        // SAFETY: invariant 4 of ffi; the part is within the capacity.
        Ok(Direct(unsafe { std::slice::from_raw_parts(address, length) }))
    }
}

impl<'a> FromJava<'a, (jobject, i32)> for Direct<'a> {
    unsafe fn from_java(env: Env<'a>, raw: (jobject, i32)) -> Result<Direct<'a>> {
        // SAFETY: the caller's promise.
        unsafe { Direct::from_java(env, (raw.0, 0, raw.1)) }
    }
}

/// All of it.
impl<'a> FromJava<'a, jobject> for Direct<'a> {
    unsafe fn from_java(env: Env<'a>, raw: jobject) -> Result<Direct<'a>> {
        // SAFETY: the caller's promise.
        let buffer = unsafe { Object::from_raw(raw) };
        let found = if buffer.is_null() { None } else { env.direct(buffer) };
        let capacity = found.map_or(0, |(_, capacity)| capacity);
        // SAFETY: the caller's promise.
        unsafe { Direct::from_java(env, (raw, 0, super::env::size(capacity)?)) }
    }
}

impl<'a> FromJava<'a, (jobject, i32, i32)> for DirectMut<'a> {
    unsafe fn from_java(env: Env<'a>, raw: (jobject, i32, i32)) -> Result<DirectMut<'a>> {
        // SAFETY: the caller's promise.
        let buffer = unsafe { Object::from_raw(raw.0) };
        let (address, length) = part(env, (buffer, raw.1, raw.2), "value")?;
        // SAFETY: invariant 4 of ffi; the part is within the capacity.
        Ok(DirectMut(unsafe { std::slice::from_raw_parts_mut(address, length) }))
    }
}

/// The parts of direct buffers in an array, with their offsets and lengths.
///
/// # Errors
/// One is no direct buffer, or too small.
pub fn directs<'a>(
    env: Env<'a>,
    buffers: &[Object<'a>],
    places: &[(i32, i32)],
) -> Result<Vec<DirectMut<'a>>> {
    if buffers.len() != places.len() {
        return Err(Failure::Status(Error::invalid_argument("lengths of arguments differ")));
    }
    let read = |(buffer, (at, length)): (&Object<'a>, &(i32, i32))| {
        let (address, length) = part(env, (*buffer, *at, *length), "buffer")?;
        // SAFETY: invariant 4 of ffi; the part is within the capacity.
        Ok(DirectMut(unsafe { std::slice::from_raw_parts_mut(address, length) }))
    };
    buffers.iter().zip(places).map(read).collect()
}

impl DirectMut<'_> {
    /// Copies as much of `value` as there is room for; its whole length.
    ///
    /// # Errors
    /// It is longer than Java counts.
    pub fn fill(&mut self, value: &[u8]) -> Result<i32> {
        let room = self.0.len().min(value.len());
        self.0[..room].copy_from_slice(&value[..room]);
        super::env::size(value.len())
    }
}

/// The objects of handles in an array.
#[derive(Debug)]
pub struct List<'a, T>(pub Vec<&'a T>);

impl<'a, T: Held> FromJava<'a, jobject> for List<'a, T> {
    unsafe fn from_java(env: Env<'a>, raw: jobject) -> Result<List<'a, T>> {
        // SAFETY: the caller's promise.
        let numbers = env.longs(unsafe { Object::from_raw(raw) })?;
        // SAFETY: as above.
        let found = numbers.iter().map(|number| unsafe { handle::shared(*number) });
        Ok(List(found.collect::<Result<_>>()?))
    }
}

impl<'a, T: Held> FromJava<'a, jobject> for Option<List<'a, T>> {
    unsafe fn from_java(env: Env<'a>, raw: jobject) -> Result<Option<List<'a, T>>> {
        if raw.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { List::from_java(env, raw) }.map(Some)
    }
}
