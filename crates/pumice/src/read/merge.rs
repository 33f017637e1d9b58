//! Merges: the user's value from a base and operands.
//!
//! Pure functions, except that merges are counted and timed. Rules:
//! docs/format/values.md#merge-operands.

use pumice_base::extension::MergeOperator;
use pumice_base::{Error, Result, SubCode};
use pumice_env::perf::{self, PerfMetric};
use pumice_port::time::now_nanos;

use crate::read::value::hex;
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
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let Some(operator) = operator else {
        return Err(no_operator());
    };
    let _time = perf::time(PerfMetric::MergeOperatorTimeNanos);
    operator.full_merge(key, base, operands).ok_or_else(|| {
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
    operands: &[&[u8]],
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
