//! RocksDB's numbers of tickers and histograms, which the C interface passes bare.
//!
//! Thread safety: `Statistics` has its own; the rest is immutable.

use std::sync::OnceLock;

use pumice::{HistogramKind, Statistics, Ticker};

use crate::store::Store;

static TABLE: &str = include_str!("../tables/statistics_numbers.tsv");

struct Numbers {
    tickers: Vec<Option<Ticker>>,
    histograms: Vec<Option<HistogramKind>>,
}

fn numbers() -> &'static Numbers {
    static NUMBERS: OnceLock<Numbers> = OnceLock::new();
    NUMBERS.get_or_init(|| {
        let names = |kind: &'static str| {
            TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(move |line| {
                let mut columns = line.split('\t');
                let is_kind = columns.next()? == kind;
                columns.next()?;
                columns.next().filter(|_| is_kind)
            })
        };
        Numbers {
            tickers: names("t").map(Ticker::from_name).collect(),
            histograms: names("h").map(HistogramKind::from_name).collect(),
        }
    })
}

/// The count of ticker `number`; 0 for one that is not counted.
pub fn ticker(statistics: &Statistics, number: u32) -> u64 {
    let ticker = numbers().tickers.get(number as usize).copied().flatten();
    ticker.map_or(0, |ticker| statistics.ticker(ticker))
}

/// `rocksdb_statistics_histogram_data_t` of histogram `number`; all 0 for one that is not kept.
pub fn histogram(statistics: &Statistics, number: u32) -> Store {
    let mut data = Store::named("statistics_histogram_data");
    let kind = numbers().histograms.get(number as usize).copied().flatten();
    let Some(kind) = kind else { return data };
    let histogram = statistics.histogram(kind);
    if histogram.count() == 0 {
        return data;
    }
    data.put_double("median", histogram.median());
    data.put_double("p95", histogram.percentile(95.0));
    data.put_double("p99", histogram.percentile(99.0));
    data.put_double("average", histogram.average());
    data.put_double("std_dev", histogram.std_dev());
    data.put_double("max", histogram.max() as f64);
    data.put_double("min", histogram.min() as f64);
    data.put("count", histogram.count());
    data.put("sum", histogram.sum());
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_rocksdb() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        let (mut t, mut h) = (0, 0);
        for line in lines {
            let columns: Vec<&str> = line.split('\t').collect();
            let next = if columns[0] == "t" { &mut t } else { &mut h };
            assert_eq!(columns[1].parse(), Ok(*next), "{line}");
            *next += 1;
        }
        let statistics = Statistics::new();
        let ticker_number = TABLE.lines().find(|l| l.ends_with("\trocksdb.block.cache.hit"));
        assert_eq!(ticker_number, Some("t\t1\trocksdb.block.cache.hit"));
        let hit = Ticker::from_name("rocksdb.block.cache.hit").expect("counted");
        statistics.record_tick(hit, 7);
        assert_eq!(ticker(&statistics, 1), 7);
        assert_eq!(ticker(&statistics, 9999), 0);
        assert_eq!(histogram(&statistics, 9999).bits("count"), 0);
    }
}
