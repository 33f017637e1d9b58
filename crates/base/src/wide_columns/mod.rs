//! Wide-column entities: values that are columns with names, as RocksDB stores them.
//!
//! ```text
//! version 1: varint32 1 ‖ varint32 n ‖ n × (length-prefixed name ‖ varint32 value size) ‖ values
//! version 2: docs/format/values.md#wide-columns
//! ```
//!
//! Version 1 is written; version 2 where a column is in a blob file, whose value here is the blob's
//! index: who has the files replaces it before anybody decodes the entity. Names ascend bytewise,
//! whatever the comparator of the keys; the column with the empty name is the default one, which is
//! returned when a plain value is requested.
//!
//! Thread safety: pure functions and plain data. Bytes from disk never panic, and what is allocated
//! is bounded by their number.

use crate::coding::{Decoder, put_length_prefixed, put_varint32};
use crate::error::{Error, Result};

/// Name of the column that plain reads see.
///
/// Example: that of [`WideColumn`].
pub const DEFAULT_COLUMN: &[u8] = b"";

const VERSION_1: u32 = 1;
const VERSION_2: u32 = 2;
/// Type bytes of columns in version 2.
const INLINE: u8 = 0x01;
const IN_BLOB_FILE: u8 = 0x11;

/// A column: name and value.
///
/// ```
/// # use pumice_base::{WideColumn, wide_columns::DEFAULT_COLUMN};
/// let column = WideColumn { name: b"born", value: b"1815" };
/// assert_eq!((column.name, column.value), (&b"born"[..], &b"1815"[..]));
/// // What plain reads see of an entity.
/// assert_eq!(DEFAULT_COLUMN, b"");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideColumn<'a> {
    /// Unique in its entity; empty for the default column.
    pub name: &'a [u8],
    /// Any bytes.
    pub value: &'a [u8],
}

impl<'a> WideColumn<'a> {
    /// A column of that name and value.
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        WideColumn { name, value }
    }

    /// The column that stands for a plain value.
    pub fn of_plain(value: &'a [u8]) -> Self {
        WideColumn { name: DEFAULT_COLUMN, value }
    }

    /// Whether this is the default column.
    pub fn is_default(&self) -> bool {
        self.name.is_empty()
    }
}

/// The stored form of `columns`, which are sorted first.
///
/// # Errors
/// Corruption, as in RocksDB, if two have one name; InvalidArgument if there are too many, or a
/// name or value is 4 GiB or more.
pub fn encode(columns: &mut [WideColumn<'_>]) -> Result<Vec<u8>> {
    columns.sort_unstable_by_key(|column| column.name);
    if columns.windows(2).any(|pair| pair[0].name == pair[1].name) {
        return Err(out_of_order());
    }
    let count = narrow(columns.len(), "Too many wide columns")?;
    let bytes: usize = columns.iter().map(|c| c.name.len() + c.value.len() + 10).sum();
    let mut out = Vec::with_capacity(bytes + 10);
    put_varint32(&mut out, VERSION_1);
    put_varint32(&mut out, count);
    for column in &*columns {
        narrow(column.name.len(), "Wide column name too long")?;
        put_length_prefixed(&mut out, column.name);
        put_varint32(&mut out, narrow(column.value.len(), "Wide column value too long")?);
    }
    columns.iter().for_each(|column| out.extend_from_slice(column.value));
    Ok(out)
}

/// [`encode`] of names and values in whatever order they come.
///
/// # Errors
/// As [`encode`].
pub fn encode_pairs<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    columns: impl IntoIterator<Item = (N, V)>,
) -> Result<Vec<u8>> {
    let columns: Vec<(N, V)> = columns.into_iter().collect();
    let parts = columns.iter().map(|(name, value)| (name.as_ref(), value.as_ref()));
    let mut columns: Vec<_> = parts.map(|(name, value)| WideColumn::new(name, value)).collect();
    encode(&mut columns)
}

fn narrow(length: usize, refusal: &'static str) -> Result<u32> {
    u32::try_from(length).map_err(|_| Error::invalid_argument(refusal))
}

#[cold]
fn out_of_order() -> Error {
    Error::corruption("Wide columns out of order")
}

#[cold]
fn malformed(part: &str) -> Error {
    Error::corruption(format!("Error decoding wide column {part}"))
}

/// The columns of a stored entity, by name ascending.
///
/// # Errors
/// Corruption for malformed bytes, names that do not ascend and left-over bytes; NotSupported for
/// versions above 2 and for columns in blob files, see [`decode_stored`].
pub fn decode(entity: &[u8]) -> Result<Vec<WideColumn<'_>>> {
    let (columns, kinds) = decode_parts(entity)?;
    match kinds.contains(&IN_BLOB_FILE) {
        false => Ok(columns),
        true => Err(Error::not_supported("wide columns in blob files, which are not at hand")),
    }
}

/// A column as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredColumn<'a> {
    /// The column; its value is the index of a blob with `in_blob_file`.
    pub column: WideColumn<'a>,
    /// Where the value is.
    pub in_blob_file: bool,
}

/// The columns of a stored entity, by name ascending, some of which may be in blob files.
///
/// # Errors
/// As [`decode`].
pub fn decode_stored(entity: &[u8]) -> Result<Vec<StoredColumn<'_>>> {
    let (columns, kinds) = decode_parts(entity)?;
    // Version 1 has no kinds.
    let kinds = kinds.iter().copied().chain(std::iter::repeat(INLINE));
    let stored = columns.into_iter().zip(kinds);
    Ok(stored
        .map(|(column, kind)| StoredColumn { column, in_blob_file: kind == IN_BLOB_FILE })
        .collect())
}

/// The stored form of columns that come by name ascending: version 1 if all values are inline.
///
/// # Errors
/// As [`encode`].
pub fn encode_stored(columns: &[StoredColumn<'_>]) -> Result<Vec<u8>> {
    if !columns.iter().any(|stored| stored.in_blob_file) {
        return encode(&mut columns.iter().map(|stored| stored.column).collect::<Vec<_>>());
    }
    let (mut name_sizes, mut value_sizes) = (Vec::new(), Vec::new());
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for StoredColumn { column, .. } in columns {
        put_varint32(&mut name_sizes, narrow(column.name.len(), "Wide column name too long")?);
        put_varint32(&mut value_sizes, narrow(column.value.len(), "Wide column value too long")?);
        names.extend_from_slice(column.name);
        values.extend_from_slice(column.value);
    }
    let kind = |stored: &StoredColumn<'_>| if stored.in_blob_file { IN_BLOB_FILE } else { INLINE };
    let mut out = Vec::with_capacity(values.len() + names.len() + 8 * columns.len() + 32);
    put_varint32(&mut out, VERSION_2);
    put_varint32(&mut out, narrow(columns.len(), "Too many wide columns")?);
    put_varint32(&mut out, narrow(name_sizes.len(), "Wide column metadata too large")?);
    put_varint32(&mut out, narrow(value_sizes.len(), "Wide column metadata too large")?);
    put_varint32(&mut out, narrow(names.len(), "Wide column names too large")?);
    out.extend(columns.iter().map(kind));
    for part in [name_sizes, value_sizes, names, values] {
        out.extend_from_slice(&part);
    }
    Ok(out)
}

/// Some column of a stored entity is in a blob file. Entities that cannot be decoded have none.
pub fn has_blobs(entity: &[u8]) -> bool {
    entity.first().is_some_and(|version| u32::from(*version) == VERSION_2)
        && decode_parts(entity).is_ok_and(|(_, kinds)| kinds.contains(&IN_BLOB_FILE))
}

fn decode_parts(entity: &[u8]) -> Result<(Vec<WideColumn<'_>>, &[u8])> {
    let mut input = Decoder::new(entity);
    let version = input.varint32().ok_or_else(|| malformed("version"))?;
    if version > VERSION_2 {
        return Err(Error::not_supported(format!("Unsupported wide column version: {version}")));
    }
    let count = input.varint32();
    let count = count.ok_or_else(|| Error::corruption("Error decoding number of wide columns"))?;
    // A column has two bytes or more, whatever the count claims.
    let count = Some(count as usize).filter(|count| *count <= input.rest().len() / 2);
    let count = count.ok_or_else(|| malformed("name"))?;
    let (columns, sizes, kinds) = match version {
        VERSION_1 => names_of_version_1(&mut input, count)?,
        VERSION_2 => names_of_version_2(&mut input, count)?,
        _ => return Err(malformed("version")),
    };
    if columns.windows(2).any(|pair| pair[0].name >= pair[1].name) {
        return Err(out_of_order());
    }
    Ok((with_values(columns, &sizes, input)?, kinds))
}

/// Columns without values yet, the sizes of these and what they are, where that is stored.
type Named<'a> = (Vec<WideColumn<'a>>, Vec<u32>, &'a [u8]);

fn names_of_version_1<'a>(input: &mut Decoder<'a>, count: usize) -> Result<Named<'a>> {
    let (mut columns, mut sizes) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let name = input.length_prefixed().ok_or_else(|| malformed("name"))?;
        sizes.push(input.varint32().ok_or_else(|| malformed("value size"))?);
        columns.push(WideColumn::new(name, b""));
    }
    Ok((columns, sizes, &[]))
}

/// The bytes of a section whose length is the next number of `lengths`.
fn section<'a>(lengths: &mut Decoder<'a>, input: &mut Decoder<'a>) -> Option<Decoder<'a>> {
    let bytes = lengths.varint32()?;
    input.bytes(bytes as usize).map(Decoder::new)
}

/// Numbers that fill a section.
fn numbers(mut section: Decoder<'_>, count: usize) -> Option<Vec<u32>> {
    let numbers = (0..count).map(|_| section.varint32()).collect::<Option<Vec<_>>>();
    numbers.filter(|_| section.is_empty())
}

fn names_of_version_2<'a>(input: &mut Decoder<'a>, count: usize) -> Result<Named<'a>> {
    let mut lengths = *input;
    for _ in 0..3 {
        input.varint32().ok_or_else(|| malformed("section sizes"))?;
    }
    let kinds = input.bytes(count).ok_or_else(|| malformed("types"))?;
    if kinds.iter().any(|kind| ![INLINE, IN_BLOB_FILE].contains(kind)) {
        return Err(malformed("type"));
    }
    let name_sizes = section(&mut lengths, input).and_then(|found| numbers(found, count));
    let name_sizes = name_sizes.ok_or_else(|| malformed("name sizes"))?;
    let sizes = section(&mut lengths, input).and_then(|found| numbers(found, count));
    let sizes = sizes.ok_or_else(|| malformed("value sizes"))?;
    let mut names = section(&mut lengths, input).ok_or_else(|| malformed("names"))?;
    let columns = name_sizes
        .iter()
        .map(|size| names.bytes(*size as usize).map(|name| WideColumn::new(name, b"")));
    let columns: Option<Vec<_>> = columns.collect();
    let columns = columns.filter(|_| names.is_empty()).ok_or_else(|| malformed("name"))?;
    Ok((columns, sizes, kinds))
}

fn with_values<'a>(
    mut columns: Vec<WideColumn<'a>>,
    sizes: &[u32],
    mut input: Decoder<'a>,
) -> Result<Vec<WideColumn<'a>>> {
    for (column, size) in columns.iter_mut().zip(sizes) {
        let value = input.bytes(*size as usize);
        column.value = value.ok_or_else(|| malformed("value payload"))?;
    }
    match input.is_empty() {
        true => Ok(columns),
        false => Err(Error::corruption("Unexpected bytes after a wide-column entity")),
    }
}

/// The default column's value in a stored entity; empty if it has none.
///
/// # Errors
/// As [`decode`].
pub fn default_column(entity: &[u8]) -> Result<&[u8]> {
    let first = decode(entity)?.first().copied();
    Ok(first.filter(WideColumn::is_default).map_or(&[][..], |column| column.value))
}

/// The stored entity with `value` as its default column, which it need not have had.
///
/// # Errors
/// As [`decode`] and [`encode`].
pub fn with_default(entity: &[u8], value: &[u8]) -> Result<Vec<u8>> {
    let mut columns = decode(entity)?;
    match columns.first_mut() {
        Some(first) if first.is_default() => first.value = value,
        _ => columns.insert(0, WideColumn::of_plain(value)),
    }
    encode(&mut columns)
}

#[cfg(test)]
mod tests;
