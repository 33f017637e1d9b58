//! Objects may be destroyed in any order, and states of call-backs are ended once.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use rocksdb::*;

static ENDED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn end(_: *mut c_void) {
    ENDED.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn name(_: *mut c_void) -> *const c_char {
    c"test.order".as_ptr()
}

unsafe extern "C" fn compare(
    _: *mut c_void,
    a: *const c_char,
    a_length: usize,
    b: *const c_char,
    b_length: usize,
) -> c_int {
    // SAFETY: keys of the engine.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(a.cast::<u8>(), a_length),
            std::slice::from_raw_parts(b.cast::<u8>(), b_length),
        )
    };
    a.cmp(b) as c_int
}

/// The orders of `n` things.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in orders(n - 1) {
        for at in 0..=shorter.len() {
            let mut order = shorter.clone();
            order.insert(at, n - 1);
            all.push(order);
        }
    }
    all
}

/// One round: a database in memory with an iterator, a snapshot, a column family and options, all
/// destroyed in this order.
unsafe fn round(order: &[usize]) {
    let path = CString::new("/memory/db").expect("no zero byte");
    let mut error = null_mut();
    // SAFETY: handles are used as the header says, but for the order of their ends.
    unsafe {
        let env = rocksdb_create_mem_env();
        let comparator =
            rocksdb_comparator_create(null_mut(), Some(end), Some(compare), Some(name));
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_env(options, env);
        rocksdb_options_set_comparator(options, comparator);
        let db = rocksdb_open(options, path.as_ptr(), &mut error);
        assert!(error.is_null() && !db.is_null());
        let write = rocksdb_writeoptions_create();
        let key: *const c_char = b"key".as_ptr().cast();
        rocksdb_put(db, write, key, 3, key, 3, &mut error);
        rocksdb_writeoptions_destroy(write);
        let read = rocksdb_readoptions_create();
        let snapshot = rocksdb_create_snapshot(db);
        rocksdb_readoptions_set_snapshot(read, snapshot);
        let iterator = rocksdb_create_iterator(db, read);
        rocksdb_iter_seek_to_first(iterator);
        let pinned = rocksdb_get_pinned(db, read, key, 3, &mut error);
        rocksdb_readoptions_destroy(read);
        let family = rocksdb_get_default_column_family_handle(db);
        for what in order {
            match what {
                0 => rocksdb_iter_destroy(iterator),
                1 => rocksdb_release_snapshot(db, snapshot),
                2 => rocksdb_column_family_handle_destroy(family),
                3 => rocksdb_close(db),
                _ => rocksdb_pinnableslice_destroy(pinned),
            }
        }
        rocksdb_options_destroy(options);
        rocksdb_comparator_destroy(comparator);
        rocksdb_env_destroy(env);
        assert!(error.is_null());
    }
}

#[test]
fn any_order_of_ends_is_safe() {
    let orders = orders(5);
    assert_eq!(orders.len(), 120);
    for order in &orders {
        let before = ENDED.load(Ordering::Relaxed);
        // SAFETY: see there.
        unsafe { round(order) };
        // A job of the database may hold the order for a moment longer.
        while ENDED.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        assert_eq!(ENDED.load(Ordering::Relaxed), before + 1, "{order:?}");
    }
}
