//! Scans of several ranges, one after the other, all as of one moment: RocksDB's MultiScan.
//!
//! Thread safety: as the handle; a scan has one owner at a time.
//!
//! Invariant: all cursors read the state that was pinned before the first: the files and memtables
//! of that moment. Each range has a cursor of its own, whose bounds are the range's. When a range
//! is asked for whose cursor does not exist, those of the next ranges are made with it, and their
//! first blocks are read together (`read::ahead`). What follows in a range is read when it is
//! scanned.

use std::collections::VecDeque;
use std::vec::IntoIter;

use pumice_base::{Error, Result, UserKey};
use pumice_env::{IoActivity, activity};

use crate::db::api::Db;
use crate::engine::read_api::ReadState;
use crate::ingest::RangeOpt;
use crate::options::requests::ReadOptions;
use crate::read::ahead::begin_together;
use crate::read::entries::{Entries, Limits};
use crate::read::iterator::DbIterator;
use crate::version::family::ColumnFamily;

/// Ranges whose first blocks are read together, and kept in memory.
const RANGES_AHEAD: usize = 16;

/// The ranges of [`Db::multi_scan`], as scans of one each.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-scans-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{MultiScan, RangeOpt, Scan};
/// for key in ["a1", "a2", "b1", "c1"] {
///     db.put(key, "")?;
/// }
/// let range = |start: &str, limit: &str| RangeOpt {
///     start: Some(start.into()),
///     limit: Some(limit.into()),
/// };
/// let ranges = vec![range("a", "b"), range("c", "d")];
/// let cf = db.default_column_family();
/// let scans: MultiScan = db.multi_scan(&Default::default(), cf, ranges, false)?;
/// let mut keys = Vec::new();
/// for scan in scans {
///     let scan: Scan = scan?;
///     for entry in scan {
///         keys.push(entry?.0);
///     }
/// }
/// assert_eq!(keys, [b"a1", b"a2", b"c1"]);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is read before it is iterated over"]
pub struct MultiScan {
    /// Those whose first blocks were read.
    opened: VecDeque<Result<Scan>>,
    /// How many ranges are opened next, and at most.
    batch: usize,
    batch_max: usize,
    db: Db,
    cf: ColumnFamily,
    options: ReadOptions,
    state: ReadState,
    ranges: IntoIter<RangeOpt>,
    reverse: bool,
}

/// The keys and values of one range. An error is the last item.
///
/// Example: that of [`MultiScan`].
#[must_use = "nothing is read before it is iterated over"]
pub struct Scan {
    entries: Entries,
    reverse: bool,
}

impl Db {
    /// Scans `ranges` of `cf` as of one moment: that of the options' snapshot, otherwise now. Files
    /// that are deleted or ingested later change nothing. The ranges may overlap or be empty. They
    /// come in the order of their starts; with `reverse` the last one is scanned first, and
    /// each from its last key to its first. With a range
    /// come the first blocks of those after it, more with each step, up to 16: but not if
    /// [`ReadOptions::async_io`] is off, or with timestamps, a deadline, or tables that overlap.
    ///
    /// # Errors
    /// InvalidArgument if there are no ranges, if they are not in the order of their starts, if one
    /// lacks an end and `reverse` is set, and for options with bounds of their own; those of
    /// [`Db::cursor`].
    pub fn multi_scan(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        ranges: Vec<RangeOpt>,
        reverse: bool,
    ) -> Result<MultiScan> {
        let data = self.data(cf)?;
        self.check_ranges(cf, &ranges, reverse)?;
        if options.iterate_lower_bound.is_some() || options.iterate_upper_bound.is_some() {
            let text = "ranges and ReadOptions bounds cannot be combined";
            return Err(Error::invalid_argument(text));
        }
        let state = self.inner().pin(options, data)?;
        let batch_max = if state.waits_once(options, &cf.data) { RANGES_AHEAD } else { 1 };
        Ok(MultiScan {
            opened: VecDeque::new(),
            batch: 1,
            batch_max,
            db: self.clone(),
            cf: cf.clone(),
            options: options.clone(),
            state,
            ranges: ranges.into_iter(),
            reverse,
        })
    }

    fn check_ranges(&self, cf: &ColumnFamily, ranges: &[RangeOpt], reverse: bool) -> Result<()> {
        if ranges.is_empty() {
            return Err(Error::invalid_argument("there are no ranges to scan"));
        }
        let bounded = |range: &RangeOpt| range.start.is_some() && range.limit.is_some();
        if reverse && !ranges.iter().all(bounded) {
            return Err(Error::invalid_argument("reverse scans need both ends of each range"));
        }
        // Bounds have no timestamps.
        let order = cf.data.comparator().without_timestamps();
        let ascend = ranges.windows(2).all(|pair| match (&pair[0].start, &pair[1].start) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(start)) => {
                order.compare(UserKey::new(before), UserKey::new(start)).is_lt()
            }
        });
        match ascend {
            true => Ok(()),
            false => Err(Error::invalid_argument("ranges must be in the order of their starts")),
        }
    }
}

impl std::fmt::Debug for MultiScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiScan").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("reverse", &self.reverse).finish_non_exhaustive()
    }
}

impl MultiScan {
    /// The cursor of the next range.
    fn open(&mut self) -> Option<Result<DbIterator>> {
        let range = match self.reverse {
            true => self.ranges.next_back()?,
            false => self.ranges.next()?,
        };
        let options = ReadOptions {
            iterate_lower_bound: range.start,
            iterate_upper_bound: range.limit,
            ..self.options.clone()
        };
        Some(self.db.inner().iterator_in(&options, &self.cf.data, &self.state))
    }

    /// Opens the next ranges.
    fn open_some(&mut self) {
        let mut cursors: Vec<_> = (0..self.batch).map_while(|_| self.open()).collect();
        if cursors.len() > 1 {
            let opened = cursors.iter_mut().filter_map(|cursor| cursor.as_mut().ok());
            activity::during(IoActivity::DbIterator, || begin_together(opened, self.reverse));
        }
        self.batch = (2 * self.batch).min(self.batch_max);
        let reverse = self.reverse;
        let scan = |cursor| Scan { entries: Entries::new(cursor, Limits::default()), reverse };
        self.opened.extend(cursors.into_iter().map(|cursor| cursor.map(scan)));
    }
}

impl Iterator for MultiScan {
    type Item = Result<Scan>;

    fn next(&mut self) -> Option<Result<Scan>> {
        if self.opened.is_empty() {
            self.open_some();
        }
        self.opened.pop_front()
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reverse {
            true => self.entries.next_back(),
            false => self.entries.next(),
        }
    }
}
