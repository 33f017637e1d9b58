//! Entities in `pumice ldb` and `pumice sst_dump`: output as RocksDB 11.9's tools, and for the
//! default column as Debian's, which do not know columns.

use super::{Printed, newest_log, ours, run, scratch, theirs};
use std::path::Path;
use std::process::Command;

/// A database of Debian's with entities of ours, some in a table and some in the log.
fn make(dir: &Path) {
    let printed = theirs(dir, "--db=d --create_if_missing put p plain", "");
    assert_eq!(printed.0, Some(0), "{printed:?}");
    for words in [
        "put_entity a n2:v22 :dv n1:v1",
        "put_entity b x:y empty::",
        "put_entity c :only",
        "compact",
        "put_entity q :dv2 n1:v1",
    ] {
        assert_eq!(ours(dir, &format!("--db=d {words}"), ""), printed_ok(words), "{words}");
    }
}

fn printed_ok(words: &str) -> Printed {
    let out = if words == "compact" { "" } else { "OK\n" };
    (Some(0), out.into(), String::new())
}

/// Command lines, and what they print.
const LINES: &[(&str, &str)] = &[
    ("get_entity a", ":dv n1:v1 n2:v22\n"),
    ("get_entity p", ":plain\n"),
    ("get_entity --hex 0x62", "0x656D707479: 0x78:0x79\n"),
    ("multi_get_entity a nosuch c", "a ==> :dv n1:v1 n2:v22\nKey not found: nosuch\nc ==> :only\n"),
    ("multi_get_entity --hex 0x71 0x7A", "0x71 ==> :0x647632 0x6E31:0x7631\nKey not found: 0x7A\n"),
    ("scan", "a : :dv n1:v1 n2:v22\nb : empty: x:y\nc : only\np : plain\nq : :dv2 n1:v1\n"),
    ("scan --from=0x63 --to=0x71 --hex", "0x63 : 0x6F6E6C79\n0x70 : 0x706C61696E\n"),
    ("dump --max_keys=2", "a ==> :dv n1:v1 n2:v22\nb ==> empty: x:y\nKeys in range: 2\n"),
    ("dump --from=0x71 --hex", "0x71 ==> :0x647632 0x6E31:0x7631\nKeys in range: 1\n"),
];

/// Command lines without columns: output as Debian's.
const ALIKE: &[&str] = &[
    "get a",
    "get b",
    "get c",
    "get a --hex",
    "scan --no_value",
    "scan --from=c --to=q",
    "dump --count_only",
    "dump --count_delim",
    "idump --count_only",
    "idump --count_delim",
];

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn columns_are_printed_as_newer_tools_print_them() {
    let Some((_root, dir, _)) = scratch("entities") else { return };
    make(&dir);
    for words in ALIKE {
        let words = format!("--db=d {words}").replace("get a --hex", "get 0x61 --hex");
        // Theirs runs last, since it may flush the log.
        let printed = ours(&dir, &words, "");
        assert_eq!(printed, theirs(&dir, &words, ""), "{words}");
        assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
    }
    for (words, expected) in LINES {
        let printed = ours(&dir, &format!("--db=d {words}"), "");
        assert_eq!(printed, (Some(0), expected.to_string(), String::new()), "{words}");
    }
    let printed = ours(&dir, "--db=d idump --from=b --max_keys=1", "");
    let shown = printed.1.lines().next().unwrap_or_default();
    assert!(
        shown.starts_with("'b' seq:") && shown.ends_with("type:22 => empty: x:y"),
        "{printed:?}"
    );
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn logs_and_tables_show_columns() {
    let Some((_root, dir, _)) = scratch("entities-files") else { return };
    make(&dir);
    let log = newest_log(&dir);
    let printed = ours(&dir, &format!("dump_wal --walfile={log} --print_value"), "");
    let line = "PUT_ENTITY(0) : 0x71 : :0x647632 0x6E31:0x7631 \n";
    assert!(printed.0 == Some(0) && printed.1.ends_with(line), "{printed:?}");
    let printed = ours(&dir, &format!("dump_wal --walfile={log}"), "");
    assert!(printed.0 == Some(0) && printed.1.ends_with("PUT_ENTITY(0) : 0x71 \n"), "{printed:?}");
    let sst_dump = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
        command.arg("sst_dump");
        run(command, &dir, &format!("--file=d {words}"), "")
    };
    let printed = sst_dump("--command=scan");
    assert!(printed.1.contains("type:22 => :dv n1:v1 n2:v22\n"), "{printed:?}");
    let printed = sst_dump("--command=scan --output_hex");
    assert!(
        printed.1.contains("type:22 => :0x6476 0x6E31:0x7631 0x6E32:0x763232\n"),
        "{printed:?}"
    );
    // What `raw` prints are bytes, the same from both.
    let dumps = || {
        let files = std::fs::read_dir(dir.join("d")).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|path| path.to_string_lossy().ends_with("_dump.txt"));
        let texts = files.map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            text.split_once("\nData Block # 1").unwrap().1.to_string()
        });
        texts.collect::<Vec<_>>()
    };
    assert_eq!(sst_dump("--command=raw").0, Some(0));
    let mine = dumps();
    let printed = run(Command::new("sst_dump"), &dir, "--file=d --command=raw", "");
    assert_eq!(printed.0, Some(0), "{printed:?}");
    assert_eq!(mine, dumps());
    assert!(mine.iter().any(|text| text.contains("01030002026E3102026E320364767631763232")));
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn what_is_wrong_is_said_as_there() {
    let Some((_root, dir, _)) = scratch("entities-wrong") else { return };
    make(&dir);
    for (words, text) in [
        ("get_entity nosuch", "GetEntity failed: NotFound: "),
        ("get_entity", "<key> must be specified for the get_entity command"),
        (
            "multi_get_entity",
            "At least one <key> must be specified for the multi_get_entity command",
        ),
        (
            "put_entity k",
            "<key> and at least one column <column_name>:<column_value> must be specified for the \
             put_entity command",
        ),
        (
            "put_entity k value",
            "wide column format needs to be <column_name>:<column_value> (did you mean put <key> \
             <value>?)",
        ),
        ("put_entity k a:1 b:2 a:3", "Corruption: Wide columns out of order"),
    ] {
        let printed = ours(&dir, &format!("--db=d {words}"), "");
        assert_eq!(printed, (Some(1), String::new(), format!("Failed: {text}\n")), "{words}");
    }
    assert_eq!(ours(&dir, "--db=d get_entity k", "").0, Some(1), "nothing was written");
}
