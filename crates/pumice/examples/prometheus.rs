//! Statistics for Prometheus: tickers become counters, histograms summaries, properties gauges.
//!
//! `cargo run --release -p pumice --example prometheus [DIRECTORY]`

use std::fmt::Write;
use std::sync::Arc;

use pumice::{Db, HistogramKind, Result, Statistics, Ticker};

/// `rocksdb.block.cache.hit` becomes `rocksdb_block_cache_hit`.
fn name(rocksdb: &str) -> String {
    rocksdb.replace(['.', '-'], "_")
}

/// The page that `/metrics` answers with.
fn metrics(db: &Db, statistics: &Statistics) -> String {
    let mut page = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(page, "{text}").expect("a String grows");
    };
    for ticker in Ticker::ALL {
        let name = name(ticker.name());
        line(format_args!("# TYPE {name} counter\n{name} {}", statistics.ticker(*ticker)));
    }
    for kind in HistogramKind::ALL {
        let (name, values) = (name(kind.name()), statistics.histogram(*kind));
        line(format_args!("# TYPE {name} summary"));
        for quantile in [0.5, 0.95, 0.99] {
            let value = values.percentile(quantile * 100.0);
            line(format_args!("{name}{{quantile=\"{quantile}\"}} {value}"));
        }
        line(format_args!("{name}_sum {}\n{name}_count {}", values.sum(), values.count()));
    }
    for property in [
        "rocksdb.estimate-num-keys",
        "rocksdb.estimate-live-data-size",
        "rocksdb.cur-size-all-mem-tables",
        "rocksdb.estimate-pending-compaction-bytes",
    ] {
        let (name, value) = (name(property), db.property_int(property).unwrap_or(0));
        line(format_args!("# TYPE {name} gauge\n{name} {value}"));
    }
    page
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/pumice-prometheus".into());
    let statistics = Arc::new(Statistics::new());
    let counted = Arc::clone(&statistics);
    let db = Db::builder(directory)
        .create(true)
        .configure(|options| options.db.statistics = Some(counted))
        .open()?;
    for n in 0..1000u32 {
        db.put(n.to_be_bytes(), "value")?;
    }
    db.flush()?;
    for n in 0..500u32 {
        db.get(n.to_be_bytes())?;
    }
    print!("{}", metrics(&db, &statistics));
    db.close()
}
