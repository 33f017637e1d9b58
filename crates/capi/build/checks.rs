//! Tables for the tests of the crate: how to make objects, read and set their properties.

use std::fmt::Write;

use crate::Symbol;
use crate::c_types::{Names, object};
use crate::table::{Row, is_text_kind};

/// `checks.rs`: objects that are made without arguments, their getters of numbers, and setters
/// with the getters of the same property.
pub fn checks(symbols: &[Symbol], names: &Names<'_>, rows: &[Row<'_>], stubs: &[String]) -> String {
    let mut out = String::new();
    let creator = |object: &str| {
        let makes = |s: &&Symbol| s.kind == "create" && s.object() == Some(object);
        symbols.iter().find(makes).filter(|s| s.arguments.is_empty() && !stubs.contains(&s.name))
    };
    let numbers = symbols.iter().filter(|s| {
        let of = s.arguments.first().and_then(|argument| object(argument));
        s.kind == "get"
            && s.arguments.len() == 1
            && !s.result.contains('*')
            && of.is_some_and(|of| creator(of).is_some())
            && !stubs.contains(&s.name)
    });
    let numbers: Vec<&Symbol> = numbers.collect();
    writeln!(out, "pub const GETTERS: &[(&str, fn() -> String)] = &[").expect("a string takes all");
    for symbol in &numbers {
        let of = object(&symbol.arguments[0]).expect("checked above");
        let (name, create) = (&symbol.name, &creator(of).expect("checked above").name);
        writeln!(
            out,
            "({name:?}, || unsafe {{ let o = {create}(); let v = format!(\"{{:?}}\", {name}(o)); \
             drop(Box::from_raw(o)); v }}),"
        )
        .expect("a string takes all");
    }
    writeln!(out, "];\npub const SETTERS: &[(&str, fn(u64) -> (u64, u64))] = &[")
        .expect("a string takes all");
    for row in rows.iter().filter(|row| !is_text_kind(row.kind) && row.getter != "-") {
        for setter in row.setters.split(',').filter(|setter| *setter != "-") {
            let symbol = symbols.iter().find(|s| s.name == setter).expect("in the table");
            let Some(create) = object(&symbol.arguments[0]).and_then(creator) else { continue };
            let value = names.rust(&symbol.arguments[1]);
            let cast = match row.kind {
                "bool" => "(v & 1) as _".to_string(),
                "u8" | "i32" => "(v & 0x7f) as _".to_string(),
                _ => format!("(v & 0xffff) as {value}"),
            };
            writeln!(
                out,
                "({setter:?}, |v| unsafe {{ let o = {}(); let given: {value} = {cast}; \
                 {setter}(o, given); let got = {}(o); drop(Box::from_raw(o)); \
                 (given as u64, got as u64) }}),",
                create.name, row.getter
            )
            .expect("a string takes all");
        }
    }
    out.push_str("];\n");
    out
}
