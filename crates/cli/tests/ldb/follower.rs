//! `--leader_path`: commands show what a process that has the database open has flushed. Debian's
//! ldb, which is 7.8.3, has no such argument; the texts are those of 11.8.1.

use super::ours;
use pumice::Db;

#[pumice_test_macros::test]
fn what_a_live_leader_has_flushed_is_read() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    let leader = Db::builder(dir.join("d")).create(true).open().unwrap();
    let cf = leader.create_column_family(&Default::default(), "cf").unwrap();
    leader.put("a", "1").unwrap();
    leader.put_cf(&cf, "x", "1").unwrap();
    leader.flush_all().unwrap();
    leader.put("b", "in the log").unwrap();
    let run = |words: &str| ours(dir, &format!("--leader_path=d --db=own {words}"), "");
    let failed = |words: &str, text: &str| {
        let printed = run(words);
        assert!(printed.2.contains(text), "{words}: {printed:?}");
        assert_ne!(printed.0, Some(0), "{words}");
    };
    failed("scan", "No such file or directory");
    assert_eq!(run("--create_if_missing scan").1, "a : 1\n");
    assert_eq!(run("get a").1, "1\n");
    assert_eq!(run("scan --column_family=cf").1, "x : 1\n");
    failed("get b", "NotFound");
    assert_eq!(run("checkconsistency").1, "OK\n");
    assert_eq!(run("idump --count_only").1, "Internal keys in range: 1\n", "the log is not read");
    failed("put k v", "Not supported operation in secondary mode.");
    failed("compact", "Not supported operation in secondary mode.");
    failed("--column_family=nosuch scan", "Non-existing column family nosuch");
    failed("--secondary_path=s scan", "Cannot provide both secondary and leader paths");
    failed("--ttl scan", "Open as secondary or follower is not supported for TTL DB yet.");
    leader.put("a", "2").unwrap();
    leader.flush_all().unwrap();
    leader.compact_range(&Default::default(), None, None).unwrap();
    assert_eq!(run("scan").1, "a : 2\nb : in the log\n");
    let tables = |at: &str| {
        let names = std::fs::read_dir(dir.join(at)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(".sst")).collect();
        names.sort();
        names
    };
    leader.close().unwrap();
    assert_eq!(tables("own"), tables("d"));
    assert!(dir.join("own/LOG").exists() && !dir.join("own/CURRENT").exists());
    // It has nothing of its own to be opened without its leader.
    let alone = ours(dir, "--db=own scan", "");
    assert!(alone.2.contains("CURRENT"), "{alone:?}");
}
