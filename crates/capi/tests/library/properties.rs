//! Getters of fresh objects against RocksDB 11.8.1's, setters against getters.

use std::ffi::c_void;

use rocksdb::*;

use std::ptr;

use checks::{GETTERS, SETTERS};

/// What the build script wrote: getters of fresh objects, setters with their getters.
mod checks {
    #![allow(clippy::unnecessary_cast, clippy::type_complexity)]
    #![allow(clippy::undocumented_unsafe_blocks)] // Fresh objects, used as the header says.

    use std::ffi::{c_int, c_uint};

    use rocksdb::*;

    include!(concat!(env!("OUT_DIR"), "/checks.rs"));
}

const DEFAULTS: &str = include_str!("../../tables/getter_defaults.tsv");

/// Numbers as both sides print them.
fn number(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| text.to_string(), |value| value.to_string())
}

#[test]
fn fresh_objects_have_the_defaults_of_rocksdb() {
    let mut compared = 0;
    for line in DEFAULTS.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, c_type, wanted] = columns[..] else { panic!("{line}") };
        if c_type == "char*" {
            continue;
        }
        let Some((_, get)) = GETTERS.iter().find(|(getter, _)| *getter == name) else {
            // Objects of features that are stubs.
            assert!(missing(name), "{name} is not checked");
            continue;
        };
        assert_eq!(number(&get()), number(wanted), "{name}");
        compared += 1;
    }
    assert!(compared >= 375, "only {compared} were compared");
}

fn missing(name: &str) -> bool {
    let stubs = std::fs::read_to_string(super::out_dir().join("stubs.txt")).expect("written");
    stubs.lines().any(|stub| stub == name)
}

#[test]
fn what_is_set_is_read_back() {
    assert!(SETTERS.len() > 350, "only {} setters", SETTERS.len());
    for (name, set) in SETTERS {
        for value in [0, 1, 5, 77, 40_000] {
            let (given, got) = set(value);
            assert_eq!(given, got, "{name}({value})");
        }
    }
}

#[test]
fn texts_of_fresh_objects_are_those_of_rocksdb() {
    // SAFETY: handles are used as the header says.
    unsafe {
        let options = rocksdb_options_create();
        assert!(rocksdb_options_statistics_get_string(options).is_null());
        rocksdb_options_destroy(options);
        let mut length = 9;
        let table = rocksdb_block_based_options_create();
        let name =
            rocksdb_block_based_options_get_user_defined_index_factory_name(table, &mut length);
        assert!(name.is_null());
        assert_eq!(length, 0);
        rocksdb_block_based_options_destroy(table);
        let none: *mut c_void = ptr::null_mut();
        rocksdb_free(none);
    }
}
