//! What the generated accessors of properties do: read or set a number or a text by its place.
//!
//! An object is one that has a store (`Fields`); the place is that of the property in its class.

use jni_sys::JNIEnv;
use pumice_binding::store::Fields;

use super::call::{Failure, Result, enter};
use super::handle::{self, Held};
use crate::objects::Values;

/// Java's number for compression types that stand for "as the others".
const DISABLED: u64 = 255;

fn object<'a, T: Held + Fields>(handle: i64, class: &str) -> Result<&'a mut T> {
    // SAFETY: invariant 2 of ffi.
    let object = unsafe { handle::exclusive::<T>(handle) }?;
    if object.store().class().name != class {
        return Err(is_another(object.store().class().name, class));
    }
    Ok(object)
}

#[cold]
#[inline(never)]
fn is_another(found: &str, class: &str) -> Failure {
    let text = format!("the handle is a {found}, not a {class}");
    Failure::Status(pumice::Error::invalid_argument(text))
}

/// The native method `method`: the bits of the number at `place`. 0 where it throws, as the handle
/// is none of that kind.
///
/// # Safety
/// Invariant 1 of `ffi`.
#[inline(never)] // As all here: hundreds of functions call it, and none is called often.
pub unsafe fn get<T: Held + Fields>(
    raw: *mut JNIEnv,
    method: &str,
    handle: i64,
    (class, place): (&str, usize),
) -> u64 {
    let number = || Ok(object::<T>(handle, class)?.store().number(place));
    // SAFETY: the caller's promise.
    unsafe { enter::<u64>(raw, method, |_| number()) }
}

/// The native method `method`: sets the number at `place`.
///
/// # Safety
/// Invariant 1 of `ffi`.
#[inline(never)]
pub unsafe fn set<T: Held + Fields>(
    raw: *mut JNIEnv,
    method: &str,
    handle: i64,
    (class, place): (&str, usize),
    bits: u64,
) {
    let set = || {
        let object = object::<T>(handle, class)?;
        object.store_mut().set_number(place, bits);
        object.changed();
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { enter::<()>(raw, method, |_| set()) }
}

/// The text at `place`.
///
/// # Errors
/// The handle is none of that kind.
#[inline(never)]
pub fn get_text<T: Held + Fields>(handle: i64, class: &str, place: usize) -> Result<String> {
    let text = object::<T>(handle, class)?.store().text_with_zero(place);
    let text = text.split_last().map_or(&[][..], |(_, text)| text);
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Sets the text at `place`.
///
/// # Errors
/// As [`get_text`].
#[inline(never)]
pub fn set_text<T: Held + Fields>(handle: i64, class: &str, name: &str, text: &str) -> Result<()> {
    let object = object::<T>(handle, class)?;
    object.store_mut().put_text(name, text);
    object.changed();
    Ok(())
}

/// A compression type of Java's as RocksDB's number.
pub fn compression(byte: i8) -> u64 {
    if byte == 0x7f { DISABLED } else { i64::from(byte).cast_unsigned() }
}

/// The reverse.
pub fn compression_byte(bits: u64) -> i8 {
    if bits == DISABLED { 0x7f } else { bits as i8 }
}

/// A new object of values.
pub fn create(class: &str) -> i64 {
    handle::give(Values(pumice_binding::store::Store::named(class)))
}

/// Ends an object.
///
/// # Errors
/// As [`get_text`].
#[inline(never)]
pub fn end<T: Held>(handle: i64) -> Result<()> {
    drop(handle::take::<T>(handle)?);
    Ok(())
}
