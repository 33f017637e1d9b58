//! Values that expire, counts of keys by prefix, and files as text, compared with Debian's ldb.
//!
//! For `--ttl` only standard output is compared: RocksDB's ldb (7.8 to 11.9) executes the command
//! and then fails, since the name of the column family is never empty there.

use super::{copy, make, newest_log, ours, run, scratch, theirs};
use std::path::Path;
use std::process::Command;

/// Command lines whose output is the same as RocksDB's. $W, $T and $M are the newest log, table and
/// MANIFEST.
const LINES: &[&str] = &[
    "--db=d dump --count_delim",
    "--db=d dump --count_delim=d",
    "--db=d dump --count_delim=. --count_only",
    "--db=d dump --count_delim --from=zzz",
    "--db=d dump --count_delim --max_keys=2",
    "--db=d dump --bucket=10",
    "--db=d dump --timestamp",
    "--db=d scan --timestamp --start_time=3 --end_time=4",
    "--db=d dump --nosuch",
    "--db=d dump --nosuch=1",
    "--db=d delete --ttl a",
    "dump --path=d/CURRENT",
    "dump --path=d/nosuch",
    "dump --path=$W",
    "dump --path=$T",
    "dump --path=$T --hex",
    "dump --path=$T --from=b --to=d",
    "dump --path=$M",
    "dump --path=$M --hex",
    "manifest_dump --path=$M",
];

fn newest(dir: &Path, is_it: impl Fn(&str) -> bool) -> String {
    let names = std::fs::read_dir(dir.join("d")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    format!("d/{}", names.filter(|name| is_it(name)).max().unwrap())
}

/// The command line with the names of files in it.
pub fn with_files(words: &str, dir: &Path) -> String {
    let table = newest(dir, |name| name.ends_with(".sst"));
    let manifest = newest(dir, |name| name.starts_with("MANIFEST-"));
    words.replace("$W", &newest_log(dir)).replace("$T", &table).replace("$M", &manifest)
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn counts_and_files_are_printed_alike() {
    let Some((root, our_dir, their_dir)) = scratch("values") else { return };
    make(&root.0);
    let mut wrong = Vec::new();
    for words in LINES {
        copy(&root.0, &our_dir);
        copy(&root.0, &their_dir);
        let words = with_files(words, &our_dir);
        let (mine, peer) = (ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""));
        if mine != peer {
            wrong.push(format!("{words}\n  ours   {mine:?}\n  theirs {peer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Only one column family, since RocksDB shows several in the order of a hash table.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn live_files_are_dumped_alike() {
    let Some((root, our_dir, their_dir)) = scratch("live") else { return };
    for words in
        ["--create_if_missing batchput a.x 1 a.y 22 b 3", "compact", "deleterange a b", "put c 4"]
    {
        let printed = theirs(&root.0, &format!("--db=made {words}"), "");
        assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
    }
    copy(&root.0, &our_dir);
    copy(&root.0, &their_dir);
    for words in ["dump_live_files", "manifest_dump"] {
        let words = format!("--db=d {words}");
        let (mine, peer) = (ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""));
        assert!(mine == peer, "{words}\n  ours   {mine:?}\n  theirs {peer:?}");
        assert!(mine.1.contains("--- level 63 --- version# 1 ---"), "{mine:?}");
    }
    // Where no range deletion hides an entry from RocksDB's ldb.
    let printed = theirs(&root.0, "--db=made compact", "");
    assert_eq!(printed.0, Some(0), "{printed:?}");
    for words in [
        "idump --count_delim",
        "idump --count_delim=y",
        "idump --count_delim --count_only",
        "idump --count_delim --from=zzz",
        "idump --count_only",
    ] {
        copy(&root.0, &our_dir);
        copy(&root.0, &their_dir);
        let words = format!("--db=d {words}");
        assert_eq!(ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""), "{words}");
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn edits_are_json() {
    let Some((root, dir, _)) = scratch("json") else { return };
    make(&root.0);
    copy(&root.0, &dir);
    let printed = ours(&dir, "--db=d manifest_dump --json --hex", "");
    assert_eq!(printed.0, Some(0), "{printed:?}");
    let edits: Vec<serde_json::Value> = printed
        .1
        .lines()
        .take_while(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (number, edit) in edits.iter().enumerate() {
        assert_eq!(edit["EditNumber"], number, "{edit}");
    }
    assert!(edits.iter().any(|edit| edit["ColumnFamilyAdd"] == "cf"), "{edits:?}");
    let files: Vec<_> =
        edits.iter().filter_map(|edit| edit["AddedFiles"].as_array()).flatten().collect();
    let has = |name: &str| files.iter().all(|file| file[name].is_u64());
    assert!(!files.is_empty() && has("Level") && has("FileNumber") && has("FileSize"), "{files:?}");
    let smallest = |file: &&serde_json::Value| file["SmallestIKey"].as_str().unwrap().to_string();
    assert!(files.iter().any(|file| smallest(file).starts_with("'61' seq:")), "{files:?}");
    // Without --json the same edits, as text.
    let text = ours(&dir, "--db=d manifest_dump --verbose", "").1;
    assert_eq!(text.matches("VersionEdit {").count(), edits.len());
}

/// Seconds in which the values of this test are written: they are of the wall clock.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn values_that_expire() {
    let Some((root, our_dir, their_dir)) = scratch("ttl") else { return };
    let before = now();
    // Each tool can read the other's data, and load its OPTIONS.
    let wrote = theirs(&root.0, "--db=made --ttl --create_if_missing batchput a.x 1 a.y 22", "");
    assert_eq!(wrote.1, "OK\n", "{wrote:?}");
    for (words, input) in [
        ("--db=made --ttl batchput b.z 333 c 4", ""),
        ("--db=made --ttl query", "put q 5\nget q\nget a.x\ndelete c\n"),
        ("--db=made --ttl compact", ""),
    ] {
        let mine = ours(&root.0, words, input);
        assert_eq!(mine.0, Some(0), "{words}: {mine:?}");
    }
    let mine = ours(&root.0, "--db=made --ttl query", "get q\n");
    assert_eq!(mine.1, "q ==> 5\n", "{mine:?}");
    let wrote = theirs(&root.0, "--db=made --ttl put t 77", "");
    assert_eq!(wrote.1, "OK\n", "{wrote:?}");
    let (start, end) = (before - 5, now() + 5);
    let times = format!("--start_time={start} --end_time={end}");
    let mut wrong = Vec::new();
    for words in [
        "get a.x".to_string(),
        "get t".into(),
        "get nosuch".into(),
        "scan".into(),
        "scan --timestamp".into(),
        "scan --timestamp --no_value --max_keys=2".into(),
        "scan --hex --timestamp".into(),
        format!("scan --timestamp {times}"),
        format!("scan --start_time={end}"),
        format!("scan --timestamp --end_time={start}"),
        "dump".into(),
        "dump --timestamp --from=b".into(),
        "dump --timestamp --count_only".into(),
        "dump --count_delim".into(),
        format!("dump --timestamp {times}"),
        format!("dump {times} --bucket=3"),
        format!("dump {times} --bucket=3 --count_only"),
        format!("dump {times} --bucket=1000"),
        format!("dump --bucket=0 --start_time={end}"),
    ] {
        copy(&root.0, &our_dir);
        copy(&root.0, &their_dir);
        let words = format!("--db=d --ttl {words}");
        let (mine, peer) = (ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""));
        if mine.1 != peer.1 || (mine.0 != Some(0)) != words.contains("nosuch") {
            wrong.push(format!("{words}\n  ours   {mine:?}\n  theirs {peer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let printed = ours(&our_dir, "--db=d --ttl scan --start_time=5 --end_time=1", "");
    assert_eq!(printed.2, "Failed: End time can't be less than start time\n");
    let printed = ours(&our_dir, "--db=d --ttl scan --start_time=x", "");
    assert_eq!(printed.2, "Failed: start_time has an invalid value.\n");
    let printed = ours(&our_dir, "--db=d --ttl dump --end_time=99999999999", "");
    assert_eq!(printed.2, "Failed: end_time has a value out-of-range.\n");
    // Without --ttl the times are in the values.
    let plain = ours(&our_dir, "--db=d get --value_hex t", "").1;
    assert!(plain.starts_with("0x3737") && plain.trim_end().len() == 2 + 2 * 6, "{plain}");
    let printed = ours(&our_dir, "--db=d put t 1", "");
    assert!(printed.2.contains("merge operator TtlMergeOperator is not built in"), "{printed:?}");
    assert_eq!(theirs(&our_dir, "--db=d create_column_family cf", "").0, Some(0));
    let printed = ours(&our_dir, "--db=d --ttl get t", "");
    assert_eq!(printed.2, "Failed: ldb doesn't support TTL DB with multiple column families\n");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn statistics_and_gaps() {
    let Some((root, dir, _)) = scratch("gaps") else { return };
    make(&root.0);
    copy(&root.0, &dir);
    for command in ["dump", "idump"] {
        let printed = ours(&dir, &format!("--db=d {command} --stats"), "").1;
        let (stats, entries) = printed.split_once("** DB Stats **").unwrap();
        assert!(stats.contains("** Compaction Stats [default] **"), "{printed}");
        assert!(entries.contains("eys in range: "), "{printed}");
    }
    // All logs of a directory, or only gaps in their sequence.
    let logs = dir.join("logs");
    std::fs::create_dir(&logs).unwrap();
    let log = dir.join(newest_log(&dir));
    std::fs::copy(&log, logs.join("000003.log")).unwrap();
    std::fs::copy(&log, logs.join("000002.log")).unwrap();
    let printed = ours(&dir, "dump_wal --walfile=logs", "");
    let one = ours(&dir, &format!("dump_wal --walfile={}", newest_log(&dir)), "").1;
    let lines = |name: &str| format!("Checking wal file: logs/{name}\n{one}");
    assert_eq!(printed.1, lines("000002.log") + &lines("000003.log"), "{printed:?}");
    let gaps = ours(&dir, "dump_wal --walfile=logs --only_print_seqno_gaps", "").1;
    let last = one.lines().last().unwrap();
    let mut numbers = last.split(',');
    let (sequence, count) = (numbers.next().unwrap(), numbers.next().unwrap());
    let first = one.lines().next().unwrap();
    let gap =
        format!("Prev batch sequence number: {sequence}, prev batch count: {count}, {first}\n");
    assert_eq!(
        gaps,
        format!("Checking wal file: logs/000002.log\nChecking wal file: logs/000003.log\n{gap}")
    );
    std::fs::create_dir(dir.join("empty")).unwrap();
    let printed = ours(&dir, "dump_wal --walfile=empty", "");
    assert_eq!(printed.2, "Failed: empty: No valid wal logs found\n");
}

/// Each tool reads what the other's database merged, and their OPTIONS name the operator alike.
#[pumice_test_macros::test]
fn bytes_are_merged_by_exclusive_or_alike() {
    let Some((root, our_dir, their_dir)) = scratch("xor") else { return };
    let compare = |words: &str| {
        copy(&root.0, &our_dir);
        copy(&root.0, &their_dir);
        let options = std::fs::read_to_string(our_dir.join(newest(&our_dir, is_options))).unwrap();
        assert!(options.contains("merge_operator=BytesXOR\n"), "{options}");
        let printed = theirs(&their_dir, words, "");
        assert_eq!(ours(&our_dir, words, ""), printed, "{words}");
        printed.1
    };
    let scan = "--db=d --try_load_options=true scan --hex";
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.table_factory.format_version = 5;
    options.set("merge_operator", "bytesxor").unwrap();
    let db = pumice::Db::open(&options, root.0.join("made")).unwrap();
    db.put("a", [0x0f, 0x01]).unwrap();
    db.merge("a", [0xff, 0x03, 0x07]).unwrap();
    db.merge("b", [0x05, 0x06]).unwrap();
    db.flush().unwrap();
    db.merge("a", [0x01]).unwrap();
    db.merge("b", [0x01]).unwrap();
    db.close().unwrap();
    assert_eq!(compare(scan), "0x61 : 0xF10207\n0x62 : 0x0406\n");
    std::fs::remove_dir_all(root.0.join("made")).unwrap();
    let words = "--db=made --num=300 --reads=1000 --value_size=10 --merge_operator=bytesxor \
                 --compression_type=none --benchmarks=mergerandom,flush,mergerandom";
    let printed = run(Command::new("db_bench"), &root.0, words, "");
    assert_eq!(printed.0, Some(0), "{printed:?}");
    assert!(compare(scan).lines().count() > 100);
}

fn is_options(name: &str) -> bool {
    name.starts_with("OPTIONS-")
}
