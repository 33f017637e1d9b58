//! Measurements by sensor and time with a compaction filter, with rust-rocksdb.

use rocksdb::{CompactionDecision, DB, Error, IteratorMode, Options, ReadOptions};

const HOUR: u64 = 3600;
const NOW: u64 = 1_800_000_000;

fn key(sensor: &str, seconds: u64) -> Vec<u8> {
    [sensor.as_bytes(), b"/", &seconds.to_be_bytes()].concat()
}

fn seconds(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.last_chunk()?))
}

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/rocksdb-time-series".into());
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compaction_filter("an hour", |_level, key, _value| match seconds(key) {
        Some(at) if at + HOUR < NOW => CompactionDecision::Remove,
        _ => CompactionDecision::Keep,
    });
    let db = DB::open(&options, directory)?;
    for minute in 0..180 {
        let at = NOW - 60 * minute;
        db.put(key("attic", at), (20.0 + minute as f64 / 60.0).to_le_bytes())?;
        db.put(key("cellar", at), 12.0f64.to_le_bytes())?;
    }

    let (mut sum, mut count) = (0.0, 0);
    let mut range = ReadOptions::default();
    range.set_iterate_range(key("attic", NOW - 600)..key("attic", NOW + 1));
    for entry in db.iterator_opt(IteratorMode::Start, range) {
        let (_, value) = entry?;
        sum += value.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
        count += 1;
    }
    println!("attic: {count} measurements, {:.2} on average", sum / f64::from(count));

    println!("before: {} measurements", db.iterator(IteratorMode::Start).count());
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    println!("after: {} measurements", db.iterator(IteratorMode::Start).count());
    Ok(())
}
