//! Turning stored entries into user values: merge resolution and value conversion.
//!
//! Pure functions, except that merges are counted and timed. Rules:
//! docs/format/values.md#merge-operands and docs/format/values.md#wide-columns.

use pumice_base::extension::MergeOperator;
use pumice_base::{Error, Result, SubCode, ValueType, wide_columns};
use pumice_env::perf::{self, PerfMetric};
use pumice_port::time::now_nanos;

use crate::stats::{HistogramKind, Ticker};
use crate::version::family::CfData;

/// The value of `key` from `base` and `operands`, oldest first.
///
/// # Errors
/// InvalidArgument without an operator; Corruption that names the key if the operator fails.
pub(crate) fn full_merge(
    operator: Option<&dyn MergeOperator>,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[Vec<u8>],
) -> Result<Vec<u8>> {
    let Some(operator) = operator else {
        return Err(no_operator());
    };
    let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
    let _time = perf::time(PerfMetric::MergeOperatorTimeNanos);
    operator.full_merge(key, base, &operands).ok_or_else(|| {
        let (name, key) = (operator.name(), hex(key));
        Error::corruption(format!("Error: Could not perform merge by {name} of key {key}"))
            .with_subcode(SubCode::MergeOperatorFailed)
    })
}

/// There are operands, and nothing that merges them.
pub(crate) fn no_operator() -> Error {
    Error::invalid_argument("merge_operator is not properly initialized.")
}

/// [`full_merge`] by the operator of `cf`, for a read: counted.
pub(crate) fn merge_for_read(
    cf: &CfData,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[Vec<u8>],
) -> Result<Vec<u8>> {
    let operator = cf.merge_operator();
    let merge = || full_merge(operator.as_deref(), key, base, operands);
    let tables = cf.tables();
    let Some(statistics) = tables.statistics() else { return merge() };
    let start = now_nanos();
    let merged = merge();
    let nanos = now_nanos().saturating_sub(start);
    statistics.tally(|tally| {
        tally.tick(Ticker::MergeOperationTotalTime, nanos);
        tally.tick(Ticker::NumberMergeFailures, u64::from(merged.is_err()));
        tally.measure(HistogramKind::ReadNumMergeOperands, operands.len() as u64);
    });
    merged
}

/// The user's value in a stored value of type `tag`.
///
/// # Errors
/// NotSupported for blob references; Corruption for unknown types and malformed entities.
pub(crate) fn plain_value(tag: u8, stored: &[u8]) -> Result<&[u8]> {
    match ValueType::from_u8(tag) {
        Some(ValueType::Value) => Ok(stored),
        Some(ValueType::WideColumnEntity) => wide_columns::default_column(stored),
        Some(ValueType::ValuePreferredSeqno) => stored
            .len()
            .checked_sub(8)
            .map(|n| &stored[..n])
            .ok_or_else(|| Error::corruption("TimedPut value shorter than its sequence")),
        Some(ValueType::BlobIndex) => {
            Err(Error::not_supported("values in blob files (BlobDB) cannot be read yet"))
        }
        other => Err(Error::corruption(format!("unexpected entry type {tag:#x} ({other:?})"))),
    }
}

/// The stored form of `merged`, which an operator made from the user's value in `base`: a plain
/// value, or, if `base` (given by type and stored bytes) is an entity, that entity with another
/// default column.
///
/// # Errors
/// The errors of encoding the entity.
pub(crate) fn stored_merge(
    base: Option<(u8, &[u8])>,
    merged: Vec<u8>,
) -> Result<(ValueType, Vec<u8>)> {
    match base {
        Some((tag, entity)) if tag == ValueType::WideColumnEntity as u8 => {
            let entity = wide_columns::with_default(entity, &merged)?;
            Ok((ValueType::WideColumnEntity, entity))
        }
        _ => Ok((ValueType::Value, merged)),
    }
}

/// Why an iterator cannot show an entry.
pub(crate) fn unsupported_type(tag: u8, key: &[u8]) -> Error {
    match ValueType::from_u8(tag) {
        Some(t) => Error::not_supported(format!("entry of type {t:?} at key {}", hex(key))),
        None => Error::corruption(format!("entry of unknown type {tag:#x} at key {}", hex(key))),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().take(64).fold(String::from("0x"), |mut text, byte| {
        write!(text, "{byte:02X}").expect("writing to a String cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn entity_shows_its_default_column() {
        let entity = b"\x01\x03\x00\x02\x02n1\x02\x02n2\x03dvv1v22";
        assert_eq!(plain_value(0x16, entity).unwrap(), b"dv");
        for cut in 0..entity.len() {
            assert!(plain_value(0x16, &entity[..cut]).is_err(), "cut {cut}");
        }
        assert!(plain_value(0x11, b"x").is_err());
    }

    #[pumice_test_macros::test]
    fn what_is_merged_into_an_entity_is_one() {
        let entity = b"\x01\x01\x01n\x01v";
        let (value_type, stored) = stored_merge(Some((0x16, entity)), b"m".to_vec()).unwrap();
        assert_eq!(value_type, ValueType::WideColumnEntity);
        assert_eq!(stored, b"\x01\x02\x00\x01\x01n\x01mv");
        for base in [None, Some((0x01, &b"old"[..]))] {
            let merged = stored_merge(base, b"m".to_vec()).unwrap();
            assert_eq!(merged, (ValueType::Value, b"m".to_vec()));
        }
    }
}
