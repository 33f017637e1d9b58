//! Slices: bytes of their own, which Java reads as an array or as a direct buffer.
//!
//! RocksDB's direct slices are a pointer into the buffer they were made of; these are copies, so
//! that a buffer that Java frees is no danger.

use crate::ffi::call::{Failure, Result};
use crate::ffi::env::{Env, Object, size};
use crate::ffi::from::{Direct, Rest, Taken};
use crate::ffi::into::New;
use crate::objects::Slice;

/// Java: Slice.createNewSlice0
pub fn new(_env: Env<'_>, rest: Rest) -> Result<New<Slice>> {
    Ok(New(Slice::new(rest.0)))
}

/// Java: Slice.createNewSlice1
pub fn new_whole(_env: Env<'_>, array: Vec<u8>) -> Result<New<Slice>> {
    Ok(New(Slice::new(array)))
}

/// Java: AbstractSlice.createNewSliceFromString
pub fn new_text(_env: Env<'_>, text: String) -> Result<New<Slice>> {
    Ok(New(Slice::new(text.into_bytes())))
}

/// Java: DirectSlice.createNewDirectSlice0
pub fn new_direct(_env: Env<'_>, buffer: Direct<'_>) -> Result<New<Slice>> {
    Ok(New(Slice::new(buffer.0.to_vec())))
}

/// Java: DirectSlice.createNewDirectSlice1
pub fn new_direct_text(_env: Env<'_>, buffer: Direct<'_>) -> Result<New<Slice>> {
    // As in RocksDB a text that ends at a zero, but not behind the buffer.
    let text = buffer.0.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(New(Slice::new(text.to_vec())))
}

/// Java: AbstractSlice.size0
pub fn length(_env: Env<'_>, slice: &Slice) -> Result<i32> {
    size(slice.bytes().len())
}

/// Java: AbstractSlice.empty0
pub fn empty(_env: Env<'_>, slice: &Slice) -> Result<bool> {
    Ok(slice.bytes().is_empty())
}

/// Java: AbstractSlice.toString0
pub fn text(_env: Env<'_>, slice: &Slice, hex: bool) -> Result<String> {
    Ok(match hex {
        true => slice.bytes().iter().map(|byte| format!("{byte:02X}")).collect(),
        false => String::from_utf8_lossy(slice.bytes()).into_owned(),
    })
}

/// Java: AbstractSlice.compare0
pub fn compare(_env: Env<'_>, slice: &Slice, other: &Slice) -> Result<i32> {
    Ok(slice.bytes().cmp(other.bytes()) as i32)
}

/// Java: AbstractSlice.startsWith0
pub fn starts_with(_env: Env<'_>, slice: &Slice, prefix: &Slice) -> Result<bool> {
    Ok(slice.bytes().starts_with(prefix.bytes()))
}

/// Java: Slice.data0
pub fn data<'a>(_env: Env<'_>, slice: &'a Slice) -> Result<&'a [u8]> {
    Ok(slice.bytes())
}

/// Java: DirectSlice.data0
pub fn data_direct<'a>(env: Env<'a>, slice: &Slice) -> Result<Object<'a>> {
    // The slice's own memory: it is good until the slice is closed.
    let bytes = slice.bytes();
    env.new_direct(bytes.as_ptr().cast_mut(), bytes.len())
}

/// Java: DirectSlice.get0
pub fn byte(_env: Env<'_>, slice: &Slice, at: i32) -> Result<i8> {
    let found = usize::try_from(at).ok().and_then(|at| slice.bytes().get(at));
    let outside = || Failure::java("java/lang/IndexOutOfBoundsException", format!("offset {at}"));
    found.map(|byte| byte.cast_signed()).ok_or_else(outside)
}

/// Java: Slice|DirectSlice.clear0 0
pub fn clear(_env: Env<'_>, slice: &mut Slice) -> Result<()> {
    slice.shorten(0);
    Ok(())
}

/// Java: Slice|DirectSlice.removePrefix0
pub fn remove_prefix(_env: Env<'_>, slice: &mut Slice, length: i32) -> Result<()> {
    slice.remove_prefix(usize::try_from(length).unwrap_or(0));
    Ok(())
}

/// Java: DirectSlice.setLength0
pub fn set_length(_env: Env<'_>, slice: &mut Slice, length: i32) -> Result<()> {
    slice.shorten(usize::try_from(length).unwrap_or(0));
    Ok(())
}

/// Java: Slice|DirectSlice.disposeInternalBuf
pub fn end_buffer(_env: Env<'_>, _slice: i64, _offset: i64) -> Result<()> {
    // The bytes are the slice's own.
    Ok(())
}

/// Java: AbstractSlice.disposeInternal
pub fn end(_env: Env<'_>, _slice: Taken<Slice>) -> Result<()> {
    Ok(())
}
