//! Metrics as text for Prometheus: its text exposition format, version 0.0.4.
//!
//! A page is families of metrics, one after the other. A family has a description (`# HELP`), a
//! type (`# TYPE`) and samples, each a name, optional labels in braces, and a number:
//!
//! ```text
//! # HELP rocksdb_db_get_seconds Histogram rocksdb.db.get.micros.
//! # TYPE rocksdb_db_get_seconds summary
//! rocksdb_db_get_seconds{quantile="0.5"} 0.00000125
//! rocksdb_db_get_seconds_sum 0.0007
//! rocksdb_db_get_seconds_count 500
//! ```
//!
//! Thread safety: a page has one owner; counting continues while it is written, so a page does not
//! show one instant. Writing a page may suspend on the statistics' locks.
//!
//! Invariants: (1) a character that is not allowed in a name becomes `_`; help and label values are
//! escaped. (2) The samples of a family are together, after its two lines.
//!
//! What it does not do: serve the page, add time stamps (Prometheus has its own), or keep two
//! families of the same name apart.

use std::fmt::{Display, Write};

use super::names::{HistogramKind, Ticker};
use super::statistics::Statistics;

/// The quantiles of a histogram that a page shows.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// The type of a family.
///
/// Example: that of [`MetricsPage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// A sum that only grows, until the process starts again.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Counts by upper bound: samples with `_bucket` (label `le`), `_sum` and `_count`.
    Histogram,
    /// Quantiles: samples with the label `quantile`, `_sum` and `_count`.
    Summary,
}

impl MetricKind {
    fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::Summary => "summary",
        }
    }
}

/// A page under construction; `to_string` gives the text.
///
/// ```
/// use pumice::stats::{MetricFamily, MetricKind, MetricsPage};
/// let mut page = MetricsPage::new();
/// page.number("app_users", MetricKind::Gauge, "Users who are logged in.", 7);
/// assert!(page.to_string().ends_with("# TYPE app_users gauge\napp_users 7\n"));
/// let mut family: MetricFamily<'_> = page.family("app_calls", MetricKind::Counter, "Calls.");
/// family.sample("_total", &[("kind", "read")], 12);
/// assert!(page.to_string().ends_with("app_calls_total{kind=\"read\"} 12\n"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsPage {
    text: String,
}

impl MetricsPage {
    /// The `Content-Type` of an HTTP response with a page.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// An empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a family of metrics. Its samples come next.
    pub fn family(&mut self, name: &str, kind: MetricKind, help: &str) -> MetricFamily<'_> {
        let name = metric_name(name);
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        let kind = kind.name();
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
        MetricFamily { page: self, name }
    }

    /// A family of one sample without labels.
    pub fn number(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample("", &[], value);
    }

    /// All counters, each a family `counter`, and all histograms, each a family `summary`, of a
    /// database. Names follow Prometheus's conventions: `rocksdb.block.cache.hit` is
    /// `rocksdb_block_cache_hit_total`, and times are in seconds: `rocksdb.db.get.micros` is
    /// `rocksdb_db_get_seconds`; the help text has RocksDB's name. A quantile of an empty histogram
    /// is `NaN`.
    pub fn statistics(&mut self, statistics: &Statistics) {
        for &ticker in Ticker::ALL {
            let Measure { name, unit } = Measure::of(ticker.name());
            let name = if name.ends_with(".total") { name } else { name + ".total" };
            let help = format!("Counter {}.", ticker.name());
            let value = statistics.ticker(ticker);
            match unit {
                1.0 => self.number(&name, MetricKind::Counter, &help, value),
                unit => self.number(&name, MetricKind::Counter, &help, value as f64 / unit),
            }
        }
        for &kind in HistogramKind::ALL {
            let values = statistics.histogram(kind);
            let Measure { name, unit } = Measure::of(kind.name());
            let help = format!("Histogram {}.", kind.name());
            let mut family = self.family(&name, MetricKind::Summary, &help);
            for quantile in QUANTILES {
                let value = match values.count() {
                    0 => f64::NAN,
                    _ => values.percentile(quantile * 100.0) / unit,
                };
                family.sample("", &[("quantile", &quantile.to_string())], value);
            }
            family.sample("_sum", &[], values.sum() as f64 / unit);
            family.sample("_count", &[], values.count());
        }
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{text}").expect("a String takes everything");
    }
}

/// The text of the page.
impl Display for MetricsPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// A family of a page, which samples are added to.
///
/// Example: that of [`MetricsPage`].
#[derive(Debug)]
pub struct MetricFamily<'a> {
    page: &'a mut MetricsPage,
    name: String,
}

impl MetricFamily<'_> {
    /// Adds a number. `suffix` is empty or the suffix of the family's type; labels are names and
    /// values.
    pub fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let pair = |(name, value): &(&str, &str)| {
            let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            format!("{}=\"{value}\"", metric_name(name).replace(':', "_"))
        };
        let labels = match labels {
            [] => String::new(),
            _ => format!("{{{}}}", labels.iter().map(pair).collect::<Vec<_>>().join(",")),
        };
        self.page.line(format_args!("{}{suffix}{labels} {value}", self.name));
    }
}

impl Statistics {
    /// All counters and histograms in Prometheus's text format, see [`MetricsPage::statistics`].
    pub fn to_prometheus(&self) -> String {
        let mut page = MetricsPage::new();
        page.statistics(self);
        page.text
    }
}

/// The name of a number in Prometheus's base unit, and how many of the number's are one.
struct Measure {
    name: String,
    unit: f64,
}

impl Measure {
    /// Of RocksDB's name of a counter or histogram.
    fn of(name: &str) -> Measure {
        for (part, unit) in [("micros", 1e6), ("nanos", 1e9)] {
            if name.contains(part) {
                return Measure { name: name.replace(part, "seconds"), unit };
            }
        }
        // Times whose names do not say so.
        match name {
            "rocksdb.db.write.stall" => Measure { name: format!("{name}.seconds"), unit: 1e6 },
            _ => Measure { name: name.to_string(), unit: 1.0 },
        }
    }
}

/// `name` as Prometheus accepts it: letters, digits (not first), `_` and `:`.
fn metric_name(name: &str) -> String {
    let allowed = |at: usize, c: char| {
        c.is_ascii_alphabetic() || c == '_' || c == ':' || (at > 0 && c.is_ascii_digit())
    };
    name.chars().enumerate().map(|(at, c)| if allowed(at, c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// A sample's name, labels and value.
    type Sample = (String, Vec<(String, String)>, f64);

    /// Reads a page as Prometheus does, and panics where that would refuse it.
    fn read(page: &str) -> BTreeMap<String, (String, Vec<Sample>)> {
        let mut families = BTreeMap::new();
        let mut names = BTreeSet::new();
        let mut lines = page.lines().peekable();
        assert!(page.is_empty() || page.ends_with('\n'));
        while let Some(line) = lines.next() {
            let (name, help) = line.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
            assert!(!help.is_empty() && is_name(name), "{line}");
            let (same, kind) =
                lines.next().unwrap().strip_prefix("# TYPE ").unwrap().split_once(' ').unwrap();
            assert_eq!(same, name);
            let mut samples = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                let sample = read_sample(line);
                let suffix = sample.0.strip_prefix(name).unwrap_or_else(|| panic!("{line}"));
                let allowed: &[&str] = match kind {
                    "counter" | "gauge" => &[""],
                    "summary" => &["", "_sum", "_count"],
                    "histogram" => &["_bucket", "_sum", "_count"],
                    other => panic!("{other} is not a kind"),
                };
                assert!(allowed.contains(&suffix), "{line}");
                assert!(names.insert((sample.0.clone(), sample.1.clone())), "twice: {line}");
                samples.push(sample);
            }
            let twice = families.insert(name.to_string(), (kind.to_string(), samples));
            assert!(twice.is_none(), "two families {name}");
        }
        families
    }

    fn is_name(name: &str) -> bool {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
            && !name.is_empty()
    }

    fn read_sample(line: &str) -> Sample {
        let end = line.find(['{', ' ']).unwrap();
        let (name, mut rest) = line.split_at(end);
        assert!(is_name(name), "{line}");
        let mut labels = Vec::new();
        while let Some(label) = rest.strip_prefix(['{', ',']) {
            let (key, value) = label.split_once("=\"").unwrap();
            assert!(is_name(key) && !key.contains(':'), "{line}");
            let (mut text, mut chars) = (String::new(), value.char_indices());
            let close = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next().unwrap().1 {
                        'n' => text.push('\n'),
                        c => {
                            assert!(['"', '\\'].contains(&c), "{line}");
                            text.push(c);
                        }
                    },
                    (_, c) => text.push(c),
                }
            };
            labels.push((key.to_string(), text));
            rest = &value[close + 1..];
        }
        let rest = rest.strip_prefix('}').unwrap_or(rest).strip_prefix(' ').unwrap();
        let value = match rest {
            "+Inf" => f64::INFINITY,
            number => number.parse().unwrap_or_else(|_| panic!("{line}")),
        };
        (name.to_string(), labels, value)
    }

    #[pumice_test_macros::test]
    fn statistics_are_counters_and_summaries() {
        let statistics = Statistics::new();
        statistics.record_tick(Ticker::BlockCacheHit, 3);
        (1..=100).for_each(|micros| statistics.measure(HistogramKind::DbGet, micros));
        let families = read(&statistics.to_prometheus());
        assert_eq!(families.len(), Ticker::ALL.len() + HistogramKind::ALL.len());
        let (kind, samples) = &families["rocksdb_block_cache_hit_total"];
        assert_eq!((&kind[..], samples[0].2, samples.len()), ("counter", 3.0, 1));
        let (kind, samples) = &families["rocksdb_db_get_seconds"];
        assert_eq!(&kind[..], "summary");
        let wanted = statistics.histogram(HistogramKind::DbGet);
        for ((name, labels, value), quantile) in samples.iter().zip(["0.5", "0.95", "0.99"]) {
            assert_eq!(name, "rocksdb_db_get_seconds");
            assert_eq!(labels[..], [("quantile".to_string(), quantile.to_string())]);
            let micros = wanted.percentile(quantile.parse::<f64>().unwrap() * 100.0);
            assert_eq!(*value, micros / 1e6);
        }
        let rest: Vec<_> =
            samples[3..].iter().map(|(name, _, value)| (&name[..], *value)).collect();
        assert_eq!(
            rest,
            [("rocksdb_db_get_seconds_sum", 0.00505), ("rocksdb_db_get_seconds_count", 100.0)]
        );
        let (_, untouched) = &families["rocksdb_db_write_seconds"];
        assert!(untouched[..3].iter().all(|(_, _, value)| value.is_nan()));
        assert_eq!(untouched[4].2, 0.0);
        // What `promtool check metrics` complains about.
        for (name, (kind, _)) in &families {
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            let units = ["micros", "nanos", "millis", "ms", "us", "ns"];
            let has_unit = name.split('_').any(|word| units.contains(&word));
            assert!(!has_unit, "{name}: the unit is seconds");
            assert!(!name.chars().any(|c| c.is_ascii_uppercase()), "{name}");
        }
    }

    #[pumice_test_macros::test]
    fn what_would_break_a_page_is_escaped() {
        let mut page = MetricsPage::new();
        page.number("0 a.b-c:d\n", MetricKind::Gauge, "one\ntwo \\ \"three\"", 1.5);
        let mut family = page.family("f", MetricKind::Histogram, "Bounds.");
        family.sample("_bucket", &[("le", "+Inf"), ("a:b", "x\"y\\z\nw,{} v")], 2);
        family.sample("_sum", &[], "+Inf");
        let text = page.to_string();
        assert!(text.starts_with("# HELP __a_b_c:d_ one\\ntwo \\\\ \"three\"\n"), "{text}");
        let families = read(&text);
        assert_eq!(families["__a_b_c:d_"].1[0].2, 1.5);
        let labels = &families["f"].1[0].1;
        assert_eq!(labels[1], ("a_b".to_string(), "x\"y\\z\nw,{} v".to_string()));
    }
}
