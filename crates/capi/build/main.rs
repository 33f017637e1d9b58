//! Writes, from the tables of symbols and of properties, the functions that are all alike:
//! setters, getters, constructors, destructors, and stubs for what nobody has written; and a check
//! that every function has the types of the table.
//!
//! A function written by hand, in a `c_api!` of `src/api`, takes precedence. Pure Rust, without
//! libclang.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // Not part of the engine.

#[path = "../../binding/build_link.rs"]
mod build_link;
mod c_types;
mod checks;
mod header;
#[path = "../../binding/src/table.rs"]
#[allow(dead_code)] // The columns that only the library reads.
mod table;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A row of `tables/symbols.tsv`.
struct Symbol {
    area: String,
    name: String,
    result: String,
    arguments: Vec<String>,
    kind: String,
}

impl Symbol {
    /// The type that the function belongs to: of its first argument, or of its result.
    fn object(&self) -> Option<&str> {
        let first = self.arguments.first().unwrap_or(&self.result);
        c_types::object(if self.kind == "create" { &self.result } else { first })
    }
}

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let accessors_file = package.join("../binding/tables/accessors.tsv");
    for path in [package.join("src/api"), package.join("src/ffi/types.rs"), package.join("tables")]
    {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    println!("cargo:rerun-if-changed={}", accessors_file.display());
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-env-changed=PUMICE_CAPI_SONAME");
    let soname = env::var("PUMICE_CAPI_SONAME").unwrap_or("librocksdb.so.11".to_string());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    build_link::fold_code();

    let (symbols, typedefs) = read_symbols(&package.join("tables/symbols.tsv"));
    let table = read(&accessors_file);
    let rows = table::rows(&table);
    let by_hand = hand_written(&package.join("src/api"));
    let in_table = |name: &&String| symbols.iter().any(|symbol| symbol.name == **name);
    let unknown = by_hand.iter().find(|name| !in_table(name));
    assert!(unknown.is_none(), "{unknown:?} is written by hand and not in tables/symbols.tsv");
    let types = named_types(&package.join("src/ffi/types.rs"));
    let names = c_types::Names { typedefs: typedefs.iter().map(|t| t.0.as_str()).collect() };

    let mut writer = write::Writer::new(&names, &rows, &types);
    let mut stubs_by_area: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut generated, mut stubs) = (0, Vec::new());
    for symbol in &symbols {
        if by_hand.contains(&symbol.name) {
            // Nothing to write.
        } else if writer.accessor(symbol) || writer.life(symbol) {
            generated += 1;
        } else {
            writer.stub(symbol);
            *stubs_by_area.entry(&symbol.area).or_default() += 1;
            stubs.push(symbol.name.clone());
        }
        writer.signature(symbol);
    }
    writer.types(&symbols, &typedefs);
    let (hand, missing) = (by_hand.len(), stubs.len());
    let mut state = format!("generated {generated}\nby hand {hand}\nstubs {missing}\n");
    for (area, count) in stubs_by_area {
        state.push_str(&format!("  {count} {area}\n"));
    }
    let constants = read(&package.join("tables/constants.tsv"));
    let header = header::header(&symbols, &typedefs, &constants);
    let checks = checks::checks(&symbols, &names, &rows, &stubs);
    let missing = stubs.join("\n");
    let others =
        [("capi_state.txt", state), ("c.h", header), ("checks.rs", checks), ("stubs.txt", missing)];
    for (name, text) in writer.finish().into_iter().chain(others) {
        write_if_changed(&out.join(name), &text);
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn write_if_changed(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

fn read_symbols(path: &Path) -> (Vec<Symbol>, Vec<(String, String)>) {
    let (mut symbols, mut typedefs) = (Vec::new(), Vec::new());
    for line in read(path).lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        match columns.as_slice() {
            ["typedef", name, target, ..] => typedefs.push((name.to_string(), target.to_string())),
            &[area, name, _, result, arguments, _, kind] => symbols.push(Symbol {
                area: area.to_string(),
                name: name.to_string(),
                result: result.to_string(),
                arguments: c_types::split(arguments),
                kind: kind.to_string(),
            }),
            _ => panic!("{}: {line}", path.display()),
        }
    }
    (symbols, typedefs)
}

/// The functions in `c_api!` of the files below `folder`: lines that begin with `fn rocksdb_`.
fn hand_written(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries.map(|entry| entry.expect("a readable folder").path()) {
        if entry.is_dir() {
            names.extend(hand_written(&entry));
            continue;
        }
        for line in read(&entry).lines() {
            let Some(rest) = line.trim_start().strip_prefix("fn rocksdb_") else { continue };
            let end = rest.find('(').unwrap_or_else(|| panic!("no argument list: {line}"));
            names.insert(format!("rocksdb_{}", &rest[..end]));
        }
    }
    names
}

/// The C types that have a Rust type: `pub type rocksdb_x_t = ..`.
fn named_types(path: &Path) -> BTreeSet<String> {
    let text = read(path);
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("pub type "));
    let names = lines.filter_map(|line| line.split(' ').next());
    names.map(str::to_string).collect()
}
