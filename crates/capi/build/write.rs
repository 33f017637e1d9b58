//! The text of the generated functions.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::Symbol;
use crate::c_types::{Names, object};
use crate::table::{Row, is_text_kind, objects};

/// Collects the generated files.
pub struct Writer<'a> {
    names: &'a Names<'a>,
    rows: &'a [Row<'a>],
    /// C types with a Rust type of their own.
    types: &'a BTreeSet<String>,
    accessors: String,
    stubs: String,
    signatures: String,
    opaque: String,
    exports: String,
}

const FUNCTION: &str = "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn";
const SAFETY: &str = "// SAFETY: invariant 1 of ffi.";

impl<'a> Writer<'a> {
    pub fn new(names: &'a Names<'a>, rows: &'a [Row<'a>], types: &'a BTreeSet<String>) -> Self {
        Writer {
            names,
            rows,
            types,
            accessors: String::new(),
            stubs: String::new(),
            signatures: String::new(),
            opaque: String::new(),
            exports: String::new(),
        }
    }

    /// The type is made of values, or has a Rust type.
    fn is_built(&self, c_type: &str) -> bool {
        self.types.contains(c_type) || self.class(c_type).is_some()
    }

    fn class(&self, c_type: &str) -> Option<usize> {
        let name = c_type.strip_prefix("rocksdb_")?.strip_suffix("_t")?;
        objects(self.rows).iter().position(|object| *object == name)
    }

    /// Writes a setter or getter, if the table of properties has one of that name.
    pub fn accessor(&mut self, symbol: &Symbol) -> bool {
        let name = symbol.name.as_str();
        let is_setter = |row: &&Row<'_>| row.setters.split(',').any(|setter| setter == name);
        let setter = self.rows.iter().find(is_setter);
        let Some(row) = setter.or_else(|| self.rows.iter().find(|row| row.getter == name)) else {
            return false;
        };
        let (names, place) = (self.names, row.place);
        let handle = names.rust(&symbol.arguments[0]);
        let object = object(&symbol.arguments[0]).expect("an accessor takes an object");
        let result = names.result(&symbol.result).unwrap_or_default();
        let (more, arrow, call) = if setter.is_some() {
            let value = names.rust(&symbol.arguments[1]);
            let call = format!("set::<{object}, {value}>({name:?}, object, {place}, value)");
            (format!(", value: {value}"), String::new(), call)
        } else if is_text_kind(row.kind) {
            let get = match row.kind {
                "opt" => "lend_optional",
                _ if result.starts_with("*const") => "lend",
                _ => "copy",
            };
            let (length, pass) = match symbol.arguments.len() {
                1 => ("", "std::ptr::null_mut()"),
                _ => (", length: *mut usize", "length"),
            };
            let call = format!("{get}::<{object}>({name:?}, object, {place}, {pass})");
            (length.to_string(), format!(" -> {result}"), call)
        } else {
            let call = format!("get::<{object}, {result}>({name:?}, object, {place})");
            (String::new(), format!(" -> {result}"), call)
        };
        writeln!(
            self.accessors,
            "{FUNCTION} {name}(object: {handle}{more}){arrow} {{\n    {SAFETY}\n    \
             unsafe {{ accessor::{call} }}\n}}"
        )
        .expect("a string takes all");
        true
    }

    /// Writes a constructor, destructor or copy, if the object is built.
    pub fn life(&mut self, symbol: &Symbol) -> bool {
        let Some(object) = symbol.object().filter(|object| self.is_built(object)) else {
            return false;
        };
        let name = &symbol.name;
        let function = match (symbol.kind.as_str(), symbol.arguments.len()) {
            ("create", 0) => {
                format!("() -> *mut {object} {{\n    handle::create::<{object}>({name:?})\n}}")
            }
            ("destroy", 1) => format!(
                "(object: *mut {object}) {{\n    {SAFETY}\n    \
                 unsafe {{ handle::destroy({name:?}, object) }}\n}}"
            ),
            ("copy", 1) => format!(
                "(object: *mut {object}) -> *mut {object} {{\n    {SAFETY}\n    \
                 unsafe {{ handle::copy({name:?}, object) }}\n}}"
            ),
            _ => return false,
        };
        writeln!(self.accessors, "{FUNCTION} {name}{function}").expect("a string takes all");
        true
    }

    /// Writes a function that says that it is missing.
    pub fn stub(&mut self, symbol: &Symbol) {
        let name = &symbol.name;
        let mut arguments = Vec::new();
        let mut errptr = "std::ptr::null_mut()";
        let last = symbol.arguments.len().saturating_sub(1);
        // The functions of many keys have a message for each key in that place.
        let many = name.contains("multi_get");
        for (at, c) in symbol.arguments.iter().enumerate() {
            let rust = self.names.rust(c);
            if at == last && c == "char**" && !many {
                errptr = "errptr";
                arguments.push(format!("errptr: {rust}"));
            } else {
                arguments.push(format!("_: {rust}"));
            }
        }
        let result = self.names.result(&symbol.result);
        let arrow = result.as_ref().map_or(String::new(), |result| format!(" -> {result}"));
        let value = match result.as_deref() {
            None => "",
            Some(pointer) if pointer.starts_with("*mut") => "std::ptr::null_mut()",
            Some(pointer) if pointer.starts_with("*const") => "std::ptr::null()",
            Some("Slice") => "Slice::EMPTY",
            Some("f64") => "0.0",
            Some(_) => "0",
        };
        writeln!(
            self.stubs,
            "{FUNCTION} {name}({}){arrow} {{\n    use std::sync::atomic::AtomicBool;\
             \n    static SAID: AtomicBool = AtomicBool::new(false);\
             \n    // SAFETY: invariant 2 of ffi.\
             \n    unsafe {{ super::stub::missing({name:?}, {errptr}, &SAID) }};\n    {value}\n}}",
            arguments.join(", ")
        )
        .expect("a string takes all");
    }

    /// Writes a constant that has the function's type, and the line of its export.
    pub fn signature(&mut self, symbol: &Symbol) {
        let arguments: Vec<String> = symbol.arguments.iter().map(|a| self.names.rust(a)).collect();
        let result = self.names.result(&symbol.result);
        let result = result.map_or(String::new(), |result| format!(" -> {result}"));
        let (name, arguments) = (&symbol.name, arguments.join(", "));
        writeln!(self.signatures, "const _: unsafe extern \"C\" fn({arguments}){result} = {name};")
            .expect("a string takes all");
        writeln!(self.exports, "{name}").expect("a string takes all");
    }

    /// Writes the types: of values, opaque ones, and those of call-backs.
    pub fn types(&mut self, symbols: &[Symbol], typedefs: &[(String, String)]) {
        let mut named = BTreeSet::new();
        let texts = symbols.iter().flat_map(|s| s.arguments.iter().chain([&s.result]));
        for text in texts.chain(typedefs.iter().map(|(_, target)| target)) {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_type = |word: &&str| word.starts_with("rocksdb_") && word.ends_with("_t");
            named.extend(words.filter(is_type).filter(|word| *word != "rocksdb_slice_t"));
        }
        for name in named.into_iter().filter(|name| !self.types.contains(*name)) {
            let line = match self.class(name) {
                Some(class) => format!("pub type {name} = Plain<{class}>;"),
                None => format!("pub struct {name} {{ _nothing: [u8; 0] }}"),
            };
            writeln!(self.opaque, "{line}").expect("a string takes all");
        }
        for (name, target) in typedefs {
            let rust = self.names.rust(target);
            writeln!(self.opaque, "pub type {name} = {rust};").expect("a string takes all");
        }
    }

    /// The files and their texts.
    pub fn finish(self) -> Vec<(&'static str, String)> {
        vec![
            ("accessors.rs", self.accessors),
            ("stubs.rs", self.stubs),
            ("signatures.rs", self.signatures),
            ("types.rs", self.opaque),
            ("exports.txt", self.exports),
        ]
    }
}
