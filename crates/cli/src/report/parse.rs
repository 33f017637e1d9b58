//! Parses a program's output into named numbers.
//!
//! | name | is |
//! |---|---|
//! | `ops_per_sec`, `seconds`, `operations` | of the result line, which counts the last benchmark |
//! | `cpu_s`, `cpu_us_per_op` | CPU of the process during the benchmark |
//! | `process_cpu_s`, `peak_mb`, `wrote_mb`, `read_mb`, `device_mb` | of the whole process |
//! | `mean_us`, `p50_us`, .. `p99.99_us` | of the first histogram |
//! | `stopped_s`, `slowed_s`, `l0_most`, `pending_most_mb` | of `--report_stalls` |
//! | `sorted_runs` | of the last `levelstats` |
//! | `write_amp`, `read_amp` | bytes written and read by the process, by those of operations |
//! | `mb_per_sec`, `rmse_mb`, `worst` | of the sine, from `--monitor_file` |
//!
//! Thread safety: pure functions.

use super::data::Series;
use super::plan;
use std::collections::BTreeMap;

/// Numbers by name.
pub type Values = BTreeMap<String, f64>;

/// What db_bench printed about `benchmark`; `user_bytes` is what an operation reads or writes.
///
/// # Errors
/// The result line is missing.
pub fn db_bench(text: &str, benchmark: &str, user_bytes: f64) -> Result<Values, String> {
    let mut values = Values::new();
    let words = line_of(text, benchmark, "micros/op");
    let words = words.ok_or_else(|| format!("there is no result of {benchmark}"))?;
    for (place, name) in [(6, "seconds"), (8, "operations")] {
        let number = words.get(place).and_then(|word| word.parse().ok());
        values.insert(name.to_string(), number.ok_or("the result line has no numbers")?);
    }
    // The line has whole operations a second, which are too few where one takes seconds.
    values.insert("ops_per_sec".into(), values["operations"] / values["seconds"].max(1e-3));
    let numbers = |words: Vec<&str>, names: &[(usize, &str)], values: &mut Values| {
        for (place, name) in names {
            if let Some(number) = words.get(*place).and_then(|word| word.parse().ok()) {
                values.insert((*name).to_string(), number);
            }
        }
    };
    if let Some(words) = line_of(text, benchmark, "cpu") {
        numbers(words, &[(3, "cpu_s")], &mut values);
    }
    if let Some(words) = line_of(text, "process", "cpu") {
        let names = [
            (3, "process_cpu_s"),
            (7, "peak_mb"),
            (10, "wrote_mb"),
            (13, "read_mb"),
            (15, "device_mb"),
        ];
        numbers(words, &names, &mut values);
    }
    if let Some(words) = line_of(text, benchmark, "stopped") {
        let names = [(3, "stopped_s"), (6, "slowed_s"), (14, "l0_most"), (20, "pending_most_mb")];
        numbers(words, &names, &mut values);
    }
    percentiles(text, &mut values);
    values.extend(sorted_runs(text).map(|runs| ("sorted_runs".to_string(), runs)));
    derive(&mut values, user_bytes);
    Ok(values)
}

/// The words of the last line of that name that has `mark`.
fn line_of<'a>(text: &'a str, name: &str, mark: &str) -> Option<Vec<&'a str>> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_it = |words: &Vec<&str>| {
        words.len() > 3 && words[0] == name && words[1] == ":" && words.contains(&mark)
    };
    words.rev().find(is_it)
}

/// Files of level 0 and levels with files, by the last table of `levelstats`.
fn sorted_runs(text: &str) -> Option<f64> {
    let table = text.split("Level Files Size(MB)").skip(1).last()?;
    let level = |line: &str| -> Option<(u64, u64)> {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    let levels = table.lines().skip(2).map_while(level);
    Some(levels.map(|(level, files)| if level == 0 { files } else { files.min(1) }).sum::<u64>()
        as f64)
}

/// Of the last histogram but those of background readers.
fn percentiles(text: &str, values: &mut Values) {
    let mut inside = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(kind) = line.strip_prefix("Microseconds per ") {
            inside = !kind.starts_with("background");
        }
        if !inside {
            continue;
        }
        if let ["Count:", _, "Average:", mean, ..] = words.as_slice() {
            mean.parse().ok().map(|mean| values.insert("mean_us".to_string(), mean));
        }
        if words.first() == Some(&"Percentiles:") {
            for pair in words[1..].chunks_exact(2) {
                let name = pair[0].trim_end_matches(':').to_ascii_lowercase();
                pair[1].parse().ok().map(|number| values.insert(format!("{name}_us"), number));
            }
        }
    }
}

fn derive(values: &mut Values, user_bytes: f64) {
    let of = |name: &str| values.get(name).copied();
    let mut more = Vec::new();
    if let Some(operations) = of("operations").filter(|n| *n > 0.0) {
        let megabytes = operations * user_bytes / 1e6;
        let shares = [
            ("cpu_us_per_op", of("cpu_s"), 1e6 / operations),
            ("write_amp", of("wrote_mb"), 1.0 / megabytes),
            ("read_amp", of("read_mb"), 1.0 / megabytes),
            ("device_per_op", of("device_mb"), 1e6 / operations),
        ];
        more.extend(shares.into_iter().filter_map(|(name, value, by)| Some((name, value? * by))));
    }
    values.extend(more.into_iter().map(|(name, value)| (name.to_string(), value)));
}

/// What `resp_bench --csv` printed.
///
/// # Errors
/// There is no line of numbers, or replies were errors.
pub fn resp_bench(text: &str) -> Result<Values, String> {
    let series: Vec<&str> = text.lines().collect();
    let [head, line, ..] = series.as_slice() else { return Err(format!("no numbers: {text}")) };
    let cells = line.split(',').map(|cell| cell.parse::<f64>().unwrap_or(0.0));
    let by_name: BTreeMap<&str, f64> = head.split(',').zip(cells).collect();
    let of = |name: &str| by_name.get(name).copied().unwrap_or(0.0);
    if of("errors") > 0.0 {
        return Err(format!("{} replies were errors", of("errors")));
    }
    let pairs = [
        ("ops_per_sec", of("requests_per_second")),
        ("operations", of("requests")),
        ("mean_us", of("mean_ms") * 1000.0),
        ("p50_us", of("p50_ms") * 1000.0),
        ("p99_us", of("p99_ms") * 1000.0),
        ("p99.9_us", of("p999_ms") * 1000.0),
        ("cpu_us_per_op", of("server_cpu_us_per_request")),
        ("process_cpu_s", of("server_cpu_seconds")),
        ("client_cpu_us_per_op", of("client_cpu_us_per_request")),
    ];
    Ok(pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

/// Seconds of a bucket in which the sine is judged.
const BUCKET: f64 = 0.5;
/// Seconds at the start that are not judged, as a share of the run.
const SETTLING: f64 = 0.05;

/// How well a run followed the sine, from its samples; adds the columns `mb_per_sec` and
/// `commanded` at the ends of buckets.
pub fn sine(looks: &Series, sine_time: f64, user_bytes: f64) -> (Values, Series) {
    let operations = looks.points("seconds", "operations");
    let (l0, pending) =
        (looks.points("seconds", "l0_files"), looks.points("seconds", "pending_bytes"));
    let end = operations.last().map_or(0.0, |last| last.0);
    let mut rows = Vec::new();
    let mut from = (0.0, 0.0);
    for (number, (seconds, done)) in operations.iter().enumerate() {
        if seconds - from.0 < BUCKET {
            continue;
        }
        let rate = (done - from.1) * user_bytes / (seconds - from.0) / 1e6;
        // The average rate commanded between the two ends.
        let steps = (0..20).map(|n| from.0 + (seconds - from.0) * (f64::from(n) + 0.5) / 20.0);
        let wanted = steps.map(|at| plan::commanded(at, sine_time)).sum::<f64>() / 20.0 / 1e6;
        let place = |points: &[(f64, f64)]| points.get(number).map_or(0.0, |point| point.1);
        rows.push(vec![*seconds, rate, wanted, place(&l0), place(&pending) / 1e6]);
        from = (*seconds, *done);
    }
    let judged: Vec<&Vec<f64>> = rows.iter().filter(|row| row[0] > end * SETTLING).collect();
    let mut values = Values::new();
    if !judged.is_empty() {
        let count = judged.len() as f64;
        let squares: f64 = judged.iter().map(|row| (row[1] - row[2]).powi(2)).sum();
        values.insert("rmse_mb".into(), (squares / count).sqrt());
        values.insert("mb_per_sec".into(), judged.iter().map(|row| row[1]).sum::<f64>() / count);
        let worst = judged.iter().map(|row| row[1] / row[2]).fold(f64::MAX, f64::min);
        values.insert("worst".into(), worst);
    }
    let columns = ["seconds", "mb_per_sec", "commanded", "l0_files", "pending_mb"];
    (values, Series { columns: columns.map(str::to_string).into(), rows })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const OUTPUT: &str = "\
fillrandom   :       2.500 micros/op 400000 ops/sec 0.250 seconds 100000 operations;   44.2 MB/s
Microseconds per write:
Count: 100000 Average: 2.4000  StdDev: 1.00
Min: 1  Median: 2.1  Max: 90
Percentiles: P50: 2.10 P75: 2.90 P99: 7.50 P99.9: 20.00 P99.99: 61.00
------------------------------------------------------
fillrandom   : stopped 0.5 s, slowed 0.3 s of 2.0 s; L0 at most 7 files, \
pending compaction at most 3.0 MB
Microseconds per background read:
Count: 3 Average: 9999.0000  StdDev: 1.00
Percentiles: P50: 1111.00 P75: 1 P99: 1 P99.9: 1 P99.99: 1
fillrandom   : cpu 0.400 s
process      : cpu 0.600 s, peak memory 12.5 MB, wrote 23.2 MB, read 4.0 MB, 1.5 MB from the device
";

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn the_output_of_db_bench_becomes_numbers() {
        let values = db_bench(OUTPUT, "fillrandom", 116.0).unwrap();
        for (name, value) in [
            ("ops_per_sec", 400_000.0),
            ("cpu_s", 0.4),
            ("process_cpu_s", 0.6),
            ("peak_mb", 12.5),
            ("device_mb", 1.5),
            ("cpu_us_per_op", 4.0),
            ("write_amp", 2.0),
            ("mean_us", 2.4),
            ("p50_us", 2.1),
            ("p99.9_us", 20.0),
            ("stopped_s", 0.5),
            ("slowed_s", 0.3),
            ("l0_most", 7.0),
            ("pending_most_mb", 3.0),
        ] {
            assert!((values[name] - value).abs() < 1e-9, "{name}: {}", values[name]);
        }
        assert!(
            db_bench("readseq : x", "readseq", 1.0).unwrap_err().contains("no result of readseq")
        );
    }

    // Plain #[test]: see above.
    #[test]
    fn files_of_level_0_and_levels_are_sorted_runs() {
        let head = "Level Files Size(MB)\n--------------------\n";
        let levels = |level0| {
            format!("{head}  0 {level0:8} 55\n  1        3      134\n  2 0 0\n  3 2 9\n\n")
        };
        assert_eq!(sorted_runs(&format!("{}{}", levels(7), levels(3))), Some(5.0));
        assert_eq!(sorted_runs("readrandom : 1"), None);
    }

    // Plain #[test]: see above.
    #[test]
    fn the_output_of_the_client_becomes_numbers() {
        let text = "test,requests,requests_per_second,p99_ms,errors,server_cpu_us_per_request\n\
                    \"set\",100,5000.0,1.25,0,14.5\n";
        let values = resp_bench(text).unwrap();
        assert_eq!((values["ops_per_sec"], values["p99_us"]), (5000.0, 1250.0));
        assert!(resp_bench(&text.replace(",0,14.5", ",3,14.5")).unwrap_err().contains("3 replies"));
        assert!(resp_bench("").is_err());
    }

    // Plain #[test]: see above.
    #[test]
    fn who_follows_the_sine_has_no_error() {
        let user = 1000.0;
        let mut looks = Series {
            columns: ["seconds", "operations", "l0_files", "pending_bytes"]
                .map(str::to_string)
                .into(),
            rows: Vec::new(),
        };
        let (mut done, step) = (0.0, 0.05);
        for number in 0..=350 {
            let at = f64::from(number) * step;
            looks.rows.push(vec![at, done, 3.0, 5e6]);
            done += plan::commanded(at + step / 2.0, 0.05) * step / user;
        }
        let (values, series) = sine(&looks, 0.05, user);
        assert!(values["rmse_mb"] < 0.5, "{values:?}");
        assert!((values["worst"] - 1.0).abs() < 0.02 && (values["mb_per_sec"] - 50.0).abs() < 2.0);
        assert_eq!(series.points("seconds", "pending_mb")[0].1, 5.0);
        // Half of it is lost for a while.
        looks.rows.iter_mut().skip(200).for_each(|row| row[1] = row[1].min(done * 0.6));
        assert!(sine(&looks, 0.05, user).0["worst"] < 0.1);
    }
}
