//! The built-in merge operators, by RocksDB's names.
//!
//! | id | short id | meaning |
//! |---|---|---|
//! | StringAppendOperator | stringappend | values joined by a delimiter, `,` by default |
//! | UInt64AddOperator | uint64add | sum of 64-bit little-endian integers, wrapping |
//! | PutOperator | put | the newest operand wins |
//! | MaxOperator | max | the greatest operand in byte order wins |
//! | MergeSortOperator | sortlist | sorted lists of numbers become one; a value is ignored |
//! | BytesXOR | bytesxor | each byte exclusive-or; the longer value's rest stays |
//!
//! Thread safety: immutable.

use std::sync::Arc;

use pumice_base::extension::MergeOperator;

use super::text::{escape, unescape};
use super::value::Refusal;

/// Joins values with a delimiter.
///
/// Example: that of [`merge_operator_by_name`](super::merge_operator_by_name).
#[derive(Clone, Debug)]
pub struct StringAppend {
    delimiter: Vec<u8>,
}

impl StringAppend {
    /// Joins values with `delimiter`, which may be empty.
    pub fn new(delimiter: impl Into<Vec<u8>>) -> Self {
        StringAppend { delimiter: delimiter.into() }
    }
}

impl Default for StringAppend {
    fn default() -> Self {
        StringAppend::new(b",")
    }
}

impl MergeOperator for StringAppend {
    fn name(&self) -> &str {
        "StringAppendOperator"
    }

    fn option_text(&self) -> String {
        match std::str::from_utf8(&self.delimiter) {
            // Characters that end a member cannot be in one, and blanks around it are lost, except
            // those that are escaped.
            Ok(delimiter)
                if delimiter != ","
                    && !delimiter.contains([';', '{', '}'])
                    && !delimiter.starts_with(is_lost)
                    && !delimiter.ends_with(is_lost) =>
            {
                format!("{{id={};delimiter={};}}", self.name(), escape(delimiter))
            }
            _ => self.name().to_string(),
        }
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let parts = || existing.into_iter().chain(operands.iter().copied());
        let bytes = parts().map(|part| part.len() + self.delimiter.len()).sum();
        let mut joined = Vec::with_capacity(bytes);
        for (nth, part) in parts().enumerate() {
            if nth > 0 {
                joined.extend_from_slice(&self.delimiter);
            }
            joined.extend_from_slice(part);
        }
        Some(joined)
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some([left, right].join(self.delimiter.as_slice()))
    }
}

/// A blank that an option's text loses at its ends.
fn is_lost(c: char) -> bool {
    c.is_whitespace() && !matches!(c, '\n' | '\r')
}

/// Adds 64-bit little-endian integers. A value of another length counts as 0, as in RocksDB.
#[derive(Clone, Copy, Debug, Default)]
pub struct UInt64Add;

impl UInt64Add {
    fn decode(value: &[u8]) -> u64 {
        value.try_into().map_or(0, u64::from_le_bytes)
    }
}

impl MergeOperator for UInt64Add {
    fn name(&self) -> &str {
        "UInt64AddOperator"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let start = existing.map_or(0, Self::decode);
        let sum = operands.iter().fold(start, |sum, v| sum.wrapping_add(Self::decode(v)));
        Some(sum.to_le_bytes().to_vec())
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some(Self::decode(left).wrapping_add(Self::decode(right)).to_le_bytes().to_vec())
    }
}

/// The newest operand replaces the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOperator;

impl MergeOperator for PutOperator {
    fn name(&self) -> &str {
        "PutOperator"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        _existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        operands.last().map(|newest| newest.to_vec())
    }

    fn partial_merge(&self, _key: &[u8], _left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some(right.to_vec())
    }
}

/// The greatest value in byte order wins.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxOperator;

impl MergeOperator for MaxOperator {
    fn name(&self) -> &str {
        "MaxOperator"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        existing.into_iter().chain(operands.iter().copied()).max().map(<[u8]>::to_vec)
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some(left.max(right).to_vec())
    }
}

/// Bytes are combined by exclusive or; what the longer value has beyond the shorter one stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesXor;

impl BytesXor {
    /// Changes `value` by `operand`.
    fn apply(value: &mut Vec<u8>, operand: &[u8]) {
        value.iter_mut().zip(operand).for_each(|(byte, other)| *byte ^= other);
        value.extend_from_slice(operand.get(value.len()..).unwrap_or_default());
    }
}

impl MergeOperator for BytesXor {
    fn name(&self) -> &str {
        "BytesXOR"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let mut value = existing.unwrap_or_default().to_vec();
        operands.iter().for_each(|operand| Self::apply(&mut value, operand));
        Some(value)
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        let mut value = left.to_vec();
        Self::apply(&mut value, right);
        Some(value)
    }
}

/// Merges sorted lists of numbers (32 bits, decimal, with commas between them) into one. Fails if
/// an operand is something else. The value below the operands is ignored, as in RocksDB.
#[derive(Clone, Copy, Debug, Default)]
pub struct SortList;

impl SortList {
    fn merge(operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut numbers: Vec<i32> = Vec::new();
        for operand in operands {
            for number in std::str::from_utf8(operand).ok()?.split(',') {
                numbers.push(number.parse().ok()?);
            }
        }
        numbers.sort_unstable();
        let numbers: Vec<String> = numbers.iter().map(i32::to_string).collect();
        Some(numbers.join(",").into_bytes())
    }
}

impl MergeOperator for SortList {
    fn name(&self) -> &str {
        "MergeSortOperator"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        _existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        Self::merge(operands)
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Self::merge(&[left, right])
    }
}

/// Ids of those that are built in.
const IDS: [&str; 15] = [
    "stringappend",
    "stringappendtest",
    "StringAppendOperator",
    "StringAppendTESTOperator",
    "uint64add",
    "UInt64AddOperator",
    "put",
    "put_v1",
    "PutOperator",
    "max",
    "MaxOperator",
    "bytesxor",
    "BytesXOR",
    "sortlist",
    "MergeSortOperator",
];

/// The built-in operator with that id; `members` are its parameters in option text.
///
/// # Errors
/// Unsupported for an id that is not built in, UnknownName for a parameter it does not have.
pub(super) fn builtin(
    id: &str,
    members: &[(String, String)],
) -> Result<Arc<dyn MergeOperator>, Refusal> {
    let unknown = || {
        Refusal::Unsupported(format!(
            "merge operator {id} is not built in; pass the object in the options"
        ))
    };
    if !IDS.contains(&id) {
        return Err(unknown());
    }
    let mut delimiter = None;
    for (name, value) in members {
        match name.as_str() {
            "delimiter" | "delim" => delimiter = Some(unescape(value)),
            _ => return Err(Refusal::UnknownName(name.clone())),
        }
    }
    match id {
        "stringappend"
        | "stringappendtest"
        | "StringAppendOperator"
        | "StringAppendTESTOperator" => {
            Ok(Arc::new(delimiter.map_or_else(StringAppend::default, StringAppend::new)))
        }
        "uint64add" | "UInt64AddOperator" => Ok(Arc::new(UInt64Add)),
        "put" | "put_v1" | "PutOperator" => Ok(Arc::new(PutOperator)),
        "max" | "MaxOperator" => Ok(Arc::new(MaxOperator)),
        "bytesxor" | "BytesXOR" => Ok(Arc::new(BytesXor)),
        "sortlist" | "MergeSortOperator" => Ok(Arc::new(SortList)),
        _ => Err(unknown()),
    }
}

/// The built-in merge operator of that name or short name, with its default parameters.
///
/// ```
/// use std::sync::Arc;
/// use pumice::options::{StringAppend, merge_operator_by_name};
/// let mut options = pumice::Options::default();
/// options.cf.merge_operator = merge_operator_by_name("uint64add");
/// assert!(options.cf.merge_operator.is_some());
/// // With a parameter.
/// options.cf.merge_operator = Some(Arc::new(StringAppend::new("; ")));
/// ```
pub fn merge_operator_by_name(name: &str) -> Option<Arc<dyn MergeOperator>> {
    builtin(name, &[]).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn full(op: &dyn MergeOperator, existing: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
        op.full_merge(b"k", existing, operands).unwrap()
    }

    #[pumice_test_macros::test]
    fn string_append_joins() {
        let op = StringAppend::default();
        assert_eq!(full(&op, None, &[b"a"]), b"a");
        assert_eq!(full(&op, Some(b"x"), &[b"a", b"b"]), b"x,a,b");
        assert_eq!(full(&op, Some(b""), &[b"a"]), b",a");
        assert_eq!(full(&StringAppend::new(""), Some(b"x"), &[b"a"]), b"xa");
    }

    /// A delimiter is not lost when the operator is written as text.
    #[pumice_test_macros::test]
    fn text_keeps_the_delimiter() {
        for delimiter in ["|", ":", "", "#\n#", "\\", "\n", ",\r\n"] {
            let options = crate::ColumnFamilyOptions {
                merge_operator: Some(Arc::new(StringAppend::new(delimiter))),
                ..Default::default()
            };
            let text = options.get("merge_operator").unwrap();
            let mut again = crate::ColumnFamilyOptions::default();
            again.set("merge_operator", &text).unwrap();
            let op = again.merge_operator.unwrap();
            let joined = format!("x{delimiter}y");
            assert_eq!(full(&*op, Some(b"x"), &[b"y"]), joined.as_bytes(), "{text}");
        }
        assert_eq!(StringAppend::default().option_text(), "StringAppendOperator");
    }

    #[pumice_test_macros::test]
    fn add_wraps_and_ignores_wrong_lengths() {
        let max = u64::MAX.to_le_bytes();
        let two = 2u64.to_le_bytes();
        assert_eq!(full(&UInt64Add, Some(&max), &[&two, b"bad"]), 1u64.to_le_bytes());
        assert_eq!(full(&UInt64Add, None, &[&two]), two);
    }

    #[pumice_test_macros::test]
    fn put_takes_the_newest_and_max_the_greatest() {
        assert_eq!(full(&PutOperator, Some(b"z"), &[b"b", b"a"]), b"a");
        assert_eq!(full(&MaxOperator, Some(b"m"), &[b"b", b"z", b"a"]), b"z");
        assert_eq!(full(&MaxOperator, Some(b"m"), &[b"b"]), b"m");
    }

    #[pumice_test_macros::test]
    fn xor_keeps_the_rest_of_the_longer() {
        assert_eq!(full(&BytesXor, Some(b"\x0f\x01"), &[b"\xff\x03", b"\x01"]), b"\xf1\x02");
        assert_eq!(full(&BytesXor, Some(b"\x01"), &[b"\x03ab", b"\x00\x00\x01"]), b"\x02ac");
        assert_eq!(full(&BytesXor, None, &[b"a"]), b"a");
        assert_eq!(full(&BytesXor, Some(b"ab"), &[b""]), b"ab");
    }

    #[pumice_test_macros::test]
    fn lists_become_one_in_order() {
        assert_eq!(full(&SortList, Some(b"7"), &[b"1,10,30", b"-2,9,10"]), b"-2,1,9,10,10,30");
        let pair = SortList.partial_merge(b"k", b"2,3", b"1").unwrap();
        assert_eq!(full(&SortList, None, &[b"2", &pair]), b"1,2,2,3");
        for wrong in [&b"1,,2"[..], b"", b"1,x", b"4294967296", b"\xff"] {
            assert_eq!(SortList.full_merge(b"k", None, &[b"1", wrong]), None);
        }
    }

    #[pumice_test_macros::test]
    fn partial_merges_agree_with_full_merges() {
        let ops = ["stringappend", "uint64add", "put", "max", "bytesxor"]
            .map(|n| merge_operator_by_name(n).unwrap());
        let values = [1u64, 7, 300].map(u64::to_le_bytes);
        for op in ops {
            let direct = full(&*op, None, &[&values[0], &values[1], &values[2]]);
            let pair = op.partial_merge(b"k", &values[1], &values[2]).unwrap();
            assert_eq!(full(&*op, None, &[&values[0], &pair]), direct, "{}", op.name());
        }
    }

    #[pumice_test_macros::test]
    fn names_resolve() {
        for name in [
            "StringAppendOperator",
            "UInt64AddOperator",
            "PutOperator",
            "MaxOperator",
            "MergeSortOperator",
            "BytesXOR",
        ] {
            assert_eq!(merge_operator_by_name(name).unwrap().name(), name);
        }
        assert!(merge_operator_by_name("nope").is_none());
    }
}
