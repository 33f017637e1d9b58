//! The C header, from the table of symbols: our own order and comments, RocksDB's types.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::Symbol;
use crate::c_types::split;

const HEAD: &str = "\
/* The C interface of RocksDB as Pumice offers it. Written from a table by the build script of the
 * crate pumice-capi; a program compiled with RocksDB's own header needs no other one.
 *
 * Rules of the interface:
 * - a char** errptr at the end gets a text of malloc where a call fails; what was there is freed;
 * - what a function returns as char* belongs to the caller: free() or rocksdb_free();
 * - what it returns as const char* belongs to the object;
 * - an object is ended by the function with _destroy (rocksdb_close for a database).
 */
#ifndef PUMICE_ROCKSDB_C_H
#define PUMICE_ROCKSDB_C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

/* Bytes that belong to an object. */
typedef struct rocksdb_slice_t {
  const char* data;
  size_t size;
} rocksdb_slice_t;

";

const TAIL: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// The declaration of something of type `c`, named `name` (empty in a list of types).
fn declare(c: &str, name: &str) -> String {
    let Some(function) = c.strip_prefix("fn(") else {
        return format!("{c} {name}").trim_end().to_string();
    };
    let end = function.rfind(") -> ").unwrap_or_else(|| panic!("no result: {c}"));
    let result = &function[end + 5..];
    format!("{result} (*{name})({})", list(&split(&function[..end])))
}

fn list(types: &[String]) -> String {
    if types.is_empty() {
        return "void".to_string();
    }
    types.iter().map(|c| declare(c, "")).collect::<Vec<_>>().join(", ")
}

fn structs<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for text in texts {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let is_type = |word: &&str| word.starts_with("rocksdb_") && word.ends_with("_t");
        found.extend(words.filter(is_type).filter(|word| *word != "rocksdb_slice_t"));
    }
    found
}

/// The constants, one `enum` for each group of lines.
fn constants(table: &str, out: &mut String) {
    let mut group = "";
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[of, name, value] = columns.as_slice() else { panic!("constants.tsv: {line}") };
        if of != group {
            let end = if group.is_empty() { "" } else { "\n};\n" };
            write!(out, "{end}\n/* {of} */\nenum {{").expect("a string takes all");
        } else {
            out.push(',');
        }
        write!(out, "\n  {name} = {value}").expect("a string takes all");
        group = of;
    }
    out.push_str("\n};\n");
}

/// The header.
pub fn header(symbols: &[Symbol], typedefs: &[(String, String)], table: &str) -> String {
    let mut out = HEAD.to_string();
    let texts = symbols.iter().flat_map(|s| s.arguments.iter().chain([&s.result]));
    let texts = texts.chain(typedefs.iter().map(|(_, target)| target)).map(String::as_str);
    for name in structs(texts) {
        writeln!(out, "typedef struct {name} {name};").expect("a string takes all");
    }
    out.push('\n');
    for (name, target) in typedefs {
        writeln!(out, "typedef {};", declare(target, name)).expect("a string takes all");
    }
    constants(table, &mut out);
    let mut area = "";
    for symbol in symbols {
        if symbol.area != area {
            area = &symbol.area;
            writeln!(out, "\n/* {area} */").expect("a string takes all");
        }
        let (name, arguments) = (&symbol.name, list(&symbol.arguments));
        writeln!(out, "extern {} {name}({arguments});", symbol.result).expect("a string takes all");
    }
    out.push_str(TAIL);
    out
}
