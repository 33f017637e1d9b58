//! Reading `tables/accessors.tsv`: which properties an object has, in which order.
//!
//! Pure, and without other modules of the crate: the build script of the C library includes this
//! file, so that both give a property the same place.
//!
//! Thread safety: pure functions.

/// One property of an object.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The object: the C type without `rocksdb_` and `_t`.
    pub object: &'a str,
    /// The property.
    pub name: &'a str,
    /// `bool`, `u8`, `i32`, `u32`, `i64`, `u64`, `f64`, `text`, or `opt`: text that may be null.
    pub kind: &'a str,
    /// The value of a fresh object; `-` is empty text.
    pub default: &'a str,
    /// What the value does.
    pub target: &'a str,
    /// The C function that reads it; `-` for none.
    pub getter: &'a str,
    /// The C functions that set it, with commas; `-` for none.
    pub setters: &'a str,
    /// The property's place among the numbers of the object, or among its texts.
    pub place: usize,
}

/// The rows of the table, those of one object one after the other. A line with too few columns is
/// left out; a test of the crate finds it.
pub fn rows(table: &str) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[object, name, kind, default, target, getter, setters] = columns.as_slice() else {
            continue;
        };
        let is_text = is_text_kind(kind);
        let before = rows.iter().rev().take_while(|row| row.object == object);
        let place = before.filter(|row| is_text_kind(row.kind) == is_text).count();
        rows.push(Row { object, name, kind, default, target, getter, setters, place });
    }
    rows
}

/// The property is a text.
pub fn is_text_kind(kind: &str) -> bool {
    kind == "text" || kind == "opt"
}

/// The objects of the rows, in order.
pub fn objects<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let mut objects: Vec<&str> = rows.iter().map(|row| row.object).collect();
    objects.dedup();
    objects
}
