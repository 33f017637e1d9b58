//! Statistics for Prometheus, with rust-rocksdb. They belong to the options, not to the database.

use std::fmt::Write;

use rocksdb::statistics::{Histogram, Ticker};
use rocksdb::{DB, Error, Options};

fn name(rocksdb: &str) -> String {
    rocksdb.replace(['.', '-'], "_")
}

fn metrics(db: &DB, options: &Options) -> String {
    let mut page = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(page, "{text}").expect("a String grows");
    };
    for ticker in Ticker::iter() {
        let name = name(ticker.name());
        line(format_args!("# TYPE {name} counter\n{name} {}", options.get_ticker_count(*ticker)));
    }
    for kind in Histogram::iter() {
        let (name, values) = (name(kind.name()), options.get_histogram_data(*kind));
        line(format_args!("# TYPE {name} summary"));
        for (quantile, value) in
            [(0.5, values.median()), (0.95, values.p95()), (0.99, values.p99())]
        {
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
        let value = db.property_int_value(property).ok().flatten().unwrap_or(0);
        let name = name(property);
        line(format_args!("# TYPE {name} gauge\n{name} {value}"));
    }
    page
}

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/rocksdb-prometheus".into());
    let mut options = Options::default();
    options.create_if_missing(true);
    options.enable_statistics();
    let db = DB::open(&options, directory)?;
    for n in 0..1000u32 {
        db.put(n.to_be_bytes(), "value")?;
    }
    db.flush()?;
    for n in 0..500u32 {
        db.get(n.to_be_bytes())?;
    }
    print!("{}", metrics(&db, &options));
    Ok(())
}
