//! Rows as Cassandra keeps them in RocksDB: the merge operator and the compaction filter that
//! RocksDB's Java classes name, in Rust alone.
//!
//! ```text
//! row     i32 local deletion time, i64 marked for deletion at, column*   (all big endian)
//! column  i8 mask, i8 index, i64 timestamp, i32 length, value [, i32 time to live]
//!         i8 mask (1), i8 index, i32 local deletion time, i64 marked for deletion at
//! ```
//!
//! A row without columns is a tombstone if it has a time; timestamps are microseconds, the other
//! times seconds. Bytes that are no row fail a merge and are kept by the filter; RocksDB reads past
//! their end. A limit of operands, by which RocksDB cuts off what is older, is not used, and of a
//! merge operand the filter only decides whether all of it goes.
//!
//! Thread safety: plain data and pure functions, but for the clock.
//!
//! Source: RocksDB's `utilities/cassandra`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pumice::{CompactionFilter, FilterDecision, MergeOperator};
use pumice_port::time;

const DELETION: i8 = 1;
const EXPIRATION: i8 = 2;
/// The times of a row that is no tombstone.
const NOT_DELETED: (i32, i64) = (i32::MAX, i64::MIN);
const MICROS: i64 = 1_000_000;

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    mask: i8,
    index: i8,
    /// Microseconds; of a tombstone since when it is deleted.
    timestamp: i64,
    /// The time to live, or the local deletion time of a tombstone, in seconds.
    seconds: i32,
    /// All of its bytes.
    bytes: Vec<u8>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    deleted: (i32, i64),
    columns: Vec<Column>,
}

/// Takes a number off the front.
fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (number, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*number)
}

impl Column {
    fn read(from: &mut &[u8]) -> Option<Column> {
        let whole = *from;
        let [mask, index] = take::<2>(from)?.map(u8::cast_signed);
        let (timestamp, seconds);
        if mask & DELETION != 0 {
            seconds = i32::from_be_bytes(take(from)?);
            timestamp = i64::from_be_bytes(take(from)?);
        } else {
            timestamp = i64::from_be_bytes(take(from)?);
            let length = usize::try_from(i32::from_be_bytes(take(from)?)).ok()?;
            *from = from.get(length..)?;
            seconds = if mask & EXPIRATION != 0 { i32::from_be_bytes(take(from)?) } else { 0 };
        }
        let bytes = whole.get(..whole.len() - from.len())?.to_vec();
        Some(Column { mask, index, timestamp, seconds, bytes })
    }

    /// When it expires, in microseconds.
    fn expiry(&self) -> i64 {
        self.timestamp.saturating_add(i64::from(self.seconds) * MICROS)
    }

    fn is_expired(&self, now: i64) -> bool {
        self.mask == EXPIRATION && self.expiry() < now
    }

    /// The tombstone that it is once it has expired.
    fn tombstone(&self) -> Column {
        let (timestamp, mask) = (self.expiry(), DELETION);
        let seconds = (timestamp / MICROS) as i32;
        let head = [mask, self.index].map(i8::cast_unsigned);
        let bytes = [&head[..], &seconds.to_be_bytes(), &timestamp.to_be_bytes()].concat();
        Column { mask, index: self.index, timestamp, seconds, bytes }
    }

    /// A tombstone that nobody needs any more.
    fn is_collectable(&self, grace: i32, now: i64) -> bool {
        let until = i64::from(self.seconds) + i64::from(grace);
        self.mask == DELETION && until * MICROS < now
    }
}

impl Row {
    fn of(columns: Vec<Column>) -> Row {
        Row { deleted: NOT_DELETED, columns }
    }

    fn read(mut from: &[u8]) -> Option<Row> {
        let deleted = (i32::from_be_bytes(take(&mut from)?), i64::from_be_bytes(take(&mut from)?));
        if from.is_empty() {
            return Some(Row { deleted, columns: Vec::new() });
        }
        let mut columns = Vec::new();
        while !from.is_empty() {
            columns.push(Column::read(&mut from)?);
        }
        Some(Row::of(columns))
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.deleted.0.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.deleted.1.to_be_bytes());
        self.columns.iter().for_each(|column| bytes.extend_from_slice(&column.bytes));
        bytes
    }

    fn is_tombstone(&self) -> bool {
        self.deleted.1 > NOT_DELETED.1
    }

    fn modified(&self) -> i64 {
        let newest = self.columns.iter().map(|column| column.timestamp).fold(0, i64::max);
        if self.is_tombstone() { self.deleted.1 } else { newest }
    }

    /// The newest of each column, as far as no tombstone is newer.
    fn merge(mut rows: Vec<Row>) -> Option<Row> {
        if rows.len() < 2 {
            return rows.pop();
        }
        rows.sort_by_key(|row| Reverse(row.modified()));
        let mut merged: BTreeMap<i8, Column> = BTreeMap::new();
        let mut deleted = 0;
        for row in rows {
            if row.is_tombstone() {
                if merged.is_empty() {
                    return Some(row);
                }
                deleted = row.modified();
                break;
            }
            for column in row.columns {
                let known = merged.get(&column.index);
                if known.is_none_or(|known| column.timestamp > known.timestamp) {
                    merged.insert(column.index, column);
                }
            }
        }
        let newer = merged.into_values().filter(|column| column.timestamp > deleted);
        Some(Row::of(newer.collect()))
    }

    fn without_tombstones(self, grace: i32, now: i64) -> Row {
        let columns = self.columns.into_iter();
        Row::of(columns.filter(|column| !column.is_collectable(grace, now)).collect())
    }
}

fn now() -> i64 {
    time::wall_micros().cast_signed()
}

fn merge(rows: impl Iterator<Item = Option<Row>>) -> Option<Row> {
    Row::merge(rows.collect::<Option<Vec<Row>>>()?)
}

/// `CassandraValueMergeOperator`.
#[derive(Debug)]
pub struct CassandraMerge {
    /// Seconds that a tombstone stays.
    pub grace: i32,
}

impl MergeOperator for CassandraMerge {
    fn name(&self) -> &str {
        "CassandraValueMergeOperator"
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let rows = existing.into_iter().chain(operands.iter().copied()).map(Row::read);
        Some(merge(rows)?.without_tombstones(self.grace, now()).bytes())
    }
    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some(merge([left, right].into_iter().map(Row::read))?.bytes())
    }
    fn partial_merge_multi(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(merge(operands.iter().copied().map(Row::read))?.bytes())
    }
}

/// `CassandraCompactionFilter`.
#[derive(Debug)]
pub struct CassandraFilter {
    /// Expired columns go; without it they become tombstones.
    pub purges: bool,
    /// Seconds that a tombstone stays.
    pub grace: i32,
}

impl CassandraFilter {
    /// What is left of a row, and whether something expired; None for bytes that are no row.
    fn compact(&self, bytes: &[u8], is_value: bool, now: i64) -> Option<(Row, bool)> {
        let mut columns = Row::read(bytes)?.columns;
        let has_expired = columns.iter().any(|column| column.is_expired(now));
        if self.purges {
            columns.retain(|column| !column.is_expired(now));
        }
        for column in columns.iter_mut().filter(|column| column.is_expired(now)) {
            *column = column.tombstone();
        }
        let row = Row::of(columns);
        let row = if is_value { row.without_tombstones(self.grace, now) } else { row };
        Some((row, has_expired))
    }
}

impl CompactionFilter for CassandraFilter {
    fn name(&self) -> &str {
        "CassandraCompactionFilter"
    }
    fn filter(&self, _level: i32, _key: &[u8], value: &[u8]) -> FilterDecision {
        match self.compact(value, true, now()) {
            Some((row, _)) if row.columns.is_empty() => FilterDecision::Remove,
            Some((row, true)) => FilterDecision::ChangeValue(row.bytes()),
            _ => FilterDecision::Keep,
        }
    }
    fn filter_merge_operand(&self, _level: i32, _key: &[u8], operand: &[u8]) -> bool {
        let left = self.compact(operand, false, now());
        left.is_some_and(|(row, _)| row.columns.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(index: i8, timestamp: i64, value: &[u8], ttl: Option<i32>) -> Column {
        let mask = if ttl.is_some() { EXPIRATION } else { 0 };
        let mut bytes = [mask, index].map(i8::cast_unsigned).to_vec();
        bytes.extend_from_slice(&timestamp.to_be_bytes());
        bytes.extend_from_slice(&(value.len() as i32).to_be_bytes());
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(&ttl.map(i32::to_be_bytes).unwrap_or_default()[..]);
        if ttl.is_none() {
            bytes.truncate(bytes.len() - 4);
        }
        Column { mask, index, timestamp, seconds: ttl.unwrap_or(0), bytes }
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let row = Row::of(vec![column(1, 5, b"one", None), column(2, 6, b"", Some(9))]);
        assert_eq!(Row::read(&row.bytes()), Some(row.clone()));
        let tombstone = Row { deleted: (7, 8), columns: Vec::new() };
        assert_eq!(Row::read(&tombstone.bytes()), Some(tombstone));
        for length in 0..row.bytes().len() {
            let cut = Row::read(&row.bytes()[..length]);
            assert!(cut.is_none_or(|cut| cut.columns.len() < 2), "{length}");
        }
    }

    #[test]
    fn the_newest_of_each_column_wins_until_a_tombstone() {
        let old = Row::of(vec![column(1, 5, b"a", None), column(2, 30, b"b", None)]);
        let new = Row::of(vec![column(1, 20, b"c", None), column(3, 9, b"d", None)]);
        let deleted = Row { deleted: (0, 10), columns: Vec::new() };
        let merged = Row::merge(vec![old.clone(), deleted, new.clone()]).expect("rows");
        let found = [column(1, 5, b"a", None), column(2, 30, b"b", None)];
        assert_eq!(merged.columns.len(), 2);
        assert_eq!(merged.columns[0], column(1, 20, b"c", None));
        assert_eq!(merged.columns[1], found[1]);
        let newest = Row { deleted: (0, 40), columns: Vec::new() };
        assert_eq!(Row::merge(vec![old, newest.clone(), new]), Some(newest));
    }

    #[test]
    fn what_expires_goes_or_becomes_a_tombstone() {
        let row = Row::of(vec![column(1, 5 * MICROS, b"a", Some(10)), column(2, 5, b"b", None)]);
        let keep = CassandraFilter { purges: false, grace: 100 };
        let (left, expired) = keep.compact(&row.bytes(), true, 20 * MICROS).expect("a row");
        assert!(expired);
        assert_eq!((left.columns[0].mask, left.columns[0].seconds), (DELETION, 15));
        assert_eq!(Row::read(&left.bytes()), Some(left));
        let (left, _) = keep.compact(&row.bytes(), true, 200 * MICROS).expect("a row");
        assert_eq!(left.columns, [column(2, 5, b"b", None)]);
        let purge = CassandraFilter { purges: true, grace: 100 };
        let (left, expired) = purge.compact(&row.bytes(), false, 20 * MICROS).expect("a row");
        assert!(expired && left.columns == [column(2, 5, b"b", None)]);
        let (same, expired) = purge.compact(&row.bytes(), true, 15 * MICROS).expect("a row");
        assert!(!expired && same == row, "not yet");
        assert_eq!(purge.filter(0, b"k", b"no row"), FilterDecision::Keep);
    }
}
