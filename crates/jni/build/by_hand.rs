//! Which functions of `src/api` are which native methods.
//!
//! A line of documentation says `Java: CLASS.METHOD (ARGUMENTS) PLACES`. Classes and methods may be
//! several, with `|` between; the ending `Jni` is left out. The arguments are needed where a method
//! is overloaded: as in the class file, `T` for a text and `U` for a buffer. Places say which
//! argument goes where: a number, counted over groups (`Signature::groups`), `-` for a null handle,
//! `this` for the object. Without places all arguments go in their order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Native;

/// Where an argument of a function comes from.
#[derive(Clone, Copy)]
pub enum Place {
    Argument(usize),
    Zero,
    This,
}

/// A function that is a native method.
pub struct Hand {
    /// Its path below `crate::api`.
    pub path: String,
    pub places: Option<Vec<Place>>,
}

/// The functions by the number of their method.
pub fn read(folder: &Path, natives: &[Native]) -> BTreeMap<usize, Hand> {
    let mut hands = BTreeMap::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries.map(|entry| entry.expect("a readable folder").path()) {
        let module = entry.file_stem().expect("a file").to_string_lossy().into_owned();
        let text = crate::read(&entry);
        let mut open: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(line) = line.strip_prefix("/// Java: ") {
                open.push(line);
            } else if let Some(rest) = line.strip_prefix("pub fn ") {
                let end = rest.find(['(', '<']).unwrap_or_else(|| panic!("no arguments: {line}"));
                for line in open.drain(..) {
                    add(&mut hands, natives, line, &format!("{module}::{}", &rest[..end]));
                }
            }
        }
        assert!(open.is_empty(), "{}: no function behind {open:?}", entry.display());
    }
    hands
}

fn add(hands: &mut BTreeMap<usize, Hand>, natives: &[Native], line: &str, path: &str) {
    let mut words = line.split_whitespace().peekable();
    let (classes, names) =
        words.next().and_then(|word| word.split_once('.')).unwrap_or_else(|| panic!("{line}"));
    let is_signature = |word: &&str| word.starts_with('(');
    let arguments = words.next_if(is_signature).map(|word| word.trim_matches(['(', ')']));
    let places: Vec<Place> = words
        .map(|word| match word {
            "-" => Place::Zero,
            "this" => Place::This,
            number => Place::Argument(number.parse().unwrap_or_else(|_| panic!("{line}"))),
        })
        .collect();
    let mut found = false;
    for (at, native) in natives.iter().enumerate() {
        let fits = classes.split('|').any(|class| class == native.class)
            && names.split('|').any(|name| name == native.plain_name())
            && arguments.is_none_or(|arguments| arguments == native.signature.short());
        if !fits {
            continue;
        }
        found = true;
        let places = (!places.is_empty()).then(|| places.clone());
        let before = hands.insert(at, Hand { path: path.to_string(), places });
        assert!(before.is_none(), "two functions for {}: {line}", native.name);
    }
    assert!(found, "there is no such method: {line}");
}
