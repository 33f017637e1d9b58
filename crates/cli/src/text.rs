//! Keys and values as text: plain, or `0x` and upper-case hexadecimal digits.

use pumice_base::Comparator;
use pumice_base::key::{InternalKey, ValueType};
use pumice_base::wide_columns::{self, WideColumn};
use pumice_table::blob::index::BlobIndex;

/// How entries are printed.
#[derive(Clone, Copy, Default)]
pub struct Format {
    /// Keys are hexadecimal digits.
    pub key_hex: bool,
    /// Values are hexadecimal digits.
    pub value_hex: bool,
    /// Indexes of blobs are spelled out.
    pub decode_blob_index: bool,
}

/// The bytes that `text` means.
///
/// # Errors
/// `hex` is wanted, and `text` is not `0x` with an even number of hexadecimal digits.
pub fn parse(text: impl AsRef<[u8]>, hex: bool) -> Result<Vec<u8>, String> {
    let text = text.as_ref();
    if !hex {
        return Ok(text.to_vec());
    }
    let wrong = |why: &str| format!("Invalid hex input {}.  {why}", String::from_utf8_lossy(text));
    let Some(digits) = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) else {
        return Err(wrong("Must start with 0x"));
    };
    let nibble = |digit: u8| (digit as char).to_digit(16);
    let bytes: Option<Vec<u8>> = match digits.len() % 2 {
        0 => digits
            .chunks_exact(2)
            .map(|pair| Some((nibble(pair[0])? * 16 + nibble(pair[1])?) as u8))
            .collect(),
        _ => None,
    };
    bytes.ok_or_else(|| wrong("It needs pairs of hexadecimal digits"))
}

/// `bytes` for people.
pub fn show(bytes: &[u8], hex: bool) -> Vec<u8> {
    if hex { [&b"0x"[..], &show_plain(bytes, true)].concat() } else { bytes.to_vec() }
}

/// An internal key as RocksDB's tools print it: `'abc' seq:7, type:1`, with the raw bytes if not
/// `hex`.
pub fn show_internal_key(ikey: &[u8], hex: bool) -> Vec<u8> {
    let Some(key) = InternalKey::checked(ikey) else {
        return [&b"(bad)"[..], &show_plain(ikey, true)].concat();
    };
    let (sequence, tag) = key.sequence_and_type();
    let mut out = vec![b'\''];
    out.extend(show_plain(key.user_key().as_bytes(), hex));
    out.extend(format!("' seq:{sequence}, type:{tag}").into_bytes());
    out
}

/// As [`show_internal_key`], of a key in `order`: a timestamp is shown apart.
pub fn show_timed_key(ikey: &[u8], hex: bool, order: &Comparator) -> Vec<u8> {
    let key = InternalKey::checked(ikey).filter(|_| order.timestamp_size() > 0);
    let Some(key) = key else { return show_internal_key(ikey, hex) };
    let (sequence, tag) = key.sequence_and_type();
    let time = order.timestamp_to_string(order.timestamp_of(key.user_key()));
    let mut out = vec![b'\''];
    out.extend(show_plain(order.without_timestamp(key.user_key()).as_bytes(), hex));
    out.extend(format!("|timestamp:{time}' seq:{sequence}, type:{tag}").into_bytes());
    out
}

/// Columns as RocksDB's tools print them, `name:value name:value`; empty names and values print
/// nothing.
pub fn show_columns<'a>(columns: impl IntoIterator<Item = WideColumn<'a>>, hex: bool) -> Vec<u8> {
    let part = |bytes: &[u8]| if bytes.is_empty() { Vec::new() } else { show(bytes, hex) };
    let columns = columns.into_iter();
    let columns =
        columns.map(|column| [&part(column.name)[..], b":", &part(column.value)].concat());
    columns.collect::<Vec<_>>().join(&b' ')
}

/// The value of an internal key; None, after a message on stderr, for a malformed entity or index.
pub fn show_stored(ikey: &[u8], value: &[u8], format: Format) -> Option<Vec<u8>> {
    let hex = format.value_hex;
    let failed = |what: &str| {
        let key = show_internal_key(ikey, format.key_hex);
        eprintln!("{} => error {what}", String::from_utf8_lossy(&key));
    };
    match InternalKey::checked(ikey).and_then(|key| ValueType::from_u8(key.tag())) {
        Some(ValueType::WideColumnEntity) => match wide_columns::decode(value) {
            Ok(columns) => Some(show_columns(columns, hex)),
            Err(_) => {
                failed("deserializing wide columns");
                None
            }
        },
        Some(ValueType::BlobIndex) if format.decode_blob_index => match BlobIndex::decode(value) {
            Ok(index) => Some(show_blob_index(&index)),
            Err(_) => {
                failed("decoding blob index");
                None
            }
        },
        _ => Some(show_plain(value, hex)),
    }
}

/// Where a value is, in the words of RocksDB's tools.
fn show_blob_index(index: &BlobIndex) -> Vec<u8> {
    let BlobIndex { offset, size, compression, .. } = index;
    let file = if index.in_table { 0 } else { index.file };
    let codec = compression.property_name();
    format!("[blob ref] file:{file} offset:{offset} size:{size} compression: {codec}").into_bytes()
}

/// `bytes` without the `0x` in front.
pub fn show_plain(bytes: &[u8], hex: bool) -> Vec<u8> {
    if !hex {
        return bytes.to_vec();
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_base::key::internal_key;

    #[pumice_test_macros::test]
    fn both_ways() {
        assert_eq!(parse("0x00fFa1", true).unwrap(), [0, 255, 0xa1]);
        assert_eq!(show(&[0, 255, 0xa1], true), b"0x00FFA1");
        assert_eq!(parse("0x61", false).unwrap(), b"0x61");
        let ikey = internal_key(b"k\xff", 7, ValueType::Value);
        assert_eq!(show_internal_key(&ikey, false), b"'k\xff' seq:7, type:1");
        assert_eq!(show_internal_key(&ikey, true), b"'6BFF' seq:7, type:1");
        assert_eq!(show_internal_key(&ikey[..3], true), b"(bad)6BFF01");
        let columns = [WideColumn::of_plain(b"v"), WideColumn::new(b"n", b"")];
        assert_eq!(show_columns(columns, false), b":v n:");
        assert_eq!(show_columns(columns, true), b":0x76 0x6E:");
        let ikey = internal_key(b"k", 7, ValueType::WideColumnEntity);
        let entity = b"\x01\x01\x01n\x01v";
        assert_eq!(show_stored(&ikey, entity, Format::default()).unwrap(), b"n:v");
        assert_eq!(show_stored(&ikey, &entity[1..], Format::default()), None);
        for wrong in ["61", "0x6", "0xzz", "0x+1", ""] {
            assert!(parse(wrong, true).is_err(), "{wrong}");
        }
    }
}
