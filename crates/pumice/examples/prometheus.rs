//! Statistics for Prometheus: tickers become counters, histograms summaries, properties gauges.
//!
//! `cargo run --release -p pumice --example prometheus [DIRECTORY]`

use std::sync::Arc;

use pumice::stats::{MetricKind, MetricsPage};
use pumice::{Db, Result, Statistics};

/// The page that `/metrics` answers with.
fn metrics(db: &Db, statistics: &Statistics) -> MetricsPage {
    let mut page = MetricsPage::new();
    page.statistics(statistics);
    for property in [
        "rocksdb.estimate-num-keys",
        "rocksdb.estimate-live-data-size",
        "rocksdb.cur-size-all-mem-tables",
        "rocksdb.estimate-pending-compaction-bytes",
    ] {
        let value = db.property_int(property).unwrap_or(0);
        page.number(property, MetricKind::Gauge, property, value);
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
