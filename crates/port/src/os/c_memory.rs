//! Memory that C programs free: blocks of the C library's `malloc`.
//!
//! Bindings give values and messages to their callers in such blocks, whatever allocator the
//! program uses for itself.
//!
//! Thread safety: from any thread. Nothing suspends.

use std::ffi::{c_char, c_void};

/// A copy of `bytes` with a zero byte behind it; null if there is no memory.
pub fn copy(bytes: &[u8]) -> *mut c_char {
    // SAFETY: malloc takes any size; a slice is at most isize::MAX bytes, so that the sum fits.
    let block = unsafe { libc::malloc(bytes.len() + 1) }.cast::<u8>();
    if block.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the block is new and has bytes.len() + 1 bytes.
    unsafe {
        block.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        block.add(bytes.len()).write(0);
    }
    block.cast()
}

/// A block with these pointers; null if there is no memory.
pub fn pointers<T>(pointers: &[*mut T]) -> *mut *mut T {
    let bytes = size_of_val(pointers);
    // SAFETY: malloc takes any size; it is aligned for pointers.
    let block = unsafe { libc::malloc(bytes.max(1)) }.cast::<*mut T>();
    if !block.is_null() {
        // SAFETY: the block is new and has room for all pointers.
        unsafe { block.copy_from_nonoverlapping(pointers.as_ptr(), pointers.len()) };
    }
    block
}

/// Frees a block; null is allowed.
///
/// # Safety
/// `block` is null or comes from the C library's `malloc`, and nothing uses it any more.
pub unsafe fn free(block: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(block) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn copies_end_with_a_zero_byte() {
        for text in ["", "a", "text of some length"] {
            let block = copy(text.as_bytes());
            // SAFETY: a new block that ends with a zero byte.
            let read = unsafe { CStr::from_ptr(block) }.to_bytes().to_vec();
            assert_eq!(read, text.as_bytes());
            // SAFETY: nothing uses the block any more.
            unsafe { free(block.cast()) };
        }
        let list = pointers(&[std::ptr::null_mut::<u8>(); 3]);
        // SAFETY: a new block of three pointers.
        assert!(unsafe { *list.add(2) }.is_null());
        // SAFETY: nothing uses it any more.
        unsafe { free(list.cast()) };
    }
}
