//! Measurements by sensor and time: ranges are read in order of time, and what is older than an
//! hour is removed when files are compacted. Where the time of the write is the time that counts,
//! `pumice::DbWithTtl` does it alone.
//!
//! `cargo run --release -p pumice --example time_series [DIRECTORY]`

use pumice::{CompactRangeOptions, Db, FilterDecision, Result};

const HOUR: u64 = 3600;
/// The example's present.
const NOW: u64 = 1_800_000_000;

/// Big-endian times sort as numbers do.
fn key(sensor: &str, seconds: u64) -> Vec<u8> {
    [sensor.as_bytes(), b"/", &seconds.to_be_bytes()].concat()
}

fn seconds(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.last_chunk()?))
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/pumice-time-series".into());
    let db = Db::builder(directory)
        .create(true)
        .configure(|options| {
            options.cf.set_compaction_filter("an hour", |_level, key, _value| match seconds(key) {
                Some(at) if at + HOUR < NOW => FilterDecision::Remove,
                _ => FilterDecision::Keep,
            });
        })
        .open()?;
    for minute in 0..180 {
        let at = NOW - 60 * minute;
        db.put(key("attic", at), (20.0 + minute as f64 / 60.0).to_le_bytes())?;
        db.put(key("cellar", at), 12.0f64.to_le_bytes())?;
    }

    // The last ten minutes of one sensor.
    let (mut sum, mut count) = (0.0, 0);
    for entry in db.range(key("attic", NOW - 600)..=key("attic", NOW))? {
        let (_, value) = entry?;
        sum += value.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
        count += 1;
    }
    println!("attic: {count} measurements, {:.2} on average", sum / f64::from(count));

    println!("before: {} measurements", db.iter()?.count());
    db.compact_range(&CompactRangeOptions::default(), None, None)?; // It would run by itself.
    println!("after: {} measurements", db.iter()?.count());
    db.close()
}
