//! The tools on tables of many blocks in an order that is not bytewise.

use super::{ours, scratch};
use pumice::{Comparator, Db, Options};
use std::path::Path;
use std::process::Command;

fn make(dir: &Path) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.comparator = Comparator::ReverseBytewise;
    options.cf.table_factory.set("block_size", "256").unwrap();
    options.cf.table_factory.set("format_version", "5").unwrap(); // 7.8.3 reads no newer ones.
    let db = Db::open(&options, dir).unwrap();
    (0..500).for_each(|n| db.put(format!("k{n:03}"), "value").unwrap());
    db.delete_range("k009", "k004").unwrap();
    db.flush().unwrap();
    db.put("k500", "value").unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn the_tools_read_tables_of_another_order() {
    let Some((_root, dir, _)) = scratch("orders") else { return };
    make(&dir.join("d"));
    let keys = |db: &str| {
        let (code, out, err) = ours(&dir, &format!("--db={db} scan"), "");
        assert_eq!(code, Some(0), "{err}");
        let keys: Vec<_> =
            out.lines().map(|line| line.split(' ').next().unwrap().to_string()).collect();
        assert!(keys.is_sorted_by(|a, b| a > b), "{db}");
        keys.len()
    };
    // The entry of the log comes before all others.
    for (words, with_log) in [("--db=d idump", true), ("--db=d idump --from=k250", false)] {
        let (code, out, err) = ours(&dir, words, "");
        assert_eq!(code, Some(0), "{err}");
        assert!(out.contains("k250") && out.contains("k500") == with_log, "{words}: {out}");
    }
    assert_eq!(keys("d"), 496);
    for (words, db) in [
        ("--db=d idump", "d"),
        ("--db=d dump_live_files", "d"),
        ("--db=d list_file_range_deletes", "d"),
        ("--db=d manifest_dump", "d"),
        ("--db=d checkconsistency", "d"),
        ("--db=d backup --backup_dir=b", "d"),
        ("--db=r restore --backup_dir=b", "r"),
        ("--db=d checkpoint --checkpoint_dir=c", "c"),
        ("--db=d --secondary_path=s get k001", "d"),
        ("--db=d repair", "d"),
        ("--db=d --try_load_options=false repair", "d"),
        ("--db=d compact", "d"),
        ("--db=d reduce_levels --new_levels=2", "d"),
    ] {
        let printed = ours(&dir, words, "");
        assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
        assert_eq!(keys(db), 496, "{words}");
    }
    for table in std::fs::read_dir(dir.join("r")).unwrap().map(|entry| entry.unwrap().path()) {
        if table.extension().is_none_or(|kind| kind != "sst") {
            continue;
        }
        let file = format!("--file={}", table.display());
        for command in ["check", "scan", "verify", "raw", "recompress", "identify"] {
            let words = [&file, &format!("--command={command}"), "--show_properties"];
            let tool = |tool: &mut Command| tool.args(words).output().unwrap();
            let mine = tool(Command::new(env!("CARGO_BIN_EXE_pumice")).arg("sst_dump"));
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(mine.status.success(), "{command}: {}", text(&mine.stderr));
            let entries = |out: &str| out.lines().filter(|line| line.contains(" => ")).count();
            if command == "scan" {
                let peer = text(&tool(&mut Command::new("sst_dump")).stdout);
                assert_eq!(entries(&text(&mine.stdout)), entries(&peer));
                assert!(entries(&peer) > 0, "{peer}");
            }
        }
    }
}
