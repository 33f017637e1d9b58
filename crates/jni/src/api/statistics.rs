//! Statistics: Java numbers tickers and histograms with bytes of its own, other ones in other jars.
//! So the classes are asked: each enum's numbers are read once, and its names are RocksDB's with
//! low lines, but for those in `tables/statistics_names.tsv`.

use std::sync::{Arc, OnceLock};

use jni_sys::jvalue;
use pumice::stats::StatsLevel;
use pumice::{HistogramKind, Statistics, Ticker};

use crate::ffi::call::{Failure, Result};
use crate::ffi::env::{Env, Object};
use crate::ffi::into::New;
use crate::objects::Counts;

static NAMES: &str = include_str!("../../tables/statistics_names.tsv");

/// What a byte of Java stands for; None is not counted here.
type Numbers<T> = Vec<(i8, Option<T>)>;

static TICKERS: OnceLock<Numbers<Ticker>> = OnceLock::new();
static HISTOGRAMS: OnceLock<Numbers<HistogramKind>> = OnceLock::new();

/// RocksDB's name of Java's.
fn name_of(kind: &str, java: &str) -> String {
    let rows = NAMES.lines().filter(|line| !line.starts_with('#'));
    let mut columns = rows.map(|row| row.split('\t').collect::<Vec<_>>());
    match columns.find(|row| row.first() == Some(&kind) && row.get(1) == Some(&java)) {
        Some(row) => row.get(2).map_or_else(String::new, |name| (*name).to_string()),
        None => format!("rocksdb.{}", java.to_lowercase().replace('_', ".")),
    }
}

/// The name without what separates its words, which RocksDB does in several ways.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// The numbers of an enum of Java's.
fn read<T: Copy>(
    env: Env<'_>,
    enumeration: &str,
    kind: &str,
    all: &[(String, T)],
) -> Result<Numbers<T>> {
    let name = format!("org/rocksdb/{enumeration}");
    let class = env.class(&name)?;
    let values = env.static_method(class, "values", &format!("()[L{name};"))?;
    let array = env.call_static_object(class, values, &[])?;
    let name_method = env.method(class, "name", "()Ljava/lang/String;")?;
    let number_method = env.method(class, "getValue", "()B")?;
    let mut numbers = Vec::new();
    for at in 0..env.length(array) {
        let member = env.element(array, at)?;
        let text = env.call_object(member, name_method, &[])?;
        let wanted = letters(&name_of(kind, &env.text(text)?));
        let number = env.call_byte(member, number_method, &[])?;
        let found = all.iter().find(|(name, _)| *name == wanted);
        numbers.push((number, found.map(|(_, value)| *value)));
        env.forget(text);
        env.forget(member);
    }
    Ok(numbers)
}

fn ticker(env: Env<'_>, number: i8) -> Result<Option<Ticker>> {
    if TICKERS.get().is_none() {
        let all = Ticker::ALL.iter().map(|ticker| (letters(ticker.name()), *ticker));
        let all: Vec<_> = all.collect();
        TICKERS.set(read(env, "TickerType", "t", &all)?).ok();
    }
    find(TICKERS.get(), number)
}

fn histogram_kind(env: Env<'_>, number: i8) -> Result<Option<HistogramKind>> {
    if HISTOGRAMS.get().is_none() {
        let all = HistogramKind::ALL.iter().map(|kind| (letters(kind.name()), *kind));
        let all: Vec<_> = all.collect();
        HISTOGRAMS.set(read(env, "HistogramType", "h", &all)?).ok();
    }
    find(HISTOGRAMS.get(), number)
}

fn find<T: Copy>(numbers: Option<&Numbers<T>>, number: i8) -> Result<Option<T>> {
    let found = numbers.and_then(|numbers| numbers.iter().find(|(own, _)| *own == number));
    found.map(|(_, value)| *value).ok_or_else(|| Failure::illegal(format!("no number {number}")))
}

/// Java: Statistics.newStatistics ()
pub fn new(_env: Env<'_>) -> Result<New<Counts>> {
    Ok(New(Counts(Arc::new(Statistics::new()))))
}

/// Java: Statistics.newStatistics (J)
pub fn new_with(_env: Env<'_>, _other: i64) -> Result<New<Counts>> {
    Ok(New(Counts(Arc::new(Statistics::new()))))
}

/// Java: Statistics.newStatistics ([B)
/// Java: Statistics.newStatistics ([BJ) 0
pub fn new_without(_env: Env<'_>, _ignored: Vec<u8>) -> Result<New<Counts>> {
    // All histograms are kept.
    Ok(New(Counts(Arc::new(Statistics::new()))))
}

/// Java: Statistics.statsLevel
pub fn level(_env: Env<'_>, counts: &Counts) -> Result<i8> {
    Ok(match counts.0.level() {
        StatsLevel::DisableAll | StatsLevel::ExceptHistogramOrTimers => 0,
        StatsLevel::ExceptTimers | StatsLevel::ExceptDetailedTimers => 0,
        StatsLevel::ExceptTimeForMutex => 1,
        StatsLevel::All => 2,
    })
}

/// Java: Statistics.setStatsLevel
pub fn set_level(_env: Env<'_>, counts: &Counts, level: i8) -> Result<()> {
    counts.0.set_level(match level {
        ..=0 => StatsLevel::ExceptDetailedTimers,
        1 => StatsLevel::ExceptTimeForMutex,
        2.. => StatsLevel::All,
    });
    Ok(())
}

/// Java: Statistics.getTickerCount
pub fn ticker_count(env: Env<'_>, counts: &Counts, number: i8) -> Result<u64> {
    Ok(ticker(env, number)?.map_or(0, |ticker| counts.0.ticker(ticker)))
}

/// Java: Statistics.getAndResetTickerCount
pub fn take_ticker(env: Env<'_>, counts: &Counts, number: i8) -> Result<u64> {
    Ok(ticker(env, number)?.map_or(0, |ticker| counts.0.take_ticker(ticker)))
}

/// Java: Statistics.getHistogramData
pub fn histogram_data<'a>(env: Env<'a>, counts: &Counts, number: i8) -> Result<Object<'a>> {
    let kind = histogram_kind(env, number)?;
    let found = kind.map(|kind| counts.0.histogram(kind)).filter(|found| found.count() > 0);
    let values = found.as_ref().map_or([0.0; 7], |it| {
        [
            it.median(),
            it.percentile(95.0),
            it.percentile(99.0),
            it.average(),
            it.std_dev(),
            it.max() as f64,
            it.min() as f64,
        ]
    });
    let [median, p95, p99, average, deviation, max, min] = values.map(|value| jvalue { d: value });
    let number = |value: u64| jvalue { j: value.cast_signed() };
    let (count, sum) = found.map_or((0, 0), |it| (it.count(), it.sum()));
    let arguments = [median, p95, p99, average, deviation, max, number(count), number(sum), min];
    env.construct("org/rocksdb/HistogramData", "(DDDDDDJJD)V", &arguments)
}

/// Java: Statistics.getHistogramString
pub fn histogram_text(env: Env<'_>, counts: &Counts, number: i8) -> Result<String> {
    let kind = histogram_kind(env, number)?;
    Ok(kind.map_or_else(String::new, |kind| counts.0.histogram(kind).to_string()))
}

/// Java: Statistics.reset
pub fn reset(_env: Env<'_>, counts: &Counts) -> Result<()> {
    counts.0.reset();
    Ok(())
}

/// Java: Statistics.toString
pub fn text(_env: Env<'_>, counts: &Counts) -> Result<String> {
    Ok(counts.0.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_rocksdb() {
        assert_eq!(name_of("t", "BLOCK_CACHE_HIT"), "rocksdb.block.cache.hit");
        assert_eq!(name_of("t", "WAL_FILE_SYNCED"), "rocksdb.wal.synced");
        let known = include_str!("../../../binding/tables/statistics_numbers.tsv");
        for row in NAMES.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = row.split('\t').collect();
            let [kind, _, name] = columns[..] else { panic!("{row}") };
            let same = |line: &str| line.starts_with(kind) && line.ends_with(&format!("\t{name}"));
            assert!(known.lines().any(same), "{row}");
        }
    }
}
