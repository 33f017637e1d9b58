//! Measurements by sensor and time with a compaction filter, with fjall. The calls that flush and
//! compact at once are there and left out of its documentation.

use std::sync::Arc;

use fjall::compaction::filter::{
    CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict,
};
use fjall::{Database, KeyspaceCreateOptions, Result};

const HOUR: u64 = 3600;
const NOW: u64 = 1_800_000_000;

struct AnHour;

impl CompactionFilter for AnHour {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        match seconds(item.key()) {
            Some(at) if at + HOUR < NOW => Ok(Verdict::Remove),
            _ => Ok(Verdict::Keep),
        }
    }
}

impl Factory for AnHour {
    fn name(&self) -> &str {
        "an hour"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(AnHour)
    }
}

fn key(sensor: &str, seconds: u64) -> Vec<u8> {
    [sensor.as_bytes(), b"/", &seconds.to_be_bytes()].concat()
}

fn seconds(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.last_chunk()?))
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/fjall-time-series".into());
    let db = Database::builder(directory)
        .with_compaction_filter_factories(Arc::new(|_keyspace| Some(Arc::new(AnHour))))
        .open()?;
    let sensors = db.keyspace("sensors", KeyspaceCreateOptions::default)?;
    for minute in 0..180 {
        let at = NOW - 60 * minute;
        sensors.insert(key("attic", at), (20.0 + minute as f64 / 60.0).to_le_bytes())?;
        sensors.insert(key("cellar", at), 12.0f64.to_le_bytes())?;
    }

    let (mut sum, mut count) = (0.0, 0);
    for entry in sensors.range(key("attic", NOW - 600)..=key("attic", NOW)) {
        sum += entry.value()?.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
        count += 1;
    }
    println!("attic: {count} measurements, {:.2} on average", sum / f64::from(count));

    println!("before: {} measurements", sensors.len()?);
    sensors.rotate_memtable_and_wait()?;
    sensors.major_compact()?;
    println!("after: {} measurements", sensors.len()?);
    Ok(())
}
