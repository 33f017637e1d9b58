//! `pumice ldb` against Debian's ldb (RocksDB 7.8.3): both run the same command lines on copies of
//! one database; output and exit codes must be the same.
//!
//! Where Debian's tool is not installed nothing is compared. Not compared: numbers of files that an
//! open makes, and times.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod arguments;
mod blobs;
mod compact;
mod entities;
mod follower;
mod names;
mod orders;
mod overlap;
mod secondary;
mod values;
mod write_times;
mod wrong_files;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A directory for each of the two.
fn scratch(name: &str) -> Option<(Scratch, PathBuf, PathBuf)> {
    Command::new("ldb").arg("--help").output().ok()?;
    let root = std::env::temp_dir().join(format!("pumice-ldb-{}-{name}", std::process::id()));
    let (ours, theirs) = (root.join("ours"), root.join("theirs"));
    std::fs::create_dir_all(&ours).unwrap();
    std::fs::create_dir_all(&theirs).unwrap();
    Some((Scratch(root), ours, theirs))
}

/// Exit code, standard output, standard error.
type Printed = (Option<i32>, String, String);

fn run(mut command: Command, dir: &Path, words: &str, input: &str) -> Printed {
    let mut child = command
        .current_dir(dir)
        .args(words.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads nothing may be gone already.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn ours(dir: &Path, words: &str, input: &str) -> Printed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.arg("ldb");
    run(command, dir, words, input)
}

fn theirs(dir: &Path, words: &str, input: &str) -> Printed {
    run(Command::new("ldb"), dir, words, input)
}

/// Both get the same bytes in `d`.
fn copy(from: &Path, to: &Path) {
    if to.join("d").exists() {
        std::fs::remove_dir_all(to.join("d")).unwrap();
    }
    std::fs::create_dir(to.join("d")).unwrap();
    for entry in std::fs::read_dir(from.join("made")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join("d").join(path.file_name().unwrap())).unwrap();
    }
}

/// A database of Debian's: two levels, a range deletion, a log.
fn make(dir: &Path) {
    for words in [
        "--create_if_missing batchput a 1 b 2 c 3 dd 44",
        "put e 5",
        "compact",
        "deleterange b c",
        "create_column_family cf",
        "put x y --column_family=cf",
        "put z 26",
    ] {
        let printed = theirs(dir, &format!("--db=made {words}"), "");
        assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
    }
}

/// Command lines and their standard input. The contents are compared after each one, too.
const LINES: &[(&str, &str)] = &[
    ("--db=d get a", ""),
    ("--db=d get 0x61 --key_hex=TRUE", ""),
    ("--db=d get 0x61 --hex=True", ""),
    ("--db=d get a --key_hex=FALSE", ""),
    ("--db=d put 0x61 v --key_hex=True", ""),
    ("--db=d put k 0x7F --value_hex=tRue", ""),
    ("--db=d scan", ""),
    ("--db=d scan --hex", ""),
    ("--db=d dump", ""),
    ("--db=d dump --count_only", ""),
    ("--db=d put k v", ""),
    ("--db=d delete a", ""),
    ("--db=d deleterange a d", ""),
    ("--db=d singledelete e", ""),
    ("--db=d singledelete --hex 0x65", ""),
    ("--db=d singledelete", ""),
    ("--db=d singledelete a b", ""),
    ("--db=d approxsize", ""),
    ("--db=d approxsize --from=a", ""),
    ("--db=d approxsize --from=0 --to=1", ""),
    ("--db=d approxsize --from=0 --to=zz --column_family=cf", ""),
    ("--db=d checkpoint", ""),
    ("--db=d checkpoint --checkpoint_dir=cp", ""),
    ("--db=cp scan", ""),
    ("--db=d checkpoint --checkpoint_dir=cp", ""),
    ("--db=d query", "get a\nput q r\nget q\ndelete q\nhelp\nfoo bar\nget\nput x\n"),
    ("--db=d query", "get a\nget nosuch\ndelete a\n"),
    ("--db=d load", ""),
    ("--db=d load", "k1 ==> v1\nbad\nk2 ==> v ==> 2\nKeys in range: 2\nc==>4\n"),
    ("--db=d load --disable_wal --bulk_load --compact", "k1 ==> v1\nk2 ==> v2\n"),
    ("--db=d load --hex", "0x6B31 ==> 0x76\n"),
    ("--db=n load --create_if_missing", "k1 ==> v1\n"),
    ("--db=n scan", ""),
    ("--db=d put k v --block_size=0", ""),
    ("--db=d put k v --block_size=abc", ""),
    ("--db=d put k v --block_size=99999999999", ""),
    ("--db=d put k v --bloom_bits=-1", ""),
    ("--db=d put k v --bloom_bits=x", ""),
    ("--db=d put k v --write_buffer_size=0", ""),
    ("--db=d put k v --file_size=-1", ""),
    ("--db=d put k v --fix_prefix_len=0", ""),
    ("--db=d put k v --compression_max_dict_bytes=-1", ""),
    ("--db=d put k v --compression_type=foo", ""),
    ("get a", ""),
    ("--db=d drop_column_family nosuch", ""),
    ("--db=d reduce_levels --new_levels=abc", ""),
    ("--db=d change_compaction_style --old_compaction_style=x", ""),
    ("--db=d get_property nosuch", ""),
    ("--db=d get_property", ""),
    ("--db=d list_file_range_deletes --column_family=cf", ""),
    ("--db=d reduce_levels", ""),
    ("--db=d reduce_levels --new_levels=0", ""),
    ("--db=d change_compaction_style", ""),
    ("--db=d change_compaction_style --old_compaction_style=0", ""),
    ("--db=d change_compaction_style --old_compaction_style=7 --new_compaction_style=0", ""),
    ("--db=d change_compaction_style --old_compaction_style=0 --new_compaction_style=0", ""),
    ("--db=d change_compaction_style --old_compaction_style=1 --new_compaction_style=0", ""),
    ("--db=d unsafe_remove_sst_file", ""),
    ("--db=d unsafe_remove_sst_file x", ""),
    ("--db=d unsafe_remove_sst_file 3", ""),
    ("--db=d unsafe_remove_sst_file -1", ""),
    ("--db=d unsafe_remove_sst_file 99999999999999999999", ""),
    ("--db=d unsafe_remove_sst_file 3x", ""),
    ("--db=nosuch unsafe_remove_sst_file 3", ""),
    ("--db=nosuch create_column_family x", ""),
    ("--db=nosuch drop_column_family x", ""),
    ("--db=nosuch reduce_levels --new_levels=3", ""),
    ("--db=nosuch repair", ""),
    ("--db=nosuch manifest_dump", ""),
    ("--db=d scan --max_keys", ""),
    ("--db=d scan --max_keys=0", ""),
    ("--db=d scan --max_keys=0 --no_value", ""),
    ("--db=d scan --max_keys=-1", ""),
    ("--db=d scan --max_keys=99999999999", ""),
    ("--db=d dump --max_keys=0", ""),
    ("--db=d dump --max_keys=99999999999", ""),
    ("--db=d list_file_range_deletes", ""),
    ("--db=d list_file_range_deletes --max_keys", ""),
    ("--db=d list_file_range_deletes --max_keys=0", ""),
    ("--db=d list_file_range_deletes --max_keys=-1", ""),
    ("--db=d list_file_range_deletes --max_keys=99999999999", ""),
    ("--db=d idump", ""),
    ("--db=d idump --hex", ""),
    ("--db=d idump --column_family=cf", ""),
    ("--db=d idump --count_only", ""),
    ("--db=d idump --count_delim", ""),
    ("--db=d idump --from=b --to=d --max_keys=1", ""),
    ("--db=d idump --max_keys", ""),
    ("--db=d idump --max_keys=0", ""),
    ("--db=d idump --count_delim --max_keys=0", ""),
    ("--db=d idump --max_keys=-1", ""),
    ("--db=d idump --max_keys=-7", ""),
    ("--db=d idump --max_keys=x", ""),
    ("--db=d idump --max_keys=99999999999", ""),
    ("--db=d dump_wal", ""),
    ("dump_wal --walfile=$W", ""),
    ("dump_wal --walfile=$W --header", ""),
    ("dump_wal --walfile=$W --header --print_value", ""),
    ("dump_wal --walfile=$W --print_value --db=d --write_committed=true", ""),
    ("--db=d list_column_families", ""),
    ("--db=d checkconsistency", ""),
];

/// The newest log of the database in `dir`, from there.
fn newest_log(dir: &Path) -> String {
    let names = std::fs::read_dir(dir.join("d")).unwrap();
    let mut logs: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".log"))
        .collect();
    logs.sort();
    format!("d/{}", logs.last().unwrap())
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn the_same_words_have_the_same_answers() {
    let Some((root, our_dir, their_dir)) = scratch("lines") else { return };
    make(&root.0);
    let mut wrong = Vec::new();
    for (words, input) in LINES {
        copy(&root.0, &our_dir);
        copy(&root.0, &their_dir);
        let words = words.replace("$W", &newest_log(&our_dir));
        let (mine, peer) = (ours(&our_dir, &words, input), theirs(&their_dir, &words, input));
        if mine != peer {
            wrong.push(format!("{words}\n  ours   {mine:?}\n  theirs {peer:?}"));
        }
        for words in ["--db=d scan", "--db=d scan --column_family=cf"] {
            let contents = theirs(&their_dir, words, "");
            assert_eq!(ours(&our_dir, words, ""), contents);
            // What ours left is RocksDB's to read.
            assert_eq!(theirs(&our_dir, words, ""), contents);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Range deletions in a log hide entries of tables and of the log before them, but none after them.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn idump_hides_what_range_deletions_in_a_log_cover() {
    let Some((root, our_dir, their_dir)) = scratch("covered") else { return };
    make(&root.0);
    copy(&root.0, &their_dir);
    // The log that this opens has `a` twice and a deletion between.
    let printed = theirs(&their_dir, "--db=d query", "put a 1\nput zz 1\n");
    assert_eq!(printed.0, Some(0), "{printed:?}");
    for words in ["--db=d deleterange a dd", "--db=d deleterange e zzz"] {
        let printed = theirs(&their_dir, words, "");
        assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
    }
    std::fs::remove_dir_all(root.0.join("made")).unwrap();
    std::fs::rename(their_dir.join("d"), root.0.join("made")).unwrap();
    for words in ["idump", "idump --from=b", "idump --to=e", "idump --count_only"] {
        copy(&root.0, &our_dir);
        copy(&root.0, &their_dir);
        let words = format!("--db=d {words}");
        assert_eq!(ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""), "{words}");
    }
}

/// Commands about files, on a database that an open does not change.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn files_are_listed_alike() {
    let Some((root, our_dir, their_dir)) = scratch("files") else { return };
    for words in [
        "--create_if_missing batchput a 1 b 2 c 3",
        "compact",
        "deleterange b c",
        "deleterange bb bc",
        "put e 6",
    ] {
        // Three files on level 0: one more, and an open would compact them.
        theirs(&root.0, &format!("--db=made {words}"), "");
    }
    // A checkpoint has no log to recover.
    let printed = theirs(&root.0, "--db=made checkpoint --checkpoint_dir=made2", "");
    assert_eq!(printed.0, Some(0), "{printed:?}");
    std::fs::remove_dir_all(root.0.join("made")).unwrap();
    std::fs::rename(root.0.join("made2"), root.0.join("made")).unwrap();
    for words in [
        "list_live_files_metadata",
        "list_live_files_metadata --sort_by_filename",
        "list_file_range_deletes",
        "list_file_range_deletes --max_keys=1",
        "approxsize --from=0 --to=z",
        "reduce_levels --new_levels=3 --print_old_levels",
        "change_compaction_style --old_compaction_style=0 --new_compaction_style=1",
    ] {
        copy(&root.0, &our_dir);
        copy(&root.0, &their_dir);
        let words = format!("--db=d {words}");
        assert_eq!(ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""), "{words}");
        let contents = theirs(&their_dir, "--db=d scan", "");
        assert_eq!(theirs(&our_dir, "--db=d scan", ""), contents, "{words}");
    }
    copy(&root.0, &our_dir);
    copy(&root.0, &their_dir);
    // RocksDB's order is that of a hash table.
    let sorted = |printed: Printed| {
        let mut lines: Vec<String> = printed.1.lines().map(str::to_string).collect();
        lines.sort();
        (printed.0, lines)
    };
    let words = "--db=d file_checksum_dump";
    assert_eq!(sorted(ours(&our_dir, words, "")), sorted(theirs(&their_dir, words, "")));
    // The oldest file is deleted; the rest stays readable.
    let number = theirs(&their_dir, "--db=d list_live_files_metadata --sort_by_filename", "").1;
    let number =
        number.lines().nth(1).unwrap()["d/".len()..].split('.').next().unwrap().to_string();
    let words = format!("--db=d unsafe_remove_sst_file {}", number.trim_start_matches('0'));
    assert_eq!(ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""));
    let left = theirs(&their_dir, "--db=d scan", "");
    assert_eq!(left.1, "e : 6\n");
    assert_eq!(theirs(&our_dir, "--db=d scan", ""), left);
    assert_eq!(ours(&our_dir, "--db=d scan", ""), left);
}

/// The files that are due for a compaction are counted as they were, and compacted once.
#[pumice_test_macros::test]
fn a_change_of_style_begins_with_the_files_that_are_there() {
    let Some((root, our_dir, their_dir)) = scratch("style") else { return };
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options.cf.table_factory.format_version = 5;
    let db = pumice::Db::open(&options, root.0.join("made")).unwrap();
    for n in 0..8 {
        db.put("a", n.to_string()).unwrap();
        db.put(n.to_string(), "b").unwrap();
        db.flush().unwrap();
    }
    db.pause_background_work();
    let automatic = [("disable_auto_compactions", "false")];
    db.set_options(&automatic).unwrap();
    db.close().unwrap();
    copy(&root.0, &our_dir);
    copy(&root.0, &their_dir);
    let words = "--db=d change_compaction_style --old_compaction_style=0 --new_compaction_style=1";
    let printed = ours(&our_dir, words, "");
    let log = std::fs::read_to_string(our_dir.join("d/LOG")).unwrap();
    let compactions: Vec<&str> =
        log.lines().filter(|line| line.contains("\"compaction_started\"")).collect();
    assert!(!compactions.is_empty());
    for line in compactions {
        assert!(line.contains("\"compaction_reason\": \"ManualCompaction\""), "{line}");
    }
    assert_eq!(printed, theirs(&their_dir, words, ""));
    assert!(printed.1.contains("before compaction: 8,0"), "{printed:?}");
    let scan = ours(&our_dir, "--db=d scan", "");
    assert_eq!(scan, theirs(&their_dir, "--db=d scan", ""));
    // The next open compacts automatically again.
    let names = std::fs::read_dir(our_dir.join("d")).unwrap().map(|entry| entry.unwrap().path());
    let newest = names.filter(|path| path.to_string_lossy().contains("/OPTIONS-")).max().unwrap();
    let text = std::fs::read_to_string(newest).unwrap();
    assert!(text.contains("disable_auto_compactions=false"), "{text}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn newer_commands() {
    let Some((root, dir, _)) = scratch("newer") else { return };
    make(&root.0);
    copy(&root.0, &dir);
    let printed = ours(&dir, "--db=d multi_get a nosuch dd", "");
    assert_eq!(printed, (Some(0), "1\nKey not found: nosuch\n44\n".into(), String::new()));
    let printed = ours(&dir, "--db=d multi_get --hex 0x61 0x7A7A", "");
    assert_eq!(printed, (Some(0), "0x31\nKey not found: 0x7A7A\n".into(), String::new()));
    // Debian's ldb opens databases with an operator that appends with a colon.
    let printed = ours(&dir, "--db=d merge a 2", "");
    match printed.0 {
        Some(0) => assert_eq!(theirs(&dir, "--db=d get a", "").1, "1:2\n"),
        _ => assert!(printed.2.contains("erge"), "{printed:?}"),
    }
}

/// A local file system knows no temperatures: both look for the files and write nothing.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn update_manifest_looks_at_every_file() {
    let Some((root, our_dir, their_dir)) = scratch("update_manifest") else { return };
    make(&root.0);
    let names = |dir: &Path| {
        let entries = std::fs::read_dir(dir.join("d")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let spoil = |what: &str, dir: &Path| match what {
        "CURRENT" => std::fs::write(dir.join("d/CURRENT"), "x\n").unwrap(),
        "a table" => {
            let is_table = |name: &std::ffi::OsString| name.to_str().unwrap().ends_with(".sst");
            let table = names(dir).into_iter().find(is_table).unwrap();
            std::fs::remove_file(dir.join("d").join(table)).unwrap();
        }
        _ => {}
    };
    for what in ["nothing", "CURRENT", "a table"] {
        for dir in [&our_dir, &their_dir] {
            copy(&root.0, dir);
            spoil(what, dir);
        }
        let before = names(&our_dir);
        for words in [
            "update_manifest",
            "update_manifest --verbose",
            "update_manifest --update_temperatures=false word",
            "update_manifest --update_temperatures",
            "update_manifest --update_temperatures=true word",
            "update_manifest --update_temperatures --column_family=nosuch",
        ] {
            let words = format!("--db=d {words}");
            let (mine, peer) = (ours(&our_dir, &words, ""), theirs(&their_dir, &words, ""));
            assert_eq!((mine.0, &mine.1), (peer.0, &peer.1), "{words}, damaged {what}");
            let last = |printed: &Printed| printed.2.lines().last().unwrap_or_default().to_string();
            let wanted = match what {
                // Ours says which CURRENT, too.
                "CURRENT" => last(&peer).replace("file corrupted", "file corrupted: d/CURRENT"),
                _ => last(&peer),
            };
            assert_eq!(last(&mine), wanted, "{words}, damaged {what}");
            // What they log of it has the time and a place in their source in front.
            let logged = |line: &&str| line.contains("[ERROR]") && line.contains("failed: ");
            let found = peer.2.lines().find(logged).map(|line| line.split_once("] [").unwrap().1);
            let found = found.map(|line| format!("[ERROR] {}", line.split_once("] ").unwrap().1));
            let ours = mine.2.lines().find(logged).map(|line| line.replace(": d/CURRENT", ""));
            assert_eq!(ours, found, "{words}");
        }
        assert_eq!(names(&our_dir), before, "nothing is written");
    }
    copy(&root.0, &our_dir);
    let printed = ours(&our_dir, "--db=d update_manifest --update_temperatures --verbose", "");
    let text =
        "[INFO] UpdateManifestForFilesState: no updates needed\nManifest updates successful\n";
    assert_eq!(printed, (Some(0), String::new(), text.to_string()));
    let words = "--db=nosuch update_manifest --update_temperatures";
    let (mine, peer) = (ours(&our_dir, words, ""), theirs(&their_dir, words, ""));
    assert_eq!((mine.0, mine.2.lines().last()), (peer.0, peer.2.lines().last()));
}

/// Each tool restores the other's backups.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn backups_go_both_ways() {
    let Some((root, our_dir, their_dir)) = scratch("backup") else { return };
    make(&root.0);
    copy(&root.0, &our_dir);
    copy(&root.0, &their_dir);
    for words in [
        "--db=d backup",
        "--db=d restore",
        "--db=d restore --backup_dir=nosuch",
        "--db=d backup --backup_dir=b",
        "--db=d put new 1",
        "--db=d backup --backup_dir=b --num_threads=2",
        "--db=d --env_uri=posix backup --backup_dir=b --stderr_log_level=5 --backup_fs_uri=posix",
        "--db=d backup --backup_dir=b --stderr_log_level=6",
        "--db=d backup --backup_dir=b --backup_env_uri=posix --backup_fs_uri=posix",
        "--db=r --fs_uri=posix restore --backup_dir=b --stderr_log_level=2",
        "--db=r scan --env_uri=posix --fs_uri=posix",
        "--db=r scan",
    ] {
        let (mine, peer) = (ours(&our_dir, words, ""), theirs(&their_dir, words, ""));
        assert_eq!(mine, peer, "{words}");
    }
    let told = ours(&our_dir, "--db=d backup --backup_dir=b --stderr_log_level=1", "");
    assert!(told.2.contains("Backup DONE. All is good"), "{told:?}");
    let contents = |printed: Printed| (printed.0, printed.1);
    let expected = contents(theirs(&their_dir, "--db=d scan", ""));
    assert!(expected.1.contains("new : 1"));
    let (from_ours, from_theirs) = (our_dir.join("b"), their_dir.join("b"));
    let restore = |dir: &Path| format!("--db=x restore --backup_dir={}", dir.display());
    assert_eq!(theirs(&their_dir, &restore(&from_ours), "").0, Some(0));
    assert_eq!(contents(theirs(&their_dir, "--db=x scan", "")), expected);
    let printed = theirs(&their_dir, "--db=x scan --column_family=cf", "");
    assert_eq!(printed.1, "x : y\n");
    assert_eq!(ours(&our_dir, &restore(&from_theirs), "").0, Some(0));
    assert_eq!(contents(ours(&our_dir, "--db=x scan", "")), expected);
    // And continues the other's backup directory.
    let more = |dir: &Path| format!("--db=d backup --backup_dir={}", dir.display());
    assert_eq!(ours(&our_dir, &more(&from_theirs), "").0, Some(0));
    assert_eq!(theirs(&their_dir, &more(&from_ours), "").0, Some(0));
    assert!(from_theirs.join("meta/3").exists() && from_ours.join("meta/3").exists());
    assert_eq!(theirs(&their_dir, &restore(&from_theirs), "").0, Some(0));
    assert_eq!(contents(theirs(&their_dir, "--db=x scan", "")), expected);
}

/// Properties that are maps are printed by name, with all of Debian's names.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn property_maps_are_printed_by_name() {
    let Some((root, our_dir, their_dir)) = scratch("maps") else { return };
    make(&root.0);
    for property in [
        "cfstats",
        "dbstats",
        "aggregated-table-properties",
        "aggregated-table-properties-at-level0",
    ] {
        let names = |printed: Printed| -> Vec<String> {
            assert_eq!(printed.0, Some(0), "{printed:?}");
            let name = |line: &str| line.split_once(": ").expect("a value").0.to_string();
            printed.1.lines().map(name).collect()
        };
        let words = format!("--db=d get_property rocksdb.{property}");
        copy(&root.0, &our_dir);
        copy(&root.0, &their_dir);
        let (mine, peer) =
            (names(ours(&our_dir, &words, "")), names(theirs(&their_dir, &words, "")));
        let absent: Vec<_> = peer.iter().filter(|name| !mine.contains(name)).collect();
        assert!(!peer.is_empty() && absent.is_empty(), "{property}: {absent:?} of {peer:?}");
    }
}
