//! Where an ingested file goes, and whether it needs a sequence number.
//!
//! Its entries are newer than all existing ones, so every level from L0 down to the file's must be
//! free of entries in its range, including those that a running compaction is about to write. The
//! deepest such level is taken. If a deeper level has entries in its range, sequence number 0 would
//! not show which is newer: then the file gets one of its own. It also gets one if snapshots must
//! not see it, or if files of one call overlap: those form batches, each on levels above the
//! previous one.
//!
//! Thread safety: pure functions over a version and its running compactions; those that search
//! levels read tables and so suspend.

use std::sync::Arc;

use pumice_base::iterator::InternalIterator;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, seek_key};
use pumice_base::order;
use pumice_base::planted::{self, Bug};
use pumice_base::range_tombstone::FragmentedTombstones;
use pumice_base::{Comparator, Error, ErrorKind, Result, UserKey};
use pumice_manifest::{FileMetaData, UserRange, Version};
use pumice_table::TableReadOptions;

use crate::compaction::picker::RunningCompactions;
use crate::ingest::IngestExternalFileOptions;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

const NOT_WITH_OWN_SEQUENCES: &str = "An ingested file overlaps with existing data in the DB and \
                                      has been assigned a non-zero sequence number, which is not \
                                      allowed when 'allow_db_generated_files' is enabled.";
const TO_L0_REFUSED: &str = "Files cannot be ingested to Lmax. Please make sure key range of Lmax \
                             does not overlap with files to ingest.";
const ABOVE_LAST_REFUSED: &str = "Files cannot be ingested to Lmax. Please make sure key range \
                                  of Lmax and ongoing compaction's output to Lmax does not \
                                  overlap with files to ingest. Input files overlapping with each \
                                  other can cause some file to be assigned to non Lmax level.";

/// A column family's tree at the moment of placing.
pub(crate) struct Tree<'a> {
    pub version: &'a Version,
    pub base_level: usize,
    pub running: &'a RunningCompactions,
}

/// The decision about one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub level: usize,
    /// The file needs a sequence number of its own.
    pub sequenced: bool,
}

/// The requirements common to all files of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Every file needs a sequence number.
    pub sequenced: bool,
    /// The level that all files of the previous batch are at or below; None for the first batch.
    pub below: Option<usize>,
    /// See [`IngestExternalFileOptions::fail_if_not_bottommost_level`].
    pub only_last_level: bool,
    /// Files keep the sequence numbers of their entries.
    pub own_sequences: bool,
    /// Nothing in the tree is left in the range of any file.
    pub replaces: bool,
}

impl Tree<'_> {
    /// The place of a file that covers `range`; `overlap` is the first level with entries in it.
    ///
    /// # Errors
    /// TryAgain if the place is not the last level and that is required; InvalidArgument if a file
    /// that keeps its own sequence numbers needs one.
    pub fn place(
        &self,
        range: &UserRange<'_>,
        overlap: Option<usize>,
        demand: Demand,
    ) -> Result<Place> {
        let levels = self.version.num_levels();
        if demand.below == Some(0) && !demand.own_sequences {
            if demand.only_last_level && levels > 1 {
                return Err(Error::new(ErrorKind::TryAgain, TO_L0_REFUSED));
            }
            return Ok(Place { level: 0, sequenced: true });
        }
        let place = self.deepest(range, overlap, demand);
        if demand.only_last_level && place.level + 1 < levels {
            return Err(Error::new(ErrorKind::TryAgain, ABOVE_LAST_REFUSED));
        }
        if demand.own_sequences && place.sequenced {
            return Err(Error::invalid_argument(NOT_WITH_OWN_SEQUENCES));
        }
        Ok(place)
    }

    /// The deepest level for `range`, and whether something in it lies at or below the level where
    /// the search ended. For files that keep their sequence numbers the search covers all levels.
    fn deepest(&self, range: &UserRange<'_>, overlap: Option<usize>, demand: Demand) -> Place {
        let levels = self.version.num_levels();
        let end = demand.below.unwrap_or(levels);
        let mut place = Place { level: 0, sequenced: demand.sequenced };
        for level in 0..if demand.own_sequences { levels } else { end } {
            let unused =
                level > 0 && level < self.base_level && self.version.files(level).is_empty();
            if unused {
                continue;
            }
            if demand.replaces {
                place.level = if level < end { level } else { place.level };
                continue;
            }
            let overlaps = overlap == Some(level) && !planted::is(Bug::IngestLevelTooDeep);
            if overlaps || self.written_into(level, range) {
                place.sequenced = true;
                break;
            }
            let fits = level == 0 || !self.version.range_overlaps(level, range);
            if level < end && fits {
                place.level = level;
            }
        }
        place
    }

    /// The place of a file that goes below all others.
    ///
    /// # Errors
    /// InvalidArgument if the last level has no room, or a file above it has entries that cannot
    /// be distinguished from older ones.
    pub fn place_behind(&self, range: &UserRange<'_>) -> Result<Place> {
        let last = self.version.num_levels() - 1;
        if self.version.range_overlaps(last, range) || self.written_into(last, range) {
            return Err(Error::invalid_argument(
                "Can't ingest_behind file as it doesn't fit at the last level!",
            ));
        }
        let above = self.version.all_files().filter(|(level, _)| *level < last);
        if above.into_iter().any(|(_, file)| file.smallest_seq == 0) {
            return Err(Error::invalid_argument(
                "Can't ingest_behind file as despite cf_allow_ingest_behind=true there are files \
                 with 0 seqno in database at upper levels!",
            ));
        }
        Ok(Place { level: last, sequenced: false })
    }

    fn written_into(&self, level: usize, range: &UserRange<'_>) -> bool {
        !planted::is(Bug::IngestIgnoresCompactions)
            && self.running.writes_into(level, range, &self.version.comparator().user)
    }
}

/// Cuts the files, given by their ranges in the order of the call, into batches of neighbours that
/// do not overlap; gives the number of files of each. One batch if none overlap at all.
pub(crate) fn batches(ranges: &[UserRange<'_>], cmp: &Comparator) -> Vec<usize> {
    if !any_overlap(ranges, cmp) {
        return vec![ranges.len()];
    }
    let mut batches = Vec::new();
    let mut hull: Option<UserRange<'_>> = None;
    for range in ranges {
        match (hull, batches.last_mut()) {
            (Some(so_far), Some(files)) if !so_far.overlaps(range, cmp) => {
                *files += 1;
                hull = Some(so_far.union(*range, cmp));
            }
            _ => {
                batches.push(1);
                hull = Some(*range);
            }
        }
    }
    batches
}

fn first_of<'r>(range: &UserRange<'r>) -> UserKey<'r> {
    range.begin.unwrap_or(UserKey::new(b""))
}

/// A key to seek to that is before all versions of `key`, at whatever timestamps.
fn before(key: UserKey<'_>, order: &Comparator) -> Vec<u8> {
    match order.timestamp_size() {
        0 => seek_key(key, MAX_SEQUENCE),
        _ => {
            let newest = order.at_newest(order.without_timestamp(key).as_bytes());
            seek_key(&newest, MAX_SEQUENCE)
        }
    }
}

/// Two of the ranges share a key.
pub(crate) fn any_overlap(ranges: &[UserRange<'_>], cmp: &Comparator) -> bool {
    let mut sorted: Vec<&UserRange<'_>> = ranges.iter().collect();
    order::sort_by(&mut sorted, |a, b| cmp.compare(first_of(a), first_of(b)));
    sorted.windows(2).any(|pair| pair[0].overlaps(pair[1], cmp))
}

/// The first level of `version` that has an entry or a tombstone in `range`.
///
/// # Errors
/// Of reading tables.
pub(crate) fn shallowest_overlap(
    cf: &CfData,
    version: &Version,
    range: &UserRange<'_>,
    fill_cache: bool,
) -> Result<Option<usize>> {
    for level in version.levels() {
        if level_has_entries(cf, level.files(), range, fill_cache)? {
            return Ok(Some(level.number()));
        }
    }
    Ok(None)
}

/// `level` of `version` has an entry or a tombstone in `range`.
///
/// # Errors
/// Of reading tables.
pub(crate) fn level_overlaps(
    cf: &CfData,
    version: &Version,
    level: usize,
    range: &UserRange<'_>,
) -> Result<bool> {
    level_has_entries(cf, version.files(level), range, true)
}

fn level_has_entries(
    cf: &CfData,
    files: &[Arc<FileMetaData>],
    range: &UserRange<'_>,
    fill_cache: bool,
) -> Result<bool> {
    for file in files.iter().filter(|f| UserRange::of_file(f).overlaps(range, cf.table_order())) {
        if file_overlaps(cf, file, range, fill_cache)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn file_overlaps(
    cf: &CfData,
    file: &FileMetaData,
    range: &UserRange<'_>,
    fill_cache: bool,
) -> Result<bool> {
    let tables = cf.tables();
    let table = tables.table(file)?;
    if tombstones_overlap(table.range_tombstones_ref(), range, cf.table_order()) {
        return Ok(true);
    }
    let options =
        TableReadOptions { total_order_seek: true, fill_cache, ..TableReadOptions::default() };
    let mut iter = table.share()?.iter(&options);
    iter.seek(InternalKey::new(&before(first_of(range), cf.table_order())));
    iter.status()?;
    Ok(iter.valid() && !range.is_before_key(iter.key().user_key(), cf.table_order()))
}

/// A memtable of `super_version` has an entry or a tombstone in `range`, which is one of tables.
pub(crate) fn memtables_overlap(
    cf: &CfData,
    super_version: &SuperVersion,
    range: &UserRange<'_>,
) -> bool {
    let order = cf.comparator();
    // Here no end is compared by its time.
    let written = |key: UserKey<'_>| order.at_newest(key.as_bytes());
    let [begin, end] =
        [range.begin, range.end].map(|key| key.filter(|_| cf.table_keys.stripped).map(written));
    let range = &UserRange {
        begin: begin.as_deref().map(UserKey::new).or(range.begin),
        end: end.as_deref().map(UserKey::new).or(range.end),
        ..*range
    };
    std::iter::once(&super_version.mem).chain(&super_version.imm).any(|mem| {
        let mut iter = mem.iter();
        match range.begin {
            Some(begin) => iter.seek(InternalKey::new(&before(begin, cf.comparator()))),
            None => iter.seek_to_first(),
        }
        (iter.valid() && !range.is_before_key(iter.key().user_key(), cf.comparator()))
            || tombstones_overlap(mem.range_tombstones().as_deref(), range, cf.comparator())
    })
}

fn tombstones_overlap(
    list: Option<&FragmentedTombstones>,
    range: &UserRange<'_>,
    cmp: &Comparator,
) -> bool {
    list.is_some_and(|list| {
        list.fragments().iter().any(|fragment| {
            let own = UserRange {
                begin: Some(fragment.start()),
                end: Some(fragment.end()),
                end_open: true,
            };
            own.overlaps(range, cmp)
        })
    })
}

/// Refuses what is not done with files whose keys have timestamps: they must not share a key with
/// each other, whatever the timestamps. Nor must they with what is there, which is checked once it
/// is known.
///
/// # Errors
/// NotSupported.
fn check_timed(
    cf: &CfData,
    options: &IngestExternalFileOptions,
    overlapping: bool,
    replaces: bool,
) -> Result<()> {
    let refused = match cf.timestamp_size {
        0 => None,
        _ if overlapping => Some(
            "Files with overlapping ranges cannot be ingested to column family with user-defined \
             timestamp enabled.",
        ),
        _ if options.ingest_behind => Some("ingest_behind of keys with timestamps"),
        _ if replaces => Some("atomic_replace_range of keys with timestamps"),
        _ => None,
    };
    refused.map_or(Ok(()), |text| Err(Error::not_supported(text)))
}

/// Refuses, if keys have timestamps, a file that shares a key with what is there, in `place`.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn check_apart(cf: &CfData, place: &str) -> Result<()> {
    if cf.timestamp_size == 0 {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "Column family enables user-defined timestamps, please make sure the key range (without \
         timestamp) of external file does not overlap with key range {place}"
    )))
}

/// Refuses files that share keys with a memtable, unless that may be flushed.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn check_flush(cf: &CfData, options: &IngestExternalFileOptions) -> Result<()> {
    check_apart(cf, "in the memtables.")?;
    match options.allow_blocking_flush {
        true => Ok(()),
        false => Err(Error::invalid_argument("External file requires flush")),
    }
}

/// Refuses options that contradict each other or what the files are.
///
/// # Errors
/// InvalidArgument or NotSupported.
pub(crate) fn check_demand(
    (cf, options): (&CfData, &IngestExternalFileOptions),
    overlapping: bool,
    replaces: bool,
) -> Result<()> {
    check_timed(cf, options, overlapping, replaces)?;
    if overlapping && options.ingest_behind {
        return Err(Error::not_supported(
            "Files with overlapping ranges cannot be ingested with ingestion behind mode.",
        ));
    }
    if overlapping && !options.allow_global_seqno && !options.allow_db_generated_files {
        return Err(Error::invalid_argument(
            "Global seqno is required, but disabled (because external files key range overlaps).",
        ));
    }
    Ok(())
}
