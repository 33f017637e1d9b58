//! Point reads that are counted or timed, and noted in the traces, if there are any.
//!
//! Thread safety: from any thread. The writer of the trace may suspend.

use pumice_base::Result;
use pumice_table::TableReadOptions;

use crate::engine::DbInner;
use crate::engine::read_api::observed;
use crate::options::requests::ReadOptions;
use crate::read::answer::PointAnswer;
use crate::read::get::{self, Hits};
use crate::read::timed::TimedValue;
use crate::trace::query::Call;
use crate::version::family::{CfData, ColumnFamily};
use crate::version::super_version::SuperVersion;

impl DbInner {
    /// [`DbInner::get`] when it is counted or timed.
    #[inline(never)]
    pub(super) fn get_observed<W: PointAnswer>(
        &self,
        options: &ReadOptions,
        cf: &CfData,
        key: &[u8],
    ) -> Result<Option<W>> {
        let search = |view: &SuperVersion, table: &TableReadOptions, sequence, hits: &mut Hits| {
            get::get_observed::<W>(cf, &cf.tables(), view, table, (sequence, key), hits)
        };
        self.trace_get(cf, key);
        let at_snapshot = options.snapshot.is_some();
        self.reports.traces.blocks.during(key, at_snapshot, || {
            observed(self, options, cf, search, |found| found.as_ref().map(W::bytes))
        })
    }

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

    /// [`DbInner::get_at`] as a call of its own.
    #[inline(never)]
    pub(crate) fn get_at_traced<W: PointAnswer>(
        &self,
        options: &ReadOptions,
        cf: &CfData,
        key: &[u8],
    ) -> Result<Option<TimedValue<W>>> {
        self.trace_get(cf, key);
        self.get_at(options, cf, key)
    }
}
