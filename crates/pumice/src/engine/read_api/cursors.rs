//! Cursors: what they read, for how long, and how a tailing one goes on.
//!
//! Thread safety: from any thread; a cursor has one owner at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;
use pumice_base::{Error, InternalKeyComparator, Result, SequenceNumber};
use pumice_env::IoActivity;
use pumice_env::activity;
use pumice_port::fiber;

use super::sources::{memtable_sources, padded, table_sources};
use super::table_options;
use crate::cost;
use crate::engine::DbInner;
use crate::options::requests::ReadOptions;
use crate::read::elsewhere::BlobReads;
use crate::read::iterator::DbIterator;
use crate::read::iterator::view::{Renewal, View};
use crate::read::merging_iterator::MergingIterator;
use crate::read::range_del::RangeDels;
use crate::read::source::{Rare, Source};
use crate::read::timed::{Look, TimedSource, check_history};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// A state of a column family. Its files and memtables stay while it exists.
#[derive(Clone)]
pub(crate) struct ReadState {
    super_version: Arc<SuperVersion>,
    sequence: SequenceNumber,
}

impl ReadState {
    /// Cursors over `cf` in this state, with these options, gain if their first blocks are read
    /// together.
    pub(crate) fn waits_once(&self, options: &ReadOptions, cf: &CfData) -> bool {
        let table = table_options(options);
        table.waits_once()
            && !table.cache_only
            && cf.timestamp_size == 0
            && !self.super_version.version.is_overlapping()
    }
}

impl DbInner {
    /// A cursor over the keys of a column family.
    pub(crate) fn iterator(
        self: &Arc<Self>,
        options: &ReadOptions,
        cf: &Arc<CfData>,
    ) -> Result<DbIterator> {
        self.check_snapshot(options)?;
        self.life.check_caller()?;
        fiber::spend(cost::ITERATOR);
        let state = self.state_to_read(cf, options);
        let mut iterator = self.iterator_of(options, cf, state)?;
        if options.tailing {
            if self.dir.secondary {
                let text = "tailing iterator not supported in secondary mode";
                return Err(Error::not_supported(text));
            }
            if options.snapshot.is_some() {
                let text = "a tailing iterator cannot use a snapshot";
                return Err(Error::invalid_argument(text));
            }
            iterator.follow(self.renewal(options, cf));
        }
        Ok(iterator)
    }

    /// The state that several cursors will read.
    ///
    /// # Errors
    /// Those that each of them would have; InvalidArgument for tailing ones.
    pub(crate) fn pin(&self, options: &ReadOptions, cf: &Arc<CfData>) -> Result<ReadState> {
        self.check_snapshot(options)?;
        self.life.check_caller()?;
        if options.tailing {
            return Err(Error::invalid_argument("a tailing iterator has no ranges"));
        }
        let state = self.state_to_read(cf, options);
        if let Some(look) = Look::of(cf, options)? {
            check_history(cf, &state.super_version, look.time())?;
        }
        Ok(state)
    }

    /// A cursor over the keys of a column family in `state`, which was pinned with these options.
    ///
    /// # Errors
    /// As [`DbInner::iterator`].
    pub(crate) fn iterator_in(
        &self,
        options: &ReadOptions,
        cf: &Arc<CfData>,
        state: &ReadState,
    ) -> Result<DbIterator> {
        self.life.check_caller()?;
        fiber::spend(cost::ITERATOR);
        self.iterator_of(options, cf, state.clone())
    }

    fn iterator_of(
        &self,
        options: &ReadOptions,
        cf: &Arc<CfData>,
        state: ReadState,
    ) -> Result<DbIterator> {
        let look = Look::of(cf, options)?;
        let view = iterator_view(options, cf, look.as_deref(), state)?;
        let bounds = (options.iterate_lower_bound.as_ref(), options.iterate_upper_bound.as_ref());
        let snapshot = options.snapshot.clone();
        let mut iterator = DbIterator::new(
            view,
            Arc::clone(cf),
            bounds,
            look,
            snapshot,
            self.reports.statistics.as_ref(),
        );
        iterator.limit(options);
        Ok(iterator)
    }

    fn state_to_read(&self, cf: &CfData, options: &ReadOptions) -> ReadState {
        let (super_version, sequence) = self.view(cf, options);
        ReadState { super_version: Guard::into_inner(super_version), sequence }
    }

    /// How a tailing cursor gets new writes.
    fn renewal(&self, options: &ReadOptions, cf: &Arc<CfData>) -> Renewal {
        let (me, options, cf) =
            (self.life.me.get().cloned().unwrap_or_default(), options.clone(), Arc::clone(cf));
        Box::new(move |sequence, super_version| {
            let Some(db) = me.upgrade() else { return Ok(None) };
            if db.life.shutting_down.load(Ordering::Acquire) {
                return Ok(None); // Closed, even if handles remain.
            }
            db.life.check_caller()?;
            let (newest, latest) = db.view(&cf, &options);
            if latest == sequence && Arc::ptr_eq(&newest, super_version) {
                return Ok(None);
            }
            let look = Look::of(&cf, &options)?;
            let state = ReadState { super_version: Guard::into_inner(newest), sequence: latest };
            iterator_view(&options, &cf, look.as_deref(), state).map(Some)
        })
    }
}

/// What a cursor reads of `state`.
fn iterator_view(
    options: &ReadOptions,
    cf: &Arc<CfData>,
    look: Option<&Look>,
    state: ReadState,
) -> Result<View> {
    let ReadState { super_version, sequence } = state;
    let tables = cf.tables();
    let mut range_dels = RangeDels::new(sequence);
    let mut table = table_options(options);
    if let Some(look) = look {
        check_history(cf, &super_version, look.time())?;
        // Tables have keys with timestamps, and bounds have none.
        table.auto_prefix_mode = false;
        table.iterate_upper_bound = None;
    }
    let mut sources = memtable_sources(&super_version, &mut range_dels);
    let mut stripped = cf.table_keys.stripped.then(|| (Vec::new(), RangeDels::new(sequence)));
    activity::during(IoActivity::DbIterator, || {
        let filter = (&table, options.table_filter.as_ref());
        let to = match &mut stripped {
            Some((sources, range_dels)) => (sources, range_dels),
            None => (&mut sources, &mut range_dels),
        };
        table_sources(cf, &tables, &super_version, filter, to)
    })?;
    if options.ignore_range_deletions {
        range_dels = RangeDels::new(sequence);
    }
    let stripped = stripped.map(|(tables, dels)| {
        if look.is_none_or(Look::sees_oldest) {
            sources.push(padded(cf, tables));
        }
        if options.ignore_range_deletions { RangeDels::new(sequence) } else { dels }
    });
    let mut inner = MergingIterator::new(cf.icmp.clone(), sources);
    if let Some(look) = look {
        let order = InternalKeyComparator::new(look.order());
        let hides = std::mem::replace(&mut range_dels, RangeDels::new(sequence));
        let mut timed = TimedSource::new(inner, look.clone(), sequence, hides);
        if let Some(dels) = stripped {
            timed = timed.with_table_dels(cf.table_order().clone(), dels);
        }
        let timed = Box::new(Rare::Timed(timed));
        inner = MergingIterator::new(order, vec![Source::Rare(timed)]);
    }
    let by_prefix = options.prefix_same_as_start && !options.total_order_seek;
    let prefix = tables.extractor().filter(|_| by_prefix).cloned();
    let blob_reads = BlobReads::of(&table);
    Ok(View { inner, sequence, prefix, range_dels, super_version, blob_reads })
}
