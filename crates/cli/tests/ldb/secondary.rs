//! `--secondary_path`: while a process has the database open and writes to it, both tools show the
//! same contents, and refuse the same commands.

use super::{copy, make, ours, scratch, theirs};
use pumice::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, Options};
use std::process::{Command, Stdio};

/// With `--db=d --secondary_path=s` before them.
const LINES: &[&str] = &[
    "get a",
    "get nosuch",
    "scan",
    "scan --hex --max_keys=2",
    "scan --column_family=cf",
    "dump",
    "dump --count_only",
    "approxsize --from=0 --to=z",
    "list_column_families",
    "checkconsistency",
    "get_property rocksdb.estimate-num-keys",
    "get_property rocksdb.num-files-at-level0",
    "list_file_range_deletes",
    "put k v",
    "delete a",
    "singledelete a",
    "deleterange a b",
    "batchput x y z 1",
    "compact",
    "query",
    "--column_family=nosuch scan",
];

#[pumice_test_macros::test]
fn both_tools_see_what_a_live_primary_has_written() {
    let Some((root, our_dir, their_dir)) = scratch("secondary") else { return };
    make(&root.0);
    copy(&root.0, &our_dir);
    let mut cf = ColumnFamilyOptions::default();
    cf.table_factory.set("format_version", "5").unwrap(); // 7.8.3 reads no newer ones.
    let families =
        ["default", "cf"].map(|name| ColumnFamilyDescriptor::new(name, cf.clone())).to_vec();
    let (primary, handles) =
        Db::open_cf(&DbOptions::default(), our_dir.join("d"), &families).unwrap();
    primary.put("in the log", "1").unwrap();
    primary.put_cf(&handles[1], "x", "newer").unwrap();
    primary.flush_cf(&handles[1]).unwrap();
    primary.delete_range("d", "e").unwrap();
    std::os::unix::fs::symlink(our_dir.join("d"), their_dir.join("d")).unwrap();
    let names = || {
        let names = std::fs::read_dir(our_dir.join("d")).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let mut wrong = Vec::new();
    for words in LINES {
        let input = "get a\nput x y\n";
        let line = format!("--db=d --secondary_path=s {words}");
        let (mine, peer) = (ours(&our_dir, &line, input), theirs(&their_dir, &line, input));
        if mine != peer {
            wrong.push(format!("{words}\n  ours   {mine:?}\n  theirs {peer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(names(), before, "nothing was written there");
    assert!(our_dir.join("s/LOG").exists());
    let printed = ours(&our_dir, "--db=d --secondary_path=s scan", "");
    assert!(printed.1.contains("in the log : 1"), "{printed:?}");
    let printed = ours(&our_dir, "--db=d --secondary_path=s --ttl scan", "");
    assert_eq!(printed.2, "Failed: Open as secondary is not supported for TTL DB yet.\n");
    // Without it the database is locked by the other process.
    let printed = ours(&our_dir, "--db=d put k v", "");
    assert!(printed.2.contains("lock"), "{printed:?}");
    primary.close().unwrap();
}

/// The other way round: RocksDB's library writes.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_primary_of_rocksdb_is_read() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = pumice_peer::Peer::load(library).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut options = pumice_peer::Options::new(&peer);
    options.set_many("create_if_missing=true").unwrap();
    let primary = pumice_peer::Db::open(&options, &dir.path().join("d")).unwrap();
    let cf = primary.default_column_family().clone();
    let write = pumice_peer::WriteOptions::new(&peer, &Default::default());
    let mut expected = String::new();
    for n in 0..5 {
        primary.put(&write, &cf, format!("k{n}").as_bytes(), b"v").unwrap();
        expected += &format!("k{n} : v\n");
        if n == 2 {
            primary.flush(&cf).unwrap();
        }
        let printed = ours(dir.path(), "--db=d --secondary_path=s scan", "");
        assert_eq!(printed.1, expected, "{printed:?}");
    }
}

/// Keys and values of the default column family.
fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.iter().unwrap().map(|entry| entry.unwrap()).collect()
}

/// A primary in another process is killed in the middle of its writes, and opened again: what was
/// seen of it before stays valid.
#[pumice_test_macros::test]
fn a_primary_that_is_killed_is_followed() {
    let flags = "--benchmarks=overwrite --use_existing_db=1 --num=100000000 \
                 --write_buffer_size=300000 \
                 --value_size=200 --threads=2 --db=d";
    let ours = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
        command.arg("db_bench");
        command
    };
    let mut primaries = vec![ours()];
    if Command::new("db_bench").arg("--version").output().is_ok() {
        primaries.push(Command::new("db_bench"));
    }
    for mut command in primaries {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.db.create_if_missing = true;
        Db::open(&options, dir.path().join("d")).unwrap().close().unwrap();
        command.current_dir(dir.path()).args(flags.split_whitespace());
        let mut primary = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let families = [ColumnFamilyDescriptor::new("default", ColumnFamilyOptions::default())];
        let (path, beside) = (dir.path().join("d"), dir.path().join("s"));
        let open = || Db::open_as_secondary(&DbOptions::default(), &path, &beside, &families);
        let (secondary, _) = open().unwrap();
        let mut before = 0;
        for round in 1..8 {
            while secondary.latest_sequence_number() < round * 5000 {
                assert!(primary.try_wait().unwrap().is_none(), "it ended");
                secondary.try_catch_up_with_primary().unwrap();
                let now = secondary.latest_sequence_number();
                assert!(now >= before, "{now} after {before}");
                before = now;
            }
            assert!(secondary.iter().unwrap().take(3).all(|entry| entry.is_ok()));
        }
        primary.kill().unwrap();
        primary.wait().unwrap();
        secondary.try_catch_up_with_primary().unwrap();
        let seen = contents(&secondary);
        let again = Db::open(&Default::default(), &path).unwrap();
        assert_eq!(contents(&again), seen, "nothing was seen that is not there, nor missed");
        again.put("k", "v").unwrap();
        again.compact_range(&Default::default(), None, None).unwrap();
        again.put("l", "w").unwrap();
        secondary.try_catch_up_with_primary().unwrap();
        assert_eq!(contents(&secondary), contents(&again));
        again.close().unwrap();
    }
}
