//! The binary from outside: exit codes, texts, and that the tools agree about one database.
//!
//! Here and not in the integration crate, because only this package is told where its binary is.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pumice-cli-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn run(dir: &Path, words: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_pumice");
    Command::new(program).current_dir(dir).args(words.split_whitespace()).output().unwrap()
}

/// Standard output of a run that must succeed.
fn good(dir: &Path, words: &str) -> String {
    let output = run(dir, words);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{words}: {}\n{out}{err}", output.status);
    out
}

/// Standard error of a run that must end with status 1.
fn bad(dir: &Path, words: &str) -> String {
    let output = run(dir, words);
    assert_eq!(output.status.code(), Some(1), "{words}: {}", text(&output.stdout));
    text(&output.stderr)
}

/// Standard error of a run with `input` on standard input, and whether it succeeded.
fn fed(dir: &Path, words: &str, input: &str) -> (bool, String) {
    use std::io::Write;
    let program = env!("CARGO_BIN_EXE_pumice");
    let mut child = Command::new(program)
        .current_dir(dir)
        .args(words.split_whitespace())
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), text(&output.stderr))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn wrong_usage_is_explained() {
    let scratch = Scratch::new("usage");
    let dir = scratch.0.as_path();
    assert!(bad(dir, "").contains("USAGE: pumice COMMAND"));
    assert!(bad(dir, "nosuch").contains("there is no command 'nosuch'"));
    assert!(good(dir, "--version").starts_with("pumice "));
    for command in ["db_bench", "ldb", "sst_dump", "stress"] {
        assert!(good(dir, &format!("{command} --help")).contains("--"), "{command}");
        assert!(bad(dir, &format!("{command} --no_such_flag=1 scan")).contains("no_such_flag"));
    }
    assert!(
        bad(dir, "db_bench --benchmarks=fillseq,nosuch").contains("unknown benchmark 'nosuch'")
    );
    assert!(bad(dir, "db_bench --engine=missing.so --num=1").contains("missing.so"));
    assert!(bad(dir, "db_bench --threads=100000").contains("threads must be at most 10000"));
    let shards = bad(dir, "db_bench --cache_numshardbits=20 --num=1");
    assert!(shards.contains("cache_numshardbits=20"), "{shards}");
    let alone = bad(dir, "db_bench --rate_limiter_auto_tuned");
    assert!(alone.contains("rate_limiter_auto_tuned needs rate_limiter_bytes_per_sec"), "{alone}");
    // What cannot work is refused by name.
    let error = bad(dir, "db_bench --enable_blob_direct_write --num=1");
    assert!(
        error.contains("--enable_blob_direct_write") && error.contains("not supported"),
        "{error}"
    );
    assert!(bad(dir, "ldb --db=missing get k").contains("No such file or directory"));
    assert!(bad(dir, "sst_dump --file=missing.sst").contains("missing.sst"));
}

/// Arguments, paths and input that are not UTF-8.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn any_bytes_are_arguments() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new("bytes");
    let run = |words: &[&[u8]], input: &[u8]| {
        use std::io::Write;
        let mut child = Command::new(env!("CARGO_BIN_EXE_pumice"))
            .current_dir(&scratch.0)
            .args(words.iter().map(|word| OsStr::from_bytes(word)))
            .env("SOME_OTHER_VARIABLE", OsStr::from_bytes(b"\xff\xfe"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads nothing may be gone already.
        drop(child.stdin.take().unwrap().write_all(input));
        child.wait_with_output().unwrap()
    };
    let good = |words: &[&[u8]], input: &[u8]| {
        let output = run(words, input);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        output.stdout
    };
    let (db, new): (&[u8], &[u8]) = (b"--db=d\xff", b"--create_if_missing");
    good(&[b"ldb", db, new, b"put", b"\xfe", b"v\xfd"], b"");
    good(&[b"ldb", db, b"load"], b"\xfb ==> w\r\n");
    assert_eq!(good(&[b"ldb", db, b"get", b"\xfe"], b""), b"v\xfd\n");
    let all = b"\xfb : w\r\n\xfe : v\xfd\n";
    assert_eq!(good(&[b"ldb", db, b"scan"], b""), all);
    let shell = good(&[b"ldb", db, b"query"], b"put \xfc x\nget \xfc\ndelete \xfc\n");
    assert!(shell.ends_with(b"\n\xfc ==> x\nSuccessfully deleted \xfc\n"), "{shell:?}");
    assert_eq!(good(&[b"ldb", db, b"scan", b"--from=\xfc"], b""), b"\xfe : v\xfd\n");
    good(&[b"ldb", db, b"compact"], b"");
    let live = good(&[b"ldb", db, b"dump_live_files"], b"");
    assert!(live.windows(4).any(|bytes| bytes == b"'\xfe' "), "{}", text(&live));
    good(&[b"ldb", db, b"checkpoint", b"--checkpoint_dir=c\xff"], b"");
    good(&[b"ldb", db, b"backup", b"--backup_dir=b\xff"], b"");
    let found = good(&[b"sst_dump", b"--file=c\xff", b"--command=scan"], b"");
    assert!(found.windows(4).any(|bytes| bytes == b"'\xfe' "), "{}", text(&found));
    assert!(text(&good(&[b"repair", b"c\xff"], b"")).contains("tables"));
    good(&[b"db_bench", b"--db=n\xff", b"--num=10", b"--benchmarks=fillseq,readseq"], b"");
    good(&[b"stress", b"--db=s\xff", b"--kills=1", b"--keys=10", b"--max_life_ms=50"], b"");
    for name in [&b"d\xff"[..], b"c\xff", b"b\xff", b"n\xff", b"s\xff"] {
        assert!(scratch.0.join(OsStr::from_bytes(name)).is_dir(), "{}", text(name));
    }
    // An error is one of words, whatever is called.
    for command in ["db_bench", "ldb", "repair", "report", "resp_bench", "serve", "sst_dump"] {
        for word in [&b"\xff"[..], b"--\xff=1", b"--port=\xff", b"--num=\xff", b"-\xff"] {
            let output = run(&[command.as_bytes(), b"--nosuch=1", word], b"");
            let error = text(&output.stderr);
            let code = output.status.code();
            assert!(code == Some(1) && !error.contains("panicked"), "{command} {word:?}: {error}");
        }
    }
    assert!(text(&run(&[b"\xff"], b"").stderr).contains("there is no command"));
    let wrong = run(&[b"serve", b"--port=x"], b"");
    assert!(text(&wrong.stderr).contains("--port: "), "{}", text(&wrong.stderr));
}

/// Stacks of a gibibyte in an address space of eight: the system refuses the last threads.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_thread_that_cannot_be_started_ends_the_benchmark_with_words() {
    let scratch = Scratch::new("threads");
    let words = "db_bench --db=refused --threads=64 --num=100 --benchmarks=fillseq,readrandom";
    let script = format!("ulimit -v 8388608 && exec {} {words}", env!("CARGO_BIN_EXE_pumice"));
    let output = Command::new("sh")
        .current_dir(&scratch.0)
        .env("RUST_MIN_STACK", (1 << 30).to_string())
        .args(["-c", &script])
        .output()
        .unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("of 64 workers could be started: IO error"), "{error}");
    assert!(!error.contains("panicked"), "{error}");
}

const BENCHMARKS: [&str; 15] = [
    "fillseq",
    "fillrandom",
    "filluniquerandom",
    "overwrite",
    "updaterandom",
    "readseq",
    "readreverse",
    "readrandom",
    "readmissing",
    "multireadrandom",
    "seekrandom",
    "readwhilewriting",
    "readwhilemerging",
    "deleteseq",
    "deleterandom",
];

fn bench_all(dir: &Path, engine: &str) -> Vec<String> {
    let list = BENCHMARKS.join(",");
    let flags = format!(
        "db_bench --engine={engine} --db=bench --num=3000 --threads=2 --seed=5 --batch_size=3 \
         --merge_operator=put --histogram --benchmarks={list},flush,waitforcompaction,compact,\
         levelstats,sstables,stats,fillrandom[X2-W1]"
    );
    let out = good(dir, &flags);
    for name in BENCHMARKS.iter().chain(&["compact"]) {
        let line = out.lines().find(|line| line.starts_with(&format!("{name:<12} : ")));
        let fields: Vec<&str> = line.expect(name).split_whitespace().collect();
        assert_eq!(
            (fields[3], fields[5], fields[7]),
            ("micros/op", "ops/sec", "seconds"),
            "{name}"
        );
        assert_eq!(fields[9], "operations;");
        assert!(fields[4].parse::<u64>().is_ok(), "{name}: field 5 is ops/sec");
    }
    for wanted in ["Entries:    3000", "Percentiles: P50: ", "Level Files Size(MB)"] {
        assert!(out.contains(wanted), "{wanted}");
    }
    assert!(out.contains("fillrandom [MEDIAN 2 runs] : "));
    let found = out.lines().filter(|line| line.ends_with("found)"));
    found.filter_map(|line| line.split_once("; ")).map(|(_, tail)| messages(tail)).collect()
}

/// `(1 of 2 found)` without the rate before it.
fn messages(tail: &str) -> String {
    tail.split_once('(').map_or_else(String::new, |(_, message)| message.to_string())
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn every_benchmark_runs_and_both_engines_find_the_same() {
    let scratch = Scratch::new("bench");
    let pumice = bench_all(&scratch.0, "pumice");
    assert!(pumice.len() >= 5, "{pumice:?}");
    let Some(library) = pumice_peer::installed_library() else { return };
    // What readers find during writes depends on timing; the rest is the same work.
    let rocksdb = bench_all(&scratch.0, library.to_str().unwrap());
    assert_eq!(pumice[..4], rocksdb[..4]);
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn deletion_is_paced_on_both_engines() {
    let scratch = Scratch::new("trash");
    let library = pumice_peer::installed_library().map(|path| path.to_str().unwrap().to_string());
    for (number, engine) in ["pumice".to_string()].into_iter().chain(library).enumerate() {
        let flags = format!(
            "db_bench --engine={engine} --db=trash{number} --num=10000 --write_buffer_size=300000 \
             --compression_type=none --statistics --benchmarks=fillrandom,compact \
             --sst_file_manager_bytes_per_sec=1000000"
        );
        let out = good(&scratch.0, &flags);
        let line = out.lines().find(|line| line.starts_with("rocksdb.files.marked.trash COUNT"));
        let count: u64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(count > 0, "{engine}: {out}");
        let flags = format!("{flags} --sst_file_manager_bytes_per_truncate=100000");
        match number {
            0 => assert!(good(&scratch.0, &flags).contains("fillrandom")),
            _ => assert!(bad(&scratch.0, &flags).contains("sst_file_manager_bytes_per_truncate")),
        }
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn tools_agree_about_a_database() {
    let scratch = Scratch::new("ldb");
    let dir = scratch.0.as_path();
    assert_eq!(good(dir, "ldb --db=d put a 1 --create_if_missing"), "OK\n");
    assert_eq!(good(dir, "ldb --db=d batchput b 2 c 3 d 4"), "OK\n");
    assert_eq!(good(dir, "ldb --db=d delete c"), "OK\n");
    assert_eq!(good(dir, "ldb --db=d get b"), "2\n");
    assert_eq!(good(dir, "ldb --db=d get 0x62 --hex"), "0x32\n");
    assert!(bad(dir, "ldb --db=d get 62 --hex").contains("Must start with 0x"));
    assert_eq!(bad(dir, "ldb --db=d get c"), "Failed: Get failed: NotFound: \n");
    assert_eq!(good(dir, "ldb --db=d scan"), "a : 1\nb : 2\nd : 4\n");
    assert_eq!(good(dir, "ldb --db=d scan --from=b --max_keys=1 --no_value"), "b\n");
    assert_eq!(good(dir, "ldb --db=d dump --to=b"), "a ==> 1\nKeys in range: 1\n");
    let refused = bad(dir, "ldb --db=d compact --max_keys=3");
    assert!(refused.contains("max_keys"), "{refused}");
    // Of a database that was opened once, all is still in the log, with its sequence numbers.
    assert_eq!(good(dir, "ldb --db=e batchput k 1 k 2 j 3 --create_if_missing"), "OK\n");
    let all = "'j' seq:3, type:1 => 3\n'k' seq:2, type:1 => 2\n'k' seq:1, type:1 => 1\n\
               Internal keys in range: 3\n";
    assert_eq!(good(dir, "ldb --db=e idump"), all);
    assert_eq!(good(dir, "ldb --db=e idump --count_only --from=k"), "Internal keys in range: 2\n");
    assert_eq!(good(dir, "ldb --db=d create_column_family cf"), "OK\n");
    assert_eq!(good(dir, "ldb --db=d put k v --column_family=cf"), "OK\n");
    assert_eq!(good(dir, "ldb --db=d scan --column_family=cf"), "k : v\n");
    assert_eq!(
        bad(dir, "ldb --db=d scan --column_family=x"),
        "Failed: Non-existing column family x\n"
    );
    let families = good(dir, "ldb --db=d list_column_families");
    assert_eq!(families, "Column families in d: \n{default, cf}\n");
    assert_eq!(good(dir, "ldb --db=d compact"), "");
    assert_eq!(good(dir, "ldb --db=d checkconsistency"), "OK\n");
    assert!(good(dir, "ldb --db=d manifest_dump").contains("Column family \"cf\"  (ID 1)"));
    assert!(good(dir, "ldb --db=d manifest_dump --verbose").contains("VersionEdit {"));
    let checked = good(dir, "sst_dump --file=d --command=verify");
    assert!(checked.contains("The file is ok"), "{checked}");
    let properties = good(dir, "sst_dump --file=d --show_properties");
    assert!(properties.contains("# entries: 3"), "{properties}");
    assert!(good(dir, "sst_dump --file=d --command=scan").contains(" => 4\n"));
    recompressing(dir);
    damage_is_found(dir);
}

/// Sizes by codec and level; threads change none of them.
fn recompressing(dir: &Path) {
    good(dir, "db_bench --db=r --benchmarks=fillseq,compact --num=3000 --compression_type=none");
    let sizes = |flags: &str| -> Vec<(String, u64)> {
        let text = good(dir, &format!("sst_dump --file=r --command=recompress {flags}"));
        let mut codec = String::new();
        let mut sizes = Vec::new();
        for line in text.lines() {
            let tried = line.strip_prefix("Compression level: ");
            if let Some(name) = line.strip_prefix("Compression: ") {
                codec = name.trim_end().to_string();
            } else if let Some((level, rest)) = tried.and_then(|line| line.split_once(" Size: ")) {
                let size = rest.split_whitespace().next().unwrap().parse().unwrap();
                sizes.push((format!("{codec} {level}"), size));
            }
        }
        sizes
    };
    let all = sizes("");
    assert_eq!(all.len(), 7, "{all:?}");
    assert!(all[1..].iter().all(|(_, size)| *size < all[0].1 * 3 / 4), "{all:?}");
    let zstd = "--compression_types=kZSTD --compression_level_from=1 --compression_level_to=5";
    let levels = sizes(zstd);
    assert_eq!((levels.len(), levels[4].0.as_str()), (5, "kZSTD 5"));
    assert_eq!(sizes(&format!("{zstd} --compression_parallel_threads=4")), levels);
    assert_eq!(sizes(&format!("{zstd} --verify_compression")), levels);
    let blocks = sizes("--compression_types=kZSTD --set_block_size=1024");
    let dictionary = "--compression_types=kZSTD --set_block_size=1024 \
                      --compression_max_dict_bytes=8192 --compression_zstd_max_train_bytes=100000";
    assert!(sizes(dictionary)[0].1 < blocks[0].1 && blocks[0].1 > levels[2].1);
    let complaint = bad(dir, "sst_dump --file=r --command=recompress --compression_types=kFast");
    assert!(complaint.contains("kFast is not a valid CompressionType"), "{complaint}");
    bad(dir, "sst_dump --file=r --command=recompress --compression_level_from=1");
}

/// Damages every live table file in turn and expects both tools to report it.
fn damage_is_found(dir: &Path) {
    let manifest = good(dir, "ldb --db=d manifest_dump");
    for entry in std::fs::read_dir(dir.join("d")).unwrap() {
        let path = entry.unwrap().path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        let live = number.is_some_and(|number| manifest.contains(&format!("\n {number}:")));
        if !live || path.extension().is_none_or(|extension| extension != "sst") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let mut damaged = bytes.clone();
        damaged[3] ^= 0x40;
        std::fs::write(&path, damaged).unwrap();
        assert!(bad(dir, "sst_dump --file=d --command=verify").contains("Corruption"));
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(bad(dir, "ldb --db=d checkconsistency").contains("size mismatch"));
        std::fs::write(&path, bytes).unwrap();
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_few_kills_lose_nothing() {
    let scratch = Scratch::new("stress");
    let option = "--max_total_wal_size=65536 --compression_opts.level=3 --paranoid_checks=False";
    for (db, tasks) in [("s", ""), ("f", "--fibers"), ("o", option)] {
        let flags = "--threads=2 --keys=200 --max_life_ms=300";
        let out = good(&scratch.0, &format!("stress --kills=6 --db={db} {flags} {tasks}"));
        let last = out.lines().last().unwrap();
        assert!(last.starts_with("kills=6 acked=") && last.ends_with(" lost=0 wrong=0"), "{last}");
        assert!(out.contains("\noption values dealt="), "{out}");
    }
    let options = std::fs::read_dir(scratch.0.join("o")).unwrap().map(|e| e.unwrap().path());
    let options: Vec<_> = options
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("OPTIONS-"))
        .collect();
    let options = std::fs::read_to_string(&options[0]).unwrap();
    for line in ["  max_total_wal_size=65536\n", "level=3;", "  paranoid_checks=false\n"] {
        assert!(options.contains(line), "{line}: {options}");
    }
    for (flag, why) in [
        ("--manual_wal_flush", "--manual_wal_flush is not for this test: a killed process"),
        ("--max_total_wal_size=x", "Error parsing max_total_wal_size"),
        ("--paranoid_checks=2", "paranoid_checks"),
        ("--fibers=2", "--fibers is true or false, not 2"),
        ("--nosuch=2", "there is no flag --nosuch"),
    ] {
        assert!(bad(&scratch.0, &format!("stress --db=n {flag}")).contains(why), "{flag}");
    }
    let families = good(&scratch.0, "ldb --db=s list_column_families");
    assert!(families.contains("{default, counters, fifo}"), "{families}");
    assert!(bad(&scratch.0, "stress --db=s").contains("exists already"));
}

/// Texts and effects are those of ldb 7.8.3, seen with the same input.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn external_files_are_written_and_ingested() {
    let scratch = Scratch::new("external");
    let dir = scratch.0.as_path();
    good(dir, "ldb --db=d --create_if_missing put a b");
    let lines = "a1 ==> v1\nbad line\n\nb1 ==> v2 ==> x\nc==>d\nKeys in range: 3\n";
    let expected = "Warning: 3 bad lines ignored.\nexternal SST file written to x.sst\n";
    let write =
        |words: &str, input| fed(dir, &format!("ldb --db=d write_extern_sst {words}"), input);
    assert_eq!(write("x.sst", lines), (true, expected.to_string()));
    let text = "Failed: failed to write record to file: Invalid argument: Keys must be added in \
                strict ascending order.\n";
    assert_eq!(write("y.sst", "b ==> 1\na ==> 2\n"), (false, text.to_string()));
    let text = "Failed: Failed to finish writing to file: Invalid argument: Cannot create sst file \
                with no entries\n";
    assert_eq!(write("y.sst", "nothing\n"), (false, text.to_string()));
    assert_eq!(
        bad(dir, "ldb --db=d write_extern_sst"),
        "Failed: output SST file path must be specified\n"
    );

    let ingest = |words: &str| fed(dir, &format!("ldb --db=d ingest_extern_sst {words}"), "");
    assert_eq!(ingest("x.sst"), (true, "external SST files ingested\n".to_string()));
    assert_eq!(good(dir, "ldb --db=d scan"), "a : b\na1 : v1\nb1 : v2 ==> x\n");
    assert_eq!(ingest(""), (false, "Failed: input SST path must be specified\n".to_string()));
    let text = "Failed: ldb cannot write global_seqno to the ingested SST when global_seqno is not \
                allowed\n";
    assert_eq!(ingest("--allow_global_seqno=false x.sst"), (false, text.to_string()));
    let (done, text) = ingest("no.sst");
    assert!(!done && text.starts_with("Failed: failed to ingest external SST: IO error: No such"));
    // Above the data it overlaps, with and without the number in the file.
    assert!(ingest("x.sst").0);
    let (done, text) = ingest("--write_global_seqno=false --move_files x.sst");
    let warning = "Warning: not writing global_seqno to the ingested SST can\nprevent older \
                   versions of RocksDB from being able to open it\n";
    assert_eq!((done, text), (true, format!("{warning}external SST files ingested\n")));
    assert!(!dir.join("x.sst").exists());
    assert_eq!(good(dir, "ldb --db=d scan"), "a : b\na1 : v1\nb1 : v2 ==> x\n");
}

/// An owner's own way of merging.
struct Sums;

impl pumice::MergeOperator for Sums {
    fn name(&self) -> &str {
        "owners.Sums"
    }
    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, all: &[&[u8]]) -> Option<Vec<u8>> {
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<u64>().unwrap();
        let sum = existing.map_or(0, number) + all.iter().map(|n| number(n)).sum::<u64>();
        Some(sum.to_string().into_bytes())
    }
}

fn owners(path: &Path) -> pumice::Db {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options.cf.merge_operator = Some(std::sync::Arc::new(Sums));
    pumice::Db::open(&options, path).unwrap()
}

/// The tools do not rewrite what they do not know: an owner's operands stay unchanged.
#[pumice_test_macros::test]
fn ldb_invents_no_merge_operator() {
    for without_options in [false, true] {
        let scratch = Scratch::new(&format!("operator-{without_options}"));
        let path = scratch.0.join("db");
        let db = owners(&path);
        for _ in 0..5 {
            db.merge_opt(&pumice::WriteOptions::default(), b"counter", b"7").unwrap();
            db.flush_opt(&pumice::FlushOptions::default()).unwrap();
        }
        // And in the log.
        db.merge_opt(&pumice::WriteOptions::default(), b"counter", b"7").unwrap();
        db.close().unwrap();
        let files = |path: &Path| {
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            let options = |path: &PathBuf| path.to_string_lossy().contains("OPTIONS-");
            entries.filter(options).collect::<Vec<_>>()
        };
        if without_options {
            files(&path).iter().for_each(|file| std::fs::remove_file(file).unwrap());
        }
        for command in ["compact", "put other value", "delete other", "get counter"] {
            let words = format!("ldb --db=db {command}");
            let output = run(&scratch.0, &words);
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            // Without a name in OPTIONS, what needs no operator may work.
            if !without_options || command == "compact" || command == "get counter" {
                assert!(!output.status.success(), "{words}: {out}{err}");
                assert!(err.contains("erge"), "{words}: {err}");
            }
        }
        let written = files(&path)
            .iter()
            .any(|file| std::fs::read_to_string(file).unwrap().contains("StringAppend"));
        assert!(!written, "an operator was written into OPTIONS");
        let db = owners(&path);
        let found = db.get_opt(&pumice::ReadOptions::default(), b"counter").unwrap();
        assert_eq!(found.as_deref(), Some(&b"42"[..]));
        db.close().unwrap();
    }
}

/// `idump` of keys with timestamps: those of tables that lack them are the oldest there can be.
/// What a deletion of a range hides from later times is shown, for earlier ones see it.
#[pumice_test_macros::test]
fn idump_shows_versions_of_tables_and_logs_with_their_times() {
    for keeps in [true, false] {
        let scratch = Scratch::new(&format!("idump-{keeps}"));
        let mut options = pumice::Options::default();
        options.db.create_if_missing = true;
        options.db.allow_concurrent_memtable_write = false;
        options.cf.comparator = pumice::Comparator::builtin(pumice::BYTEWISE_U64_TS).unwrap();
        options.cf.persist_user_defined_timestamps = keeps;
        let db = pumice::Db::open(&options, scratch.0.join("db")).unwrap();
        db.at(2).put("a", "a2").unwrap();
        db.at(3).put("a", "a3").unwrap();
        db.at(3).put("c", "c3").unwrap();
        db.at(4).put("d", "d4").unwrap();
        db.flush().unwrap();
        db.at(5).put("b", "b5").unwrap();
        db.at(6).delete("a").unwrap();
        db.at(7).delete_range("c", "d").unwrap();
        db.close().unwrap();
        let line = |key: &str, time: u64, seq: u64, value: &str| {
            let tag = if value.is_empty() { 20 } else { 1 };
            format!("'{key}|timestamp:{time}' seq:{seq}, type:{tag} => {value}\n")
        };
        let (a3, c3, d4) = if keeps { (3, 3, 4) } else { (0, 0, 0) };
        let mut lines = line("a", 6, 6, "") + &line("a", a3, 2, "a3");
        if keeps {
            lines += &line("a", 2, 1, "a2");
        }
        let from_b = line("b", 5, 5, "b5") + &line("c", c3, 3, "c3") + &line("d", d4, 4, "d4");
        let count = if keeps { 6 } else { 5 };
        let all = format!("{lines}{from_b}Internal keys in range: {count}\n");
        assert_eq!(good(&scratch.0, "ldb --db=db idump"), all);
        let some = format!("{from_b}Internal keys in range: 3\n");
        assert_eq!(good(&scratch.0, "ldb --db=db idump --from=b"), some);
    }
}

/// A small database lives in small pages, whatever the kernel gives to others
/// (docs/decisions/0031).
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_small_database_has_no_huge_pages() {
    let scratch = Scratch::new("huge");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.current_dir(&scratch.0).args(["ldb", "--db=d", "--create_if_missing", "query"]);
    let pipe = std::process::Stdio::piped;
    let mut child = command.stdin(pipe()).stdout(pipe()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    // It waits for its input once it has opened the database.
    let opened = scratch.0.join("d/CURRENT");
    while !opened.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let maps = std::fs::read_to_string(format!("/proc/{}/smaps", child.id())).unwrap();
    let huge = maps.lines().filter_map(|line| line.strip_prefix("AnonHugePages:"));
    let huge: Vec<&str> = huge.map(str::trim).collect();
    assert!(huge.len() > 5 && huge.iter().all(|bytes| *bytes == "0 kB"), "{huge:?}");
    drop(input);
    assert!(child.wait().unwrap().success());
}
