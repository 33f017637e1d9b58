//! From stored values to the engine's options by name, and back.
//!
//! Thread safety: pure functions.

use pumice::options::row::OptionSet;
use pumice::options::text;
use pumice::{Error, Options, Result};

use crate::store::{Class, Kind, Property, Store, Target};
use crate::value;

/// Options that have names, as the engine's.
pub trait Named {
    /// The text of an option without members.
    fn text_of(&self, name: &str) -> Result<String>;
    /// Sets an option or, as `option.member`, a part of it.
    fn set_text(&mut self, name: &str, text: &str) -> Result<()>;
}

impl Named for Options {
    fn text_of(&self, name: &str) -> Result<String> {
        self.get(name)
    }
    fn set_text(&mut self, name: &str, text: &str) -> Result<()> {
        self.set(name, text)
    }
}

impl Named for pumice::BlockBasedTableOptions {
    fn text_of(&self, name: &str) -> Result<String> {
        self.get(name)
    }
    fn set_text(&mut self, name: &str, text: &str) -> Result<()> {
        self.set(name, text)
    }
}

impl Named for pumice::options::CuckooTableOptions {
    fn text_of(&self, name: &str) -> Result<String> {
        self.get(name)
    }
    fn set_text(&mut self, name: &str, text: &str) -> Result<()> {
        self.set(name, text)
    }
}

/// Writes the values of `store` over `options`. Returns those that have no effect, as
/// `name=value`.
///
/// # Errors
/// The first option that has a value this build refuses, by its name.
pub fn overlay(store: &Store, options: &mut impl Named) -> Result<Vec<String>> {
    let mut ignored = Vec::new();
    for property in &store.class().properties {
        if property.kind == Kind::Text {
            continue;
        }
        let bits = clamped(property, store.number(property.place));
        let is_default = bits == property.default_bits();
        match property.target {
            Target::Store => {}
            Target::Ignored if is_default => {}
            Target::Ignored => {
                let text = value::to_text(property.kind, None, bits);
                ignored.push(format!("{}={text}", property.name));
            }
            Target::Refused if is_default => {}
            Target::Refused => return Err(refused(property, bits)),
            Target::Row(name, list) => {
                let text = value::to_text(property.kind, list, bits);
                // A member has no text of its own to compare with.
                if name.contains('.') || bits_of(options, property) != Some(bits) {
                    options.set_text(name, &text)?;
                }
            }
        }
    }
    Ok(ignored)
}

fn refused(property: &Property, bits: u64) -> Error {
    let text = value::to_text(property.kind, None, bits);
    let standard = value::to_text(property.kind, None, property.default_bits());
    Error::not_supported(format!(
        "{}={text} is not supported by this build; only {standard} is",
        property.name
    ))
}

/// What RocksDB makes of these; the engine refuses them.
fn clamped(property: &Property, bits: u64) -> u64 {
    match property.name {
        "max_background_jobs" if bits.cast_signed() < 1 => 1,
        "writable_file_max_buffer_size" => bits.max(4096),
        // Unsigned in RocksDB, where -1 is the largest number.
        "min_merge_width" | "max_merge_width" => bits & u64::from(u32::MAX),
        _ => bits,
    }
}

/// The value that `options` have for the property, if they have it.
fn bits_of(options: &impl Named, property: &Property) -> Option<u64> {
    let Target::Row(name, list) = property.target else { return None };
    let text = match name.split_once('.') {
        None => options.text_of(name).ok()?,
        Some((name, member)) => {
            let members = text::parse_map(&options.text_of(name).ok()?).ok()?;
            members.into_iter().find(|(name, _)| name == member)?.1
        }
    };
    value::to_bits(property.kind, list, &text)
}

/// Reads the values of `options` into `store`; what they do not have stays.
pub fn read_back(store: &mut Store, options: &impl Named) {
    let class: &Class = store.class();
    for property in class.properties.iter().filter(|p| p.kind != Kind::Text) {
        if let Some(bits) = bits_of(options, property) {
            store.set_number(property.place, bits);
        }
    }
}

/// The property of `class` that is the engine's option `name`, or has that name.
pub fn property_of(class: &'static Class, name: &str) -> Option<&'static Property> {
    let is_row = |p: &&Property| matches!(p.target, Target::Row(row, _) if row == name);
    class.properties.iter().find(is_row).or_else(|| class.property(name))
}

/// Whether the engine has an option of that name.
pub fn has_row(name: &str) -> bool {
    let name = name.split('.').next().unwrap_or(name);
    pumice::DbOptions::row(name).is_some() || pumice::ColumnFamilyOptions::row(name).is_some()
}
