//! Gauges for Prometheus, with fjall. It has no tickers and no histograms (a compile-time feature
//! counts block loads and filters of a tree); what the application wants counted it counts itself.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, Result};

static WRITTEN: AtomicU64 = AtomicU64::new(0);
static READ: AtomicU64 = AtomicU64::new(0);

fn metrics(db: &Database, keys: &Keyspace) -> Result<String> {
    let mut page = String::new();
    let mut line = |name: &str, kind: &str, value: u64| {
        writeln!(page, "# TYPE fjall_{name} {kind}\nfjall_{name} {value}").expect("a String grows");
    };
    line("number_keys_written", "counter", WRITTEN.load(Relaxed));
    line("number_keys_read", "counter", READ.load(Relaxed));
    line("compactions_completed", "counter", db.compactions_completed() as u64);
    line("time_compacting_micros", "counter", db.time_compacting().as_micros() as u64);
    line("estimate_num_keys", "gauge", keys.approximate_len() as u64);
    line("disk_space", "gauge", db.disk_space()?);
    line("write_buffer_size", "gauge", db.write_buffer_size());
    line("cache_size", "gauge", db.cache_size());
    line("outstanding_flushes", "gauge", db.outstanding_flushes() as u64);
    Ok(page)
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/fjall-prometheus".into());
    let db = Database::builder(directory).open()?;
    let keys = db.keyspace("keys", KeyspaceCreateOptions::default)?;
    for n in 0..1000u32 {
        keys.insert(n.to_be_bytes(), "value")?;
        WRITTEN.fetch_add(1, Relaxed);
    }
    keys.rotate_memtable_and_wait()?;
    for n in 0..500u32 {
        keys.get(n.to_be_bytes())?;
        READ.fetch_add(1, Relaxed);
    }
    print!("{}", metrics(&db, &keys)?);
    Ok(())
}
