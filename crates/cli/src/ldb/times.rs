//! Times of values that expire: which of them `scan` and `dump` print, and how many are in each
//! part of the requested period. Pure functions except for the machine's time zone.

use std::collections::BTreeMap;

use super::{Failure, Invocation};
use crate::calendar::date;
use crate::output::Output;

/// Seconds since 1970 before which no database had times: RocksDB's `kMinTimestamp`.
const FIRST: i32 = 1_368_146_402;

/// The flags `--ttl`, `--timestamp`, `--start_time`, `--end_time` and `--bucket`. Without `--ttl`
/// the others have no effect.
pub struct Times {
    expire: bool,
    shown: bool,
    start: i32,
    end: i32,
    /// Seconds of a part; the whole period unless given.
    bucket: i64,
}

impl Invocation {
    /// What the flags say about times.
    pub fn times(&self) -> Result<Times, Failure> {
        let start = self.arguments.int("start_time", ".")?.unwrap_or(FIRST);
        let end = self.arguments.int("end_time", ".")?.unwrap_or(i32::MAX);
        if end < start {
            return Err("End time can't be less than start time".into());
        }
        let bucket = self.arguments.int("bucket", ".")?.filter(|seconds| *seconds > 0);
        Ok(Times {
            expire: self.arguments.flag("ttl"),
            shown: self.arguments.flag("timestamp"),
            start,
            end,
            bucket: bucket.map_or(i64::from(end) - i64::from(start), i64::from),
        })
    }
}

impl Times {
    /// The line before the entries, if times are shown.
    pub fn print_head(&self, doing: &str, out: &mut Output) {
        if self.expire && self.shown {
            let (start, end) = (date(self.start.into()), date(self.end.into()));
            out.text(&format!("{doing} key-values from {start} to {end}\n"));
        }
    }

    /// Whether an entry with this time is requested; None is a value without a time.
    pub fn contains(&self, time: Option<i32>) -> bool {
        time.is_none_or(|time| (self.start..self.end).contains(&time))
    }

    /// What is printed before an entry.
    pub fn shown(&self, time: Option<i32>) -> String {
        match time.filter(|_| self.shown) {
            Some(time) => format!("{} ", date(time.into())),
            None => String::new(),
        }
    }

    /// Counts for the parts of the time, if there are several.
    pub fn parts(&self) -> Option<Parts<'_>> {
        let range = i64::from(self.end) - i64::from(self.start);
        (self.expire && self.bucket < range).then(|| Parts { times: self, counts: BTreeMap::new() })
    }
}

/// How many entries there are from each part of the time.
pub struct Parts<'a> {
    times: &'a Times,
    /// By the number of the part; none is missing or 0.
    counts: BTreeMap<i64, u64>,
}

impl Parts<'_> {
    /// Counts an entry whose time is asked for.
    pub fn count(&mut self, time: Option<i32>) {
        if let Some(time) = time {
            let part = (i64::from(time) - i64::from(self.times.start)) / self.times.bucket;
            *self.counts.entry(part).or_default() += 1;
        }
    }

    /// A line for each part.
    pub fn print(&self, out: &mut Output) {
        let (mut from, end) = (i64::from(self.times.start), i64::from(self.times.end));
        let mut part = 0;
        while from < end {
            let to = (from + self.times.bucket).min(end);
            let count = self.counts.get(&part).copied().unwrap_or(0);
            let line = format!("Keys in range {} to {} : {count}", date(from), date(to));
            if !out.line(&[line.as_bytes()]) {
                return;
            }
            (from, part) = (to, part + 1);
        }
    }
}
