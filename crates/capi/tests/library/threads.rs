//! Many threads through one database, with call-backs that may overlap.

use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use rocksdb::*;

const THREADS: usize = 8;
const KEYS: usize = 50;
const OPERANDS: usize = 40;

static MERGES: AtomicUsize = AtomicUsize::new(0);
static VALUES: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn end(_: *mut c_void) {}

unsafe extern "C" fn name(_: *mut c_void) -> *const c_char {
    c"test.count".as_ptr()
}

/// The number of operands, as text: the old value is such a number, too.
unsafe extern "C" fn full(
    _: *mut c_void,
    _: *const c_char,
    _: usize,
    old: *const c_char,
    old_length: usize,
    _: *const *const c_char,
    _: *const usize,
    operands: c_int,
    success: *mut c_uchar,
    length: *mut usize,
) -> *mut c_char {
    MERGES.fetch_add(1, Ordering::Relaxed);
    VALUES.fetch_add(1, Ordering::Relaxed);
    // SAFETY: what the library gives to a merge operator.
    unsafe {
        let before = match old.is_null() {
            true => 0,
            false => {
                let text = std::slice::from_raw_parts(old.cast::<u8>(), old_length);
                std::str::from_utf8(text).expect("a number").parse::<i64>().expect("a number")
            }
        };
        let text = (before + i64::from(operands)).to_string();
        *success = 1;
        *length = text.len();
        CString::new(text).expect("no zero byte").into_raw()
    }
}

unsafe extern "C" fn partial(
    _: *mut c_void,
    _: *const c_char,
    _: usize,
    _: *const *const c_char,
    _: *const usize,
    _: c_int,
    success: *mut c_uchar,
    length: *mut usize,
) -> *mut c_char {
    // SAFETY: what the library gives to a merge operator.
    unsafe {
        *success = 0;
        *length = 0;
    }
    null_mut()
}

/// Frees a value of `full`; null is what `partial` gave.
unsafe extern "C" fn delete_value(_: *mut c_void, value: *const c_char, _: usize) {
    if !value.is_null() {
        VALUES.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: it came from `CString::into_raw`.
        drop(unsafe { CString::from_raw(value.cast_mut()) });
    }
}

/// A handle that threads share.
#[derive(Clone, Copy)]
struct Shared(*mut rocksdb_t);
// SAFETY: a handle of a database may be used from any thread.
unsafe impl Send for Shared {}

fn key(number: usize) -> [u8; 2] {
    [b'k', u8::try_from(number).expect("few keys")]
}

fn work(shared: Shared) {
    let mut error = null_mut();
    // SAFETY: handles are used as the header says.
    unsafe {
        let (write, read) = (rocksdb_writeoptions_create(), rocksdb_readoptions_create());
        for operand in 0..OPERANDS {
            for number in 0..KEYS {
                let key = key(number);
                let key: *const c_char = key.as_ptr().cast();
                rocksdb_merge(shared.0, write, key, 2, c"x".as_ptr(), 1, &mut error);
                assert!(error.is_null());
            }
            let mut length = 0;
            let first = key(operand % KEYS);
            let value =
                rocksdb_get(shared.0, read, first.as_ptr().cast(), 2, &mut length, &mut error);
            assert!(!value.is_null() && error.is_null());
            rocksdb_free(value.cast());
        }
        rocksdb_readoptions_destroy(read);
        rocksdb_writeoptions_destroy(write);
    }
}

#[test]
fn threads_share_a_database_and_its_operators() {
    let path = CString::new("/memory/db").expect("no zero byte");
    let mut error = null_mut();
    // SAFETY: handles are used as the header says.
    unsafe {
        let env = rocksdb_create_mem_env();
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_env(options, env);
        let operator = rocksdb_mergeoperator_create(
            null_mut(),
            Some(end),
            Some(full),
            Some(partial),
            Some(delete_value),
            Some(name),
        );
        rocksdb_options_set_merge_operator(options, operator);
        let db = rocksdb_open(options, path.as_ptr(), &mut error);
        assert!(error.is_null());
        let shared = Shared(db);
        let threads: Vec<_> =
            (0..THREADS).map(|_| std::thread::spawn(move || work(shared))).collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        let read = rocksdb_readoptions_create();
        for number in 0..KEYS {
            let mut length = 0;
            let key = key(number);
            let value = rocksdb_get(db, read, key.as_ptr().cast(), 2, &mut length, &mut error);
            let text = std::slice::from_raw_parts(value.cast::<u8>(), length);
            assert_eq!(text, (THREADS * OPERANDS).to_string().as_bytes());
            rocksdb_free(value.cast());
        }
        rocksdb_readoptions_destroy(read);
        rocksdb_close(db);
        rocksdb_options_destroy(options);
        rocksdb_env_destroy(env);
    }
    assert!(MERGES.load(Ordering::Relaxed) > KEYS);
    assert_eq!(VALUES.load(Ordering::Relaxed), 0, "a value of the operator was not freed");
}
