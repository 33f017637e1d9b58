//! What a cursor reads from: the memtables and the tables of a super version, and the range
//! tombstones in them.
//!
//! Thread safety: functions of what they are given. Opening tables may suspend.

use std::sync::Arc;

use pumice_base::Result;
use pumice_table::{Table, TableReadOptions};

use crate::options::requests::TableFilter;
use crate::read::guarded::memtable_source;
use crate::read::level_iterator::LevelIterator;
use crate::read::merging_iterator::MergingIterator;
use crate::read::overlapping::OverlappingIterator;
use crate::read::padded::PaddedSource;
use crate::read::range_del::RangeDels;
use crate::read::source::{Rare, Source};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;
use crate::version::table_cache::TableCache;

/// The memtables of a column family, newest first. Range tombstones that can hide their entries go
/// into `range_dels`.
pub(super) fn memtable_sources(
    super_version: &SuperVersion,
    range_dels: &mut RangeDels,
) -> Vec<Source> {
    let mut sources = Vec::with_capacity(4);
    range_dels.push_memtable(super_version.mem.range_tombstones());
    if !super_version.mem.is_empty() {
        sources.push(memtable_source(&super_version.mem));
    }
    for mem in &super_version.imm {
        range_dels.push_memtable(mem.range_tombstones());
        sources.push(memtable_source(mem));
    }
    sources
}

/// Adds the tables of a column family, newest first. Range tombstones that can hide their entries
/// go into `range_dels`, those of tables that the `filter` does not want too.
pub(super) fn table_sources(
    cf: &CfData,
    tables: &Arc<TableCache>,
    super_version: &SuperVersion,
    (options, filter): (&TableReadOptions, Option<&TableFilter>),
    (sources, range_dels): (&mut Vec<Source>, &mut RangeDels),
) -> Result<()> {
    let version = &super_version.version;
    let wanted = |table: &Table| filter.is_none_or(|filter| filter.wants(table.properties()));
    if version.is_overlapping() {
        let opened = |file: &Arc<_>, table: &Table| {
            range_dels.push_file(file, table);
            wanted(table)
        };
        let files = OverlappingIterator::open(tables, options, version, |_| true, opened)?;
        sources.push(Source::Rare(Box::new(Rare::Overlapping(files))));
        return Ok(());
    }
    for (number, level) in version.levels().iter().enumerate() {
        if number == 0 {
            for file in level.files() {
                let table = tables.table_for(options, file, 0)?;
                range_dels.push_file(file, &table);
                if wanted(&table) {
                    sources.push(Source::Table(table.share()?.iter(options)));
                }
            }
        } else if !level.is_empty() {
            let order = &cf.table_keys.icmp;
            let reached = range_dels.push_level(tables, options, order, level);
            let (tables, level) = (Arc::clone(tables), Arc::clone(level));
            let iter = LevelIterator::new(tables, order.clone(), level, options.clone());
            sources.push(Source::Level(iter.noting(reached).filtered(filter)));
        }
    }
    Ok(())
}

/// Keys of `tables`, which have lost their timestamps, with the oldest one.
pub(super) fn padded(cf: &CfData, tables: Vec<Source>) -> Source {
    let tables = MergingIterator::new(cf.table_keys.icmp.clone(), tables);
    Source::Rare(Box::new(Rare::Padded(PaddedSource::new(tables, cf.comparator().clone()))))
}
