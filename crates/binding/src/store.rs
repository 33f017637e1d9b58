//! Objects of a binding that are plain values: numbers and texts by property, with RocksDB 11.8's
//! defaults.
//!
//! Options that the engine does not have are kept here, too, so that they are read back as they
//! were set. What an option does is decided where the object is used (`options`, `requests`).
//!
//! A number is kept as 64 bits: integers with their sign extended, booleans as 0 or 1, doubles as
//! their bits. A text is kept with a zero byte behind it, for bindings that lend it to C.
//!
//! Thread safety: plain data; classes are immutable.

use std::sync::OnceLock;

use crate::table;

static TABLE: &str = include_str!("../tables/accessors.tsv");

/// The type of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0 or 1.
    Bool,
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A double.
    Double,
    /// Bytes.
    Text,
}

/// What the value of a property does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The property is the engine's option of that name; the number stands for a text of the list.
    Row(&'static str, Option<&'static str>),
    /// Nothing by itself.
    Store,
    /// Kept; the engine works as with the default.
    Ignored,
    /// Kept; an open refuses another value than the default.
    Refused,
}

/// A property of a class.
#[derive(Debug)]
pub struct Property {
    /// The property's name.
    pub name: &'static str,
    /// The property's type.
    pub kind: Kind,
    /// The property's place among the numbers, or among the texts.
    pub place: usize,
    /// What it does.
    pub target: Target,
    default: u64,
}

/// A type of object.
#[derive(Debug)]
pub struct Class {
    /// The class's name in the table.
    pub name: &'static str,
    /// The class's properties, in the order of the table.
    pub properties: Vec<Property>,
    numbers: Box<[u64]>,
    texts: Box<[Vec<u8>]>,
}

impl Class {
    /// All classes, in the order of the table.
    pub fn all() -> &'static [Class] {
        static CLASSES: OnceLock<Vec<Class>> = OnceLock::new();
        CLASSES.get_or_init(|| {
            let rows = table::rows(TABLE);
            // Every program makes options first, and its signals are its own.
            pumice_port::fiber::leave_signals_alone();
            let class = |name| Class::new(name, &rows);
            table::objects(&rows).into_iter().map(class).collect()
        })
    }

    /// The class with that name, which must be in the table.
    pub fn named(name: &str) -> &'static Class {
        let found = Class::all().iter().find(|class| class.name == name);
        found.unwrap_or_else(|| panic!("{name} is in the table of accessors"))
    }

    fn new(name: &'static str, rows: &[table::Row<'static>]) -> Class {
        let own = rows.iter().filter(|row| row.object == name);
        let properties: Vec<Property> = own.map(Property::new).collect();
        let numbers = properties.iter().filter(|p| p.kind != Kind::Text);
        let numbers: Box<[u64]> = numbers.map(|p| p.default).collect();
        let own = rows.iter().filter(|row| row.object == name);
        let texts = own.filter(|row| table::is_text_kind(row.kind));
        let texts = texts.map(|row| match row.default {
            "-" => vec![0],
            text => [text.as_bytes(), &[0]].concat(),
        });
        let texts = texts.collect();
        Class { name, properties, numbers, texts }
    }

    /// The property of that name.
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }

    fn expect(&self, name: &str) -> &Property {
        let found = self.property(name);
        found.unwrap_or_else(|| panic!("{}.{name} is in the table of accessors", self.name))
    }
}

impl Property {
    fn new(row: &table::Row<'static>) -> Property {
        let kind = match row.kind {
            "bool" => Kind::Bool,
            "text" | "opt" => Kind::Text,
            "f64" => Kind::Double,
            "i32" | "i64" => Kind::Signed,
            _ => Kind::Unsigned,
        };
        let target = match row.target {
            "store" => Target::Store,
            "refused" => Target::Refused,
            "ignored" => Target::Ignored,
            other => {
                let row = other.strip_prefix("row:").unwrap_or(other);
                match row.split_once('/') {
                    Some((row, list)) => Target::Row(row, Some(list)),
                    None => Target::Row(row, None),
                }
            }
        };
        let default = match kind {
            Kind::Text => 0,
            Kind::Double => row.default.parse::<f64>().unwrap_or(f64::NAN).to_bits(),
            Kind::Signed => row.default.parse::<i64>().unwrap_or(i64::MIN).cast_unsigned(),
            Kind::Bool | Kind::Unsigned => row.default.parse().unwrap_or(u64::MAX),
        };
        Property { name: row.name, kind, place: row.place, target, default }
    }

    /// The value of a fresh object.
    pub fn default_bits(&self) -> u64 {
        self.default
    }
}

/// The values of one object.
#[derive(Clone, Debug)]
pub struct Store {
    class: &'static Class,
    numbers: Box<[u64]>,
    texts: Box<[Vec<u8>]>,
}

impl Store {
    /// A fresh object of the class with that number in the table.
    pub fn of_class(number: usize) -> Store {
        Store::fresh(&Class::all()[number])
    }

    /// A fresh object of the class with that name, which must be in the table.
    pub fn named(name: &str) -> Store {
        Store::fresh(Class::named(name))
    }

    fn fresh(class: &'static Class) -> Store {
        Store { class, numbers: class.numbers.clone(), texts: class.texts.clone() }
    }

    /// The object's class.
    pub fn class(&self) -> &'static Class {
        self.class
    }

    /// The bits of the number at `place`; 0 for a place that there is not.
    pub fn number(&self, place: usize) -> u64 {
        self.numbers.get(place).copied().unwrap_or(0)
    }

    /// Sets the number at `place`; booleans become 0 or 1.
    pub fn set_number(&mut self, place: usize, bits: u64) {
        let is_it = |p: &&Property| p.place == place && p.kind != Kind::Text;
        let property = self.class.properties.iter().find(is_it);
        let is_bool = property.is_some_and(|p| p.kind == Kind::Bool);
        if let Some(number) = self.numbers.get_mut(place) {
            *number = if is_bool { u64::from(bits != 0) } else { bits };
        }
    }

    /// The text at `place`, a zero byte behind it.
    pub fn text_with_zero(&self, place: usize) -> &[u8] {
        self.texts.get(place).map_or(&[0], Vec::as_slice)
    }

    /// The bits of the number `name`, which the class must have.
    pub fn bits(&self, name: &str) -> u64 {
        self.number(self.class.expect(name).place)
    }

    /// The integer `name`.
    pub fn int(&self, name: &str) -> i64 {
        self.bits(name).cast_signed()
    }

    /// The flag `name`.
    pub fn flag(&self, name: &str) -> bool {
        self.bits(name) != 0
    }

    /// The double `name`.
    pub fn double(&self, name: &str) -> f64 {
        f64::from_bits(self.bits(name))
    }

    /// The text `name`.
    pub fn text(&self, name: &str) -> &[u8] {
        let text = self.text_with_zero(self.class.expect(name).place);
        text.split_last().map_or(&[], |(_, text)| text)
    }

    /// Sets the number `name` from its bits.
    pub fn put(&mut self, name: &str, bits: u64) {
        self.set_number(self.class.expect(name).place, bits);
    }

    /// Sets the integer `name`.
    pub fn put_int(&mut self, name: &str, value: i64) {
        self.put(name, value.cast_unsigned());
    }

    /// Sets the double `name`.
    pub fn put_double(&mut self, name: &str, value: f64) {
        self.put(name, value.to_bits());
    }

    /// Sets the text `name`.
    pub fn put_text(&mut self, name: &str, text: impl AsRef<[u8]>) {
        let place = self.class.expect(name).place;
        if let Some(slot) = self.texts.get_mut(place) {
            slot.clear();
            slot.extend_from_slice(text.as_ref());
            slot.push(0);
        }
    }

    /// With the number `name` set from its bits.
    #[must_use]
    pub fn with(mut self, name: &str, bits: u64) -> Store {
        self.put(name, bits);
        self
    }

    /// With the text `name`.
    #[must_use]
    pub fn with_text(mut self, name: &str, text: impl AsRef<[u8]>) -> Store {
        self.put_text(name, text);
        self
    }
}

/// An object whose plain values are in a store.
pub trait Fields {
    /// The values.
    fn store(&self) -> &Store;
    /// The values, to change; call [`Fields::changed`] afterwards.
    fn store_mut(&mut self) -> &mut Store;
    /// A value has changed.
    fn changed(&mut self) {}
}

/// An object that is nothing but values, of the class with this number.
#[derive(Clone, Debug)]
pub struct Plain<const CLASS: usize>(pub Store);

impl<const CLASS: usize> Default for Plain<CLASS> {
    fn default() -> Self {
        Plain(Store::of_class(CLASS))
    }
}

impl<const CLASS: usize> Fields for Plain<CLASS> {
    fn store(&self) -> &Store {
        &self.0
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        let rows = table::rows(TABLE);
        assert_eq!(rows.len(), lines, "a row lacks a column");
        let objects = table::objects(&rows);
        let mut distinct = objects.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), objects.len(), "the rows of an object are not together");
        for row in &rows {
            let known = ["bool", "u8", "i32", "u32", "i64", "u64", "f64", "text", "opt"];
            assert!(known.contains(&row.kind), "{}.{}: {}", row.object, row.name, row.kind);
            let value = row.default.parse::<f64>();
            assert_eq!(
                value.is_err(),
                table::is_text_kind(row.kind),
                "{}.{}",
                row.object,
                row.name
            );
        }
    }

    #[test]
    fn values_are_read_as_they_were_set() {
        let mut options = Store::named("readoptions");
        assert!(options.flag("fill_cache"));
        assert_eq!(options.bits("value_size_soft_limit"), u64::MAX);
        options.put("fill_cache", 0);
        options.put_int("read_tier", -7);
        assert!(!options.flag("fill_cache"));
        assert_eq!(options.int("read_tier"), -7);
        options.put("pin_data", 255);
        assert_eq!(options.bits("pin_data"), 1);
        let file = Store::named("wal_file").with_text("path_name", "/000004.log");
        assert_eq!(file.text("path_name"), b"/000004.log");
        assert_eq!(file.text_with_zero(0), b"/000004.log\0");
    }
}
