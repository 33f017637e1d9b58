//! Null pointers, errors, stubs, panics: nothing crosses the boundary but what the header says.

use std::ffi::{CStr, CString, c_char};
use std::ptr::null_mut;

use rocksdb::*;

/// Takes the text of an error.
fn taken(errptr: &mut *mut c_char) -> String {
    assert!(!errptr.is_null(), "an error was expected");
    // SAFETY: a text of malloc, which is taken once.
    unsafe {
        let text = CStr::from_ptr(*errptr).to_string_lossy().into_owned();
        rocksdb_free(errptr.cast());
        *errptr = null_mut();
        text
    }
}

#[test]
fn a_null_handle_is_an_error_with_its_name() {
    let mut error = null_mut();
    // SAFETY: null is what is tested.
    unsafe {
        let write = rocksdb_writeoptions_create();
        let key = b"key".as_ptr().cast();
        rocksdb_put(null_mut(), write, key, 3, key, 3, &mut error);
        assert_eq!(taken(&mut error), "Invalid argument: rocksdb_put: db is NULL");
        rocksdb_put(null_mut(), write, key, 3, key, 3, null_mut());
        rocksdb_writeoptions_destroy(write);
        rocksdb_open(null_mut(), null_mut(), &mut error);
        assert_eq!(taken(&mut error), "Invalid argument: rocksdb_open: options is NULL");
        rocksdb_close(null_mut());
        rocksdb_options_destroy(null_mut());
        rocksdb_iter_destroy(null_mut());
    }
}

#[test]
fn an_error_replaces_the_text_that_was_there() {
    let options = rocksdb_options_create_safe();
    let path = CString::new("/nowhere/at/all").expect("no zero byte");
    let mut error = null_mut();
    // SAFETY: handles are used as the header says.
    unsafe {
        other_error(&mut error);
        for _ in 0..2 {
            assert!(rocksdb_open(options, path.as_ptr(), &mut error).is_null());
        }
        let text = taken(&mut error);
        assert!(text.starts_with("Invalid argument: "), "{text}");
        rocksdb_options_destroy(options);
    }
}

fn rocksdb_options_create_safe() -> *mut rocksdb_options_t {
    // SAFETY: no argument.
    unsafe { rocksdb_options_create() }
}

/// Another function that fails.
///
/// # Safety
/// As `errptr` of any function.
unsafe fn other_error(error: *mut *mut c_char) {
    let path = CString::new("/nowhere/trace").expect("no zero byte");
    // SAFETY: null stands for the default environment and for no options.
    unsafe {
        let none = rocksdb_trace_reader_create(null_mut(), null_mut(), path.as_ptr(), error);
        assert!(none.is_null());
        let text = CStr::from_ptr(*error).to_string_lossy().into_owned();
        assert!(text.starts_with("IO error: "), "{text}");
    }
}

#[test]
fn lengths_and_counts_that_cannot_be_are_errors() {
    let mut error = null_mut();
    // SAFETY: no memory is behind the lengths; that is what is tested.
    unsafe {
        let path = CString::new("/memory/lengths").expect("no zero byte");
        let env = rocksdb_create_mem_env();
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_env(options, env);
        let db = rocksdb_open(options, path.as_ptr(), &mut error);
        assert!(error.is_null());
        let (write, read) = (rocksdb_writeoptions_create(), rocksdb_readoptions_create());
        let key: *const c_char = b"key".as_ptr().cast();
        for length in [usize::MAX, usize::MAX - 2, 1 << 63] {
            rocksdb_put(db, write, key, length, key, 3, &mut error);
            assert_eq!(taken(&mut error), "Invalid argument: rocksdb_put: key is NULL");
            rocksdb_put(db, write, key, 3, key, length, &mut error);
            assert_eq!(taken(&mut error), "Invalid argument: rocksdb_put: value is NULL");
            let mut found = 7;
            let value = rocksdb_get(db, read, key, length, &mut found, &mut error);
            assert!(value.is_null());
            assert_eq!(taken(&mut error), "Invalid argument: rocksdb_get: key is NULL");
        }
        // A negative count is none.
        let (list, lengths) = ([key], [3_usize]);
        let batch = rocksdb_writebatch_create();
        let (list, lengths) = (list.as_ptr(), lengths.as_ptr());
        rocksdb_writebatch_putv(batch, -1, list, lengths, -5, list, lengths);
        let mut size = 9;
        rocksdb_approximate_sizes(db, -1, list, lengths, list, lengths, &mut size, &mut error);
        assert!(error.is_null() && size == 9);
        let names = [c"write_buffer_size".as_ptr()];
        rocksdb_set_options(db, -2, names.as_ptr(), names.as_ptr(), &mut error);
        let said = taken(&mut error);
        assert!(said.starts_with("Invalid argument: "), "{said}");
        rocksdb_writebatch_destroy(batch);
        rocksdb_writeoptions_destroy(write);
        rocksdb_readoptions_destroy(read);
        end(db, options, env);
    }
}

/// Destroys what a test has opened in memory.
unsafe fn end(db: *mut rocksdb_t, options: *mut rocksdb_options_t, env: *mut rocksdb_env_t) {
    // SAFETY: the caller's promise: nobody uses them any more.
    unsafe {
        rocksdb_close(db);
        rocksdb_options_destroy(options);
        rocksdb_env_destroy(env);
    }
}

#[test]
fn a_write_that_is_refused_stops_no_later_one() {
    let mut error = null_mut();
    // SAFETY: handles are used as the header says.
    unsafe {
        let env = rocksdb_create_mem_env();
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_env(options, env);
        let db = rocksdb_open(options, c"/memory/refused".as_ptr(), &mut error);
        let write = rocksdb_writeoptions_create();
        let (a, b) = (c"a".as_ptr(), c"b".as_ptr());
        let family = rocksdb_create_column_family(db, options, c"x".as_ptr(), &mut error);
        assert!(error.is_null());
        rocksdb_delete_range_cf(db, write, family, b, 1, a, 1, &mut error);
        assert_eq!(taken(&mut error), "Invalid argument: end key comes before start key");
        rocksdb_drop_column_family(db, family, &mut error);
        assert!(error.is_null());
        rocksdb_put_cf(db, write, family, a, 1, a, 1, &mut error);
        let dropped = "Invalid argument: Invalid column family specified in write batch";
        assert_eq!(taken(&mut error), dropped);
        for bytes in ["", "no batch", "more than twelve bytes, and no batch"] {
            let batch = rocksdb_writebatch_create_from(bytes.as_ptr().cast(), bytes.len());
            rocksdb_write(db, write, batch, &mut error);
            let said = taken(&mut error);
            assert!(said.starts_with("Corruption: "), "{bytes}: {said}");
            rocksdb_writebatch_destroy(batch);
        }
        rocksdb_put(db, write, a, 1, a, 1, &mut error);
        assert!(error.is_null());
        rocksdb_column_family_handle_destroy(family);
        rocksdb_writeoptions_destroy(write);
        end(db, options, env);
    }
}

#[test]
fn unlogged_values_without_length_are_empty() {
    // SAFETY: handles are used as the header says.
    unsafe {
        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, null_mut(), 0, null_mut(), 0);
        assert_eq!(rocksdb_writebatch_count(batch), 1);
        rocksdb_writebatch_destroy(batch);
    }
}

/// Runs this program again for one test, named with its module, that ends it.
pub fn ended(test: &str) -> String {
    let own = std::env::current_exe().expect("a program has a path");
    let output = std::process::Command::new(own)
        .args(["--exact", test, "--nocapture"])
        .env("PUMICE_CAPI_END", "1")
        .output()
        .expect("the program runs");
    assert!(!output.status.success(), "{test} was expected to end the program");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn is_the_program_that_ends() -> bool {
    std::env::var_os("PUMICE_CAPI_END").is_some()
}

#[test]
fn a_freed_handle_ends_the_program_by_name() {
    if is_the_program_that_ends() {
        // SAFETY: none; that is what is tested.
        unsafe {
            let batch = rocksdb_writebatch_create();
            rocksdb_writebatch_destroy(batch);
            rocksdb_writebatch_count(batch);
        }
        return;
    }
    if cfg!(debug_assertions) {
        let text = ended("boundary::a_freed_handle_ends_the_program_by_name");
        assert!(text.contains("rocksdb_writebatch_count: the "), "{text}");
    }
}

#[test]
fn a_closed_database_ends_the_program_by_name() {
    if is_the_program_that_ends() {
        let (mut error, mut length) = (null_mut(), 0);
        // SAFETY: none behind the close; that is what is tested.
        unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_env(options, rocksdb_create_mem_env());
            let db = rocksdb_open(options, c"/memory/closed".as_ptr(), &mut error);
            assert!(error.is_null());
            rocksdb_close(db);
            let read = rocksdb_readoptions_create();
            rocksdb_get(db, read, c"key".as_ptr(), 3, &mut length, &mut error);
        }
        return;
    }
    if cfg!(debug_assertions) {
        let text = ended("boundary::a_closed_database_ends_the_program_by_name");
        assert!(text.contains("rocksdb_get: the "), "{text}");
    }
}

#[test]
fn a_handle_of_another_type_ends_the_program_by_name() {
    if is_the_program_that_ends() {
        // SAFETY: none; that is what is tested.
        unsafe {
            let options = rocksdb_options_create();
            rocksdb_writebatch_count(options.cast());
        }
        return;
    }
    if cfg!(debug_assertions) {
        let text = ended("boundary::a_handle_of_another_type_ends_the_program_by_name");
        assert!(text.contains("rocksdb_writebatch_count: the handle is a "), "{text}");
    }
}

#[test]
fn a_null_handle_without_errptr_ends_the_program_by_name() {
    if is_the_program_that_ends() {
        // SAFETY: null is what is tested.
        unsafe { rocksdb_iter_next(null_mut()) };
        return;
    }
    let text = ended("boundary::a_null_handle_without_errptr_ends_the_program_by_name");
    assert!(text.contains("rocksdb_iter_next: rocksdb_iter_next: iterator is NULL"), "{text}");
}

#[test]
fn a_trie_index_is_set_by_its_name() {
    let mut error = null_mut();
    // SAFETY: handles are used as the header says.
    unsafe {
        let (tables, read) = (rocksdb_block_based_options_create(), rocksdb_readoptions_create());
        let by_name = |name: &CStr, error: &mut *mut c_char| {
            let (bytes, length) = (name.as_ptr(), name.count_bytes());
            rocksdb_block_based_options_set_user_defined_index_factory_from_string(
                tables, bytes, length, error,
            );
            let set = error.is_null();
            rocksdb_readoptions_set_table_index_factory_from_string(read, bytes, length, error);
            set && error.is_null()
        };
        assert!(!by_name(c"other", &mut error));
        let words = "Not implemented: Could not load UserDefinedIndexFactory: other";
        assert_eq!(taken(&mut error), words);
        assert!(by_name(c"trie_index", &mut error));
        rocksdb_block_based_options_set_use_udi_as_primary_index(tables, 1);
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_env(options, rocksdb_create_mem_env());
        rocksdb_options_set_block_based_table_factory(options, tables);
        let db = rocksdb_open(options, c"/memory/tries".as_ptr(), &mut error);
        assert!(error.is_null(), "{}", taken(&mut error));
        let (write, flush) = (rocksdb_writeoptions_create(), rocksdb_flushoptions_create());
        rocksdb_put(db, write, c"key".as_ptr(), 3, c"value".as_ptr(), 5, &mut error);
        rocksdb_flush(db, flush, &mut error);
        let mut length = 0;
        let value = rocksdb_get(db, read, c"key".as_ptr(), 3, &mut length, &mut error);
        assert!(error.is_null() && !value.is_null() && length == 5);
        rocksdb_free(value.cast());
        rocksdb_flushoptions_destroy(flush);
        rocksdb_writeoptions_destroy(write);
        rocksdb_readoptions_destroy(read);
        rocksdb_close(db);
        rocksdb_options_destroy(options);
        rocksdb_block_based_options_destroy(tables);
    }
}
