//! Reads are noted in the trace of queries, if there is one.
//!
//! Thread safety: from any thread. The writer of the trace may suspend.

use crate::engine::DbInner;
use crate::trace::query::Call;
use crate::version::family::{CfData, ColumnFamily};

impl DbInner {
    /// Notes a point read, if there is a trace of queries.
    pub(super) fn trace_get(&self, cf: &CfData, key: &[u8]) {
        let trace = &self.reports.traces.queries;
        if trace.is_on() {
            trace.note(&Call::Get(cf.id, key));
        }
    }

    /// Notes several point reads that are one, if there is a trace of queries.
    #[cold]
    pub(super) fn trace_multi_get(&self, keys: &[(&ColumnFamily, &[u8])]) {
        let trace = &self.reports.traces.queries;
        if trace.is_on() {
            let keys: Vec<_> = keys.iter().map(|(cf, key)| (cf.data.id, *key)).collect();
            trace.note(&Call::MultiGet(&keys));
        }
    }
}
