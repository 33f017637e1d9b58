//! The edges of each option: candidates by the form of the row's value, and which the row accepts.
//!
//! The bounds of a row are found by trial: numbers are tried at the ends of all types, at powers of
//! two and where products overflow, and the bound between an accepted and a refused neighbour is
//! found by bisection.

use pumice::options::row::RowKind;
use pumice::options::{BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, OptionSet};

use super::life::Change;

/// In which options a name lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The database.
    Db,
    /// The column family.
    Cf,
    /// The tables of a column family.
    Table,
}

/// An option, or a member of one, with its edges.
pub struct Subject {
    /// Where it lives.
    pub scope: Scope,
    /// `option` or `option.member`.
    pub name: String,
    /// The option may change while the database is open.
    pub mutable: bool,
    /// Values that the row takes.
    pub accepted: Vec<String>,
    /// Values that it refuses, and the errors.
    pub refused: Vec<(String, String)>,
}

impl Subject {
    /// The change to one of its values.
    pub fn change(&self, value: &str) -> Change {
        Change { scope: self.scope, name: self.name.clone(), value: value.to_string() }
    }
}

/// Options that a life sets itself, because it could not run otherwise; and one with which it would
/// lose what is in its logs.
const LEFT_OUT: &[&str] =
    &["create_if_missing", "create_missing_column_families", "best_efforts_recovery"];

/// Every option that the engine obeys, and every member of those that have some.
pub fn subjects() -> Vec<Subject> {
    let mut out = Vec::new();
    scope::<DbOptions>(Scope::Db, &mut out);
    scope::<ColumnFamilyOptions>(Scope::Cf, &mut out);
    scope::<BlockBasedTableOptions>(Scope::Table, &mut out);
    out
}

fn scope<S: OptionSet>(scope: Scope, out: &mut Vec<Subject>) {
    let defaults = S::default();
    for row in S::rows() {
        if LEFT_OUT.contains(&row.name) || row.name == "table_factory" {
            continue;
        }
        let text = match &row.kind {
            RowKind::Unsupported { .. } => continue,
            RowKind::Field { .. } | RowKind::Hint { .. } => row.get(&defaults),
        };
        let set = |name: &str, value: &str| {
            let mut options = S::default();
            pumice::options::row::set_by_name(&mut options, name, value)
                .map_err(|error| error.to_string())
        };
        let members = match text.starts_with('{') && text.len() > 2 {
            true => pumice::options::text::parse_map(&text).unwrap(),
            false => Vec::new(),
        };
        let mut add = |name: String, candidates: Vec<String>| {
            let mut subject = Subject {
                scope,
                mutable: row.mutable,
                accepted: Vec::new(),
                refused: Vec::new(),
                name,
            };
            for value in candidates {
                match set(&subject.name, &value) {
                    Ok(()) => subject.accepted.push(value),
                    Err(error) => subject.refused.push((value, error)),
                }
            }
            if !subject.accepted.is_empty() {
                out.push(subject);
            }
        };
        for (member, value) in &members {
            let name = format!("{}.{member}", row.name);
            let candidates = candidates(&name, "", value, &|value| set(&name, value));
            add(name, candidates);
        }
        if members.is_empty() {
            let by_form = |value: &str| set(row.name, value);
            add(row.name.to_string(), candidates(row.name, row.type_name, &text, &by_form));
        }
    }
}

/// The errors of unsupported rows for a value that they do not take.
pub fn unsupported() -> Vec<(&'static str, String)> {
    fn of<S: OptionSet>(out: &mut Vec<(&'static str, String)>) {
        for row in S::rows() {
            if let RowKind::Unsupported { accepts } = &row.kind {
                let set = |value: &str| {
                    pumice::options::row::set_by_name(&mut S::default(), row.name, value)
                };
                accepts.iter().for_each(|value| set(value).unwrap());
                out.push((row.name, set("another").unwrap_err().to_string()));
            }
        }
    }
    let mut out = Vec::new();
    of::<DbOptions>(&mut out);
    of::<ColumnFamilyOptions>(&mut out);
    of::<BlockBasedTableOptions>(&mut out);
    out
}

/// Whether a text has the name of an option.
pub fn names_an_option(text: &str) -> bool {
    fn of<S: OptionSet>(word: &str) -> bool {
        S::rows().iter().any(|row| row.name == word)
    }
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| {
        of::<DbOptions>(word)
            || of::<ColumnFamilyOptions>(word)
            || of::<BlockBasedTableOptions>(word)
    })
}

type Set<'a> = &'a dyn Fn(&str) -> Result<(), String>;

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| value.to_string()).collect()
}

const CODECS: [&str; 9] = [
    "kNoCompression",
    "kSnappyCompression",
    "kZlibCompression",
    "kBZip2Compression",
    "kLZ4Compression",
    "kLZ4HCCompression",
    "kXpressCompression",
    "kZSTD",
    "kDisableCompressionOption",
];

/// Values to try for an option whose value reads `text` now.
fn candidates(name: &str, type_name: &str, text: &str, set: Set<'_>) -> Vec<String> {
    if let Some(values) = of_objects(name).or_else(|| of_lists(name)) {
        return values;
    }
    match type_name {
        "CompressionType" => texts(&CODECS),
        _ if text == "true" || text == "false" => texts(&["true", "false", "1", "0", "2", "yes"]),
        _ if text.parse::<i128>().is_ok() => integers(text, set),
        _ if text.parse::<f64>().is_ok() => doubles(),
        _ => names(text, set),
    }
}

/// Values of options that name an object with parameters.
fn of_objects(name: &str) -> Option<Vec<String>> {
    let huge = "18446744073709551615";
    let mut all = match name {
        "prefix_extractor" => texts(&["nullptr", "noop", "fixed:-1"]),
        "memtable_factory" => texts(&["skip_list", "vector", "prefix_hash"]),
        "filter_policy" => texts(&["nullptr", "bloomfilter:10:true"]),
        "comparator" => {
            texts(&["leveldb.BytewiseComparator", "rocksdb.ReverseBytewiseComparator", "x"])
        }
        "merge_operator" => {
            texts(&["stringappend", "put", "max", "uint64add", "stringappendtest", "x"])
        }
        _ => return None,
    };
    for n in ["0", "1", "2", "4", "16", "4096", "4294967295", "4294967296", huge] {
        match name {
            "prefix_extractor" => all.extend(["fixed", "capped"].map(|kind| format!("{kind}:{n}"))),
            "memtable_factory" => {
                all.extend(["skip_list", "vector"].map(|kind| format!("{kind}:{n}")));
            }
            _ => {}
        }
    }
    let bits = ["0", "0.1", "0.5", "0.999", "1", "1.5", "2", "10", "99.9", "100", "1000", "1e9"];
    for bits in bits.into_iter().chain(["1e300", "-1", "nan"]).filter(|_| name == "filter_policy") {
        all.push(format!("bloomfilter:{bits}:false"));
        for level in ["-1", "0", "1", "2147483647", "-2147483648"] {
            all.push(format!("ribbonfilter:{bits}:{level}"));
        }
    }
    Some(all)
}

/// Values of lists, directories and texts of a form of their own.
fn of_lists(name: &str) -> Option<Vec<String>> {
    Some(match name {
        "daily_offpeak_time_utc" => texts(&[
            "",
            "00:00-23:59",
            "23:59-00:00",
            "00:00-00:01",
            "12:00-12:00",
            "24:00-01:00",
            "x",
        ]),
        "max_bytes_for_level_multiplier_additional" => {
            let most = ["2147483647"; 7].join(":");
            let least = ["-2147483648"; 7].join(":");
            let many = ["3"; 300].join(":");
            texts(&["", "0", "1", "-1", "1:0:1", "2147483648", &most, &least, &many])
        }
        "compression_per_level" => {
            let many = ["kZSTD"; 100].join(":");
            let mut all = texts(&["", &CODECS[..6].join(":"), &many]);
            all.extend(texts(&CODECS));
            all
        }
        "db_log_dir" | "wal_dir" => texts(&["", "/elsewhere", "/db", "/db/inside"]),
        "db_host_id" => texts(&["", "__hostname__", "h", &"h".repeat(5000)]),
        _ => return None,
    })
}

/// Members of an enumeration, which its refusal lists; else the value itself.
fn names(text: &str, set: Set<'_>) -> Vec<String> {
    let mut all = vec![text.to_string()];
    if let Err(error) = set("no such value")
        && let Some((_, list)) = error.split_once("one of ")
        && let Some((list, _)) = list.split_once(", found")
    {
        all.extend(list.split(", ").map(str::to_string));
    }
    all.extend(texts(&["kNoneOfThese", "no such value"]));
    all.dedup();
    all
}

/// Whole numbers: the default, ends of types, powers of two, where products overflow, the bounds.
fn integers(default: &str, set: Set<'_>) -> Vec<String> {
    let mut all: Vec<i128> = vec![default.parse().unwrap(), -1, 0, 1, 3, 5, 7, 10, 100, 1000];
    for shift in 1..=64 {
        let power = 1i128 << shift;
        all.push(power);
        if matches!(shift, 2 | 8 | 12 | 15 | 16 | 20 | 30 | 31 | 32 | 33 | 53 | 62 | 63 | 64) {
            all.extend([power - 1, power + 1]);
        }
    }
    for top in [i128::from(i32::MAX), i128::from(u32::MAX), i128::from(i64::MAX), u64::MAX.into()] {
        all.extend([top - 1, top / 2, top / 4 + 1, top / 10, top / 10 + 1, top / 25 + 1]);
        all.extend([top / 1_000_000, top / 1_000_000 + 1, top / 4096 + 1]);
    }
    all.extend([i128::from(i32::MIN), i128::from(i32::MIN) - 1, i128::from(i64::MIN)]);
    all.sort_unstable();
    all.dedup();
    let takes = |value: i128| set(&value.to_string()).is_ok();
    let mut bounds = Vec::new();
    for pair in all.windows(2) {
        let (mut low, mut high) = (pair[0], pair[1]);
        let taken = takes(low);
        if taken == takes(high) {
            continue;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match takes(middle) == taken {
                true => low = middle,
                false => high = middle,
            }
        }
        bounds.extend([low, high]);
    }
    all.extend(bounds);
    all.sort_unstable();
    all.dedup();
    let mut out: Vec<String> = all.iter().map(i128::to_string).collect();
    out.extend(texts(&["", "x", "1.5", "18446744073709551616", "99999999999T"]));
    out
}

fn doubles() -> Vec<String> {
    let mut all: Vec<f64> = vec![f64::MIN, -1e18, -1.0, -1e-300, -0.0, 0.0, 5e-324, 1e-300, 1e-9];
    all.extend([0.01, 0.24, 0.25, 0.26, 0.5, 0.75, 0.999_999, 1.0, 1.000_001, 1.5, 2.0, 9.99]);
    all.extend([10.0, 1e3, 1e6, 1e9, 9_007_199_254_740_993.0, 1e18, 1e19, 1e38, 1e300, f64::MAX]);
    let mut out: Vec<String> = all.iter().map(f64::to_string).collect();
    out.extend(texts(&["", "x", "nan", "inf", "-inf"]));
    out
}
