//! Writes the exported functions: one for each native method of the jars.
//!
//! | a method is | if |
//! |---|---|
//! | a function of `src/api` | its documentation says `Java: CLASS.METHOD` |
//! | an accessor | it is named as a property of binding's table, or in `tables/names.tsv` |
//! | a constructor or destructor | its class is an object of values, or a type with an end |
//! | missing | otherwise: it throws NotSupported with its name |
//!
//! All names carry their signature, so that methods which differ between the jars, or are
//! overloaded, are different functions; the virtual machine looks for that name after the short
//! one.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // Not part of the engine.

#[path = "../../binding/build_link.rs"]
mod build_link;
mod by_hand;
mod properties;
mod signature;
#[path = "../../binding/src/table.rs"]
#[allow(dead_code)] // The columns that only the library reads.
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use by_hand::{Hand, Place};
use signature::Signature;

/// A row of `tables/natives.tsv`.
struct Native {
    class: String,
    name: String,
    signature: Signature,
}

impl Native {
    /// The name without the ending that newer jars give static methods.
    fn plain_name(&self) -> &str {
        self.name.strip_suffix("Jni").unwrap_or(&self.name)
    }
}

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let accessors_file = package.join("../binding/tables/accessors.tsv");
    for path in ["src/api", "tables", "build"] {
        println!("cargo:rerun-if-changed={}", package.join(path).display());
    }
    println!("cargo:rerun-if-changed={}", accessors_file.display());
    build_link::fold_code();

    let natives = read_natives(&package.join("tables/natives.tsv"));
    let accessors = read(&accessors_file);
    let names = read(&package.join("tables/names.tsv"));
    let properties = properties::Properties::new(&accessors, &names);
    let hands = by_hand::read(&package.join("src/api"), &natives);

    let mut code = String::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut missing = String::new();
    for (at, native) in natives.iter().enumerate() {
        let (kind, body) = if let Some(hand) = hands.get(&at) {
            ("by hand", Body::Inside(call(native, hand)))
        } else if let Some(body) = properties.body(native) {
            ("generated", body)
        } else {
            let signature = &native.signature.text;
            missing.push_str(&format!("{}.{}{signature}\n", native.class, native.name));
            let class = native.class.replace('/', ".");
            let thrown = format!("Err(missing(\"org.rocksdb.{class}.{}\"))", native.name);
            ("missing", Body::Inside(thrown))
        };
        *counts.entry(kind).or_default() += 1;
        export(&mut code, native, &body);
    }
    let mut state = String::new();
    for (kind, count) in counts {
        state.push_str(&format!("{kind} {count}\n"));
    }
    let families = properties.of_families(&natives);
    write(&out.join("natives.rs"), &code);
    write(&out.join("natives_state.txt"), &state);
    write(&out.join("missing.txt"), &missing);
    write(&out.join("family_properties.rs"), &families);
}

/// The call of a function of `src/api`.
fn call(native: &Native, hand: &Hand) -> String {
    let groups = native.signature.groups();
    let places: Vec<Place> = match &hand.places {
        Some(places) => places.clone(),
        None => (0..groups.len()).map(Place::Argument).collect(),
    };
    let mut arguments = String::from("env");
    for place in places {
        let value = match place {
            Place::This => "this".to_string(),
            Place::Zero => "0i64".to_string(),
            Place::Argument(at) => groups
                .get(at)
                .unwrap_or_else(|| panic!("{}.{} has no argument {at}", native.class, native.name))
                .clone(),
        };
        arguments.push_str(&format!(", from(env, {value})?"));
    }
    format!("into(env, crate::api::{}({arguments})?)", hand.path)
}

/// What an exported function does, as Rust.
enum Body {
    /// What `enter` runs.
    Inside(String),
    /// All of it: what it calls enters.
    Whole(String),
}

/// The exported function.
fn export(code: &mut String, native: &Native, body: &Body) {
    let name = native.signature.export_name(&native.class, &native.name);
    let raw = native.signature.raw_types();
    let parameters: Vec<String> =
        raw.iter().enumerate().map(|(at, raw)| format!(", a{at}: {raw}")).collect();
    let parameters = parameters.concat();
    let result = native.signature.result();
    let method = format!("org.rocksdb.{}.{}", native.class.replace('/', "."), native.name);
    let body = match body {
        Body::Inside(body) => format!("enter::<{result}>(raw, method, |env| {body})"),
        Body::Whole(body) => body.clone(),
    };
    code.push_str(&format!(
        "#[unsafe(no_mangle)]\n\
         pub unsafe extern \"system\" fn {name}(\n\
         raw: *mut JNIEnv, this: jobject{parameters}) -> {result} {{\n\
         let method = \"{method}\";\n\
         // SAFETY: invariants 1 to 4 of ffi.\n\
         unsafe {{ {body} }}\n}}\n"
    ));
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

fn read_natives(path: &Path) -> Vec<Native> {
    let text = read(path);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let native = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[class, name, signature, _jars] = columns.as_slice() else {
            panic!("{}: {line}", path.display());
        };
        Native {
            class: class.to_string(),
            name: name.to_string(),
            signature: Signature::parse(signature),
        }
    };
    lines.map(native).collect()
}
