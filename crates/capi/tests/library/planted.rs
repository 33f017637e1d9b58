//! Panics, planted in functions of every kind: none leaves its function. Each test runs its program
//! again, because the planted name is one for the process. Builds without debug assertions have
//! nothing planted.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use rocksdb::*;

use super::boundary::{ended, is_the_program_that_ends};

/// The function ends the process with its name.
fn ends_by_name(test: &str, name: &'static str, body: fn()) {
    if !cfg!(debug_assertions) {
        return;
    }
    if is_the_program_that_ends() {
        planted::plant(name);
        body();
        return;
    }
    let text = ended(&format!("planted::{test}"));
    let wanted = format!("librocksdb (Pumice): {name}: internal panic: planted");
    assert!(text.contains(&wanted), "{text}");
}

#[test]
fn of_a_function_with_errptr_is_an_error() {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut error: *mut c_char = null_mut();
    // No other test calls this one.
    planted::plant("rocksdb_destroy_db");
    // SAFETY: handles are used as the header says.
    let text = unsafe {
        let options = rocksdb_options_create();
        rocksdb_destroy_db(options, c"/nowhere/at/all".as_ptr(), &mut error);
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        // Where nobody asks for the error the call does nothing.
        rocksdb_destroy_db(options, c"/nowhere/at/all".as_ptr(), null_mut());
        rocksdb_options_destroy(options);
        text
    };
    assert_eq!(text, "Corruption: internal panic: rocksdb_destroy_db: planted");
}

#[test]
fn of_a_constructor() {
    ends_by_name("of_a_constructor", "rocksdb_compactoptions_create", || {
        // SAFETY: no argument.
        unsafe { rocksdb_compactoptions_create() };
    });
}

#[test]
fn of_a_destructor() {
    ends_by_name("of_a_destructor", "rocksdb_compactoptions_destroy", || {
        // SAFETY: a new object.
        unsafe { rocksdb_compactoptions_destroy(rocksdb_compactoptions_create()) };
    });
}

#[test]
fn of_a_copy() {
    ends_by_name("of_a_copy", "rocksdb_options_create_copy", || {
        // SAFETY: a new object.
        unsafe { rocksdb_options_create_copy(rocksdb_options_create()) };
    });
}

#[test]
fn of_a_setter() {
    ends_by_name("of_a_setter", "rocksdb_options_set_max_open_files", || {
        // SAFETY: a new object.
        unsafe { rocksdb_options_set_max_open_files(rocksdb_options_create(), 7) };
    });
}

#[test]
fn of_a_getter() {
    ends_by_name("of_a_getter", "rocksdb_options_get_max_open_files", || {
        // SAFETY: a new object.
        unsafe { rocksdb_options_get_max_open_files(rocksdb_options_create()) };
    });
}

#[test]
fn of_a_function_by_hand_without_errptr() {
    let test = "of_a_function_by_hand_without_errptr";
    ends_by_name(test, "rocksdb_writebatch_put", || {
        // SAFETY: a new object.
        unsafe {
            rocksdb_writebatch_put(rocksdb_writebatch_create(), null_mut(), 0, null_mut(), 0)
        };
    });
}

#[test]
fn of_a_function_with_lists() {
    ends_by_name("of_a_function_with_lists", "rocksdb_writebatch_putv", || {
        let (list, lengths) = ([c"k".as_ptr()], [1_usize]);
        // SAFETY: lists of one.
        unsafe {
            let batch = rocksdb_writebatch_create();
            rocksdb_writebatch_putv(
                batch,
                1,
                list.as_ptr(),
                lengths.as_ptr(),
                1,
                list.as_ptr(),
                lengths.as_ptr(),
            );
        }
    });
}
