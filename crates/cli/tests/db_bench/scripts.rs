//! RocksDB's `tools/benchmark.sh` and `tools/regression_test.sh`: all their commands run at a
//! smaller size, and the output and LOG have what the scripts read by position.

use crate::{Run, db_bench, lines};
use std::path::Path;
use std::process::Command;

/// After each command; the last one of a flag counts. The intervals are those of the script, by
/// operations.
const SMALLER: &str = "--num=1500 --reads=300 --writes=300 --deletes=300 --duration=0 \
    --write_buffer_size=100000 --cache_size=8000000 --stats_interval_seconds=0 \
    --stats_interval=250";

/// The words of the last line that begins with `start`, from 1 as awk counts them.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn of(output: &'a str, start: &str) -> Words<'a> {
        let line = output.lines().rfind(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("no line with {start}:\n{output}"));
        Words(line.split_whitespace().collect())
    }

    fn word(&self, at: usize) -> &'a str {
        self.0.get(at - 1).unwrap_or_else(|| panic!("no word {at}: {:?}", self.0))
    }

    /// Checks that the words begin with a number, so that awk reads them as one.
    fn numbers(&self, at: &[usize]) {
        for at in at {
            let word = self.word(*at).trim_end_matches([',', ':']);
            assert!(word.parse::<f64>().is_ok(), "word {at} of {:?}", self.0);
        }
    }
}

/// What the report's columns are made of; `name` is the benchmark's.
fn read_report(run: &Run, log: &str, name: &str) {
    let both = format!("{}{}", run.err, run.out);
    let date = Words::of(&both, "Date:");
    assert!(date.word(6).parse::<u32>().unwrap() > 2000, "{:?}", date.0);
    assert!(date.word(3).chars().all(char::is_alphabetic) && date.word(3).len() == 3);
    date.numbers(&[4]);
    assert_eq!(date.word(5).split(':').count(), 3, "{:?}", date.0);
    Words::of(&both, "Uptime(secs): ").numbers(&[2]);
    Words::of(&both, "Cumulative stall: ").numbers(&[5]);
    let result = Words::of(&both, &format!("{name} "));
    result.numbers(&[3, 5]);
    assert!(result.word(8) == "seconds" && result.0.len() >= 10, "{:?}", result.0);
    let writes = Words::of(&both, "Cumulative writes: ");
    let ingest = writes.0.iter().position(|word| *word == "ingest:").unwrap() + 1;
    writes.numbers(&[ingest + 1, ingest + 3]);
    let compaction = Words::of(&both, "Cumulative compaction: ");
    compaction.numbers(&[3, 6]);
    assert_eq!(compaction.word(4), "GB");
    Words::of(&both, "Flush(GB): ").numbers(&[3]);
    let sum = Words::of(&both, " Sum ");
    sum.numbers(&[3, 15, 16, 21, 22]);
    assert!(["B", "KB", "MB", "GB"].contains(&sum.word(4)), "{:?}", sum.0);
    let blobs = Words::of(&both, "Blob file count: ");
    blobs.numbers(&[7]);
    assert_eq!(blobs.word(8), "GB,");
    Words::of(&both, "Percentiles: ").numbers(&[3, 7, 9, 11]);
    Words::of(&both, "Min: ").numbers(&[6]);
    // The version and the commit, from LOG.
    let word = |of: &str| {
        let line = log.lines().find(|line| line.contains(of)).unwrap_or_else(|| panic!("{log}"));
        line.split_whitespace().nth(4).unwrap().to_string()
    };
    assert_eq!(word("RocksDB version:"), format!("Pumice-{}", env!("CARGO_PKG_VERSION")));
    assert!(!word("Git sha").is_empty());
}

/// Flag `name` of a command, the last one.
fn flag<'a>(command: &'a str, name: &str) -> Option<&'a str> {
    let start = format!("--{name}=");
    command.split_whitespace().filter_map(|word| word.strip_prefix(start.as_str())).next_back()
}

fn log_in(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("db/LOG")).unwrap()
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn benchmark_sh_fills_its_report() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("out")).unwrap();
    let (mut job, mut run_count, mut intervals) = ("", 0, 0);
    let list = include_str!("benchmark_sh.txt");
    for line in list.lines().filter(|line| !line.starts_with("# ")) {
        if let Some(name) = line.strip_prefix("## ") {
            job = name;
            continue;
        }
        if job == "flush_mt_l0" {
            // The jobs before it leave merge operands, and it has no operator to compact them with.
            db_bench(dir.path(), "--db=db --wal_dir=wal --num=1500 --benchmarks=fillrandom").good();
        }
        let run = db_bench(dir.path(), &format!("{line} {SMALLER}"));
        assert!(run.ok, "{job}: {line}\n{}{}", run.out, run.err);
        assert!(!run.out.contains("skipped"), "{job}: {}", run.out);
        run_count += 1;
        let name = flag(line, "benchmarks").unwrap().split(',').next().unwrap();
        // These benchmarks have no line of their own.
        if ["waitforcompaction", "flush_mt_l0"].contains(&job) {
            assert!(run.out.contains("finished with status (OK)"), "{}", run.out);
            continue;
        }
        read_report(&run, &log_in(dir.path()), name);
        // What is printed at every interval has its labels.
        for word in run.err.lines().filter(|line| line.starts_with("num-running-")) {
            let (label, number) = word.split_once(": ").unwrap();
            assert!(["num-running-compactions", "num-running-flushes"].contains(&label), "{word}");
            number.parse::<u32>().unwrap();
            intervals += 1;
        }
        if let Some(csv) = flag(line, "report_file") {
            let csv = std::fs::read_to_string(dir.path().join(csv)).unwrap();
            assert!(csv.starts_with("secs_elapsed,interval_qps\n"), "{csv}");
        }
    }
    println!("benchmark.sh: {run_count} commands");
    assert_eq!(run_count, lines(list).count());
    assert!(intervals > 20, "{intervals}");
}

/// The benchmarks of a regression run with the script's flags, on one database and on two.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn regression_test_sh_runs() {
    const BENCHMARKS: [&str; 7] = [
        "fillseq,compactall",
        "readrandom",
        "readwhilewriting",
        "deleterandom",
        "seekrandom",
        "multireadrandom",
        "seekrandomwhilewriting",
    ];
    let dir = tempfile::tempdir().unwrap();
    // An OPTIONS file as another run leaves it.
    db_bench(dir.path(), "--db=first --num=10 --benchmarks=fillseq").good();
    let files = std::fs::read_dir(dir.path().join("first")).unwrap();
    let options = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let options = options.filter(|name| name.starts_with("OPTIONS-")).max().unwrap();
    std::fs::rename(dir.path().join("first").join(options), dir.path().join("OPTIONS")).unwrap();
    for (databases, readahead) in [
        (1, ""),
        (
            2,
            "--max_auto_readahead_size=65536 --initial_auto_readahead_size=4096 \
             --num_file_reads_for_auto_readahead=1",
        ),
    ] {
        for names in BENCHMARKS {
            let existing = u8::from(!names.starts_with("fillseq"));
            let line = format!(
                "--db=db{databases} --wal_dir=wal{databases} --use_existing_db={existing} \
                 --benchmarks={names} --perf_level=1 --num_multi_db={databases} \
                 --num_high_pri_threads=3 --num_low_pri_threads=3 --disable_auto_compactions=0 \
                 --statistics=1 --multiread_batched=true --batch_size=10 --multiread_stride=12 \
                 --async_io=true --report_open_timing --deletes=100 --writes=500 --reads=500 \
                 --threads=2 --seek_nexts=10 --histogram=1 --stats_per_interval=1 \
                 --stats_interval_seconds=60 --compression_ratio=0.5 --seed=7 --key_size=25 \
                 --options_file=OPTIONS --num=1000 {readahead}"
            );
            let run = db_bench(dir.path(), &line);
            assert!(run.ok, "{line}\n{}{}", run.out, run.err);
            let name = names.split(',').next().unwrap();
            let result = Words::of(&run.out, &format!("{name} "));
            result.numbers(&[3, 5, 7]);
            Words::of(&run.out, "Percentiles: ").numbers(&[3, 5, 7, 9, 11]);
            Words::of(&run.out, "OpenDb:").numbers(&[2]);
        }
    }
}

/// Scripts call `./db_bench`: a link of that name is all they need, and so for RocksDB's other
/// tools.
#[pumice_test_macros::test]
fn a_link_with_a_tools_name_is_that_tool() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, words: &[&str]| {
        let link = dir.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pumice"), &link).unwrap();
        let done = Command::new(link).current_dir(dir.path()).args(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(done.status.success(), "{name}: {}{}", text(&done.stdout), text(&done.stderr));
        text(&done.stdout)
    };
    let out = run("db_bench", &["--db=db", "--num=50", "--benchmarks=fillseq,flush"]);
    assert!(out.contains("fillseq      : "), "{out}");
    let out = run("ldb", &["--db=db", "list_column_families"]);
    assert!(out.contains("default"), "{out}");
    let out = run("sst_dump", &["--file=db", "--command=raw", "--show_properties"]);
    assert!(out.contains("# entries: 50"), "{out}");
    let out = run("another", &["--version"]);
    assert!(out.starts_with("pumice "), "{out}");
}
