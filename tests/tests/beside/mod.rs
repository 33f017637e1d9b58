//! The same options and the same calls in Pumice and in RocksDB 10.10.1: the same answers.
//!
//! A case is a text of options, a number of column families and a script of calls; an answer is
//! what the calls return, or their effect as seen from outside (files, logs, error texts). A run of
//! RocksDB is a child process.

use std::path::Path;

use pumice_testkit::store::{Updates, WriteMode};
use pumice_testkit::{Engine, Op};

use crate::child;
use crate::stores::pumice::Pumice;
use crate::stores::rocksdb::{self, RocksDb};
use crate::stores::{Settings, family_name, temp_folder};

/// A call; `cf` is the place of a column family.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Put(usize, u32),
    Delete(u32),
    SingleDelete(u32),
    /// This many puts of 1,000 bytes each into the family.
    Fill(usize, u32),
    Flush(usize),
    /// Compacts the keys from the first to the second, both included.
    Compact(u32, u32),
    /// Lets all flushes and compactions that are due come to an end.
    Settle,
    /// Reports the table files of the family.
    Tables(usize),
    Get(u32),
    /// Reports whether the file is in the directory.
    Exists(&'static str),
    /// A put that no log has.
    Unlogged(u32),
    /// Reports the log's updates from a sequence number on.
    Since(u64),
    /// Reports the updates since the last report.
    More,
    /// Reports how many logs are in the archive.
    Archived,
}

use Call::{
    Archived, Compact, Delete, Exists, Fill, Flush, Get, More, Put, Settle, Since, SingleDelete,
    Tables, Unlogged,
};

struct Case {
    name: &'static str,
    options: &'static str,
    families: usize,
    script: &'static [Call],
}

const MISUSE: &[Call] = &[Put(0, 1), Delete(1), SingleDelete(1), Flush(0), Put(0, 2), Get(1)];

const CASES: &[Case] = &[
    Case { name: "single delete over delete", options: "", families: 1, script: MISUSE },
    Case {
        name: "single delete over delete, tolerated",
        options: "enforce_single_del_contracts=false",
        families: 1,
        script: MISUSE,
    },
    Case {
        name: "a delete between two single deletes",
        options: "",
        families: 1,
        script: &[Put(0, 1), SingleDelete(1), Delete(1), SingleDelete(1), Flush(0), Put(0, 2)],
    },
    Case {
        name: "a single delete below a put, over a delete",
        options: "",
        families: 1,
        script: &[Put(0, 1), Delete(1), SingleDelete(1), Put(0, 1), Flush(0), Put(0, 2)],
    },
    Case {
        name: "delete over single delete, and twice",
        options: "",
        families: 1,
        script: &[
            Put(0, 1),
            SingleDelete(1),
            Delete(1),
            Put(0, 2),
            SingleDelete(2),
            SingleDelete(2),
            Flush(0),
            Put(0, 3),
            Get(1),
            Get(2),
        ],
    },
    Case {
        name: "max_total_wal_size of one family",
        options: "max_total_wal_size=100000",
        families: 1,
        script: &[Fill(0, 1000), Settle, Tables(0)],
    },
    Case {
        name: "max_total_wal_size of two families",
        options: "max_total_wal_size=100000",
        families: 2,
        script: &[Put(1, 1), Fill(0, 150), Settle, Tables(1)],
    },
    Case {
        name: "memtable full with atomic_flush",
        options: "atomic_flush=true;write_buffer_size=65536;disable_auto_compactions=true",
        families: 2,
        script: &[Put(1, 1), Fill(0, 90), Settle, Tables(0), Tables(1)],
    },
    Case {
        name: "flushes of both families with atomic_flush",
        options: "atomic_flush=true;disable_auto_compactions=true",
        families: 2,
        script: &[Put(0, 1), Put(1, 1), Flush(0), Flush(1), Settle, Tables(0), Tables(1)],
    },
    Case {
        name: "flush of one family with atomic_flush",
        options: "atomic_flush=true;disable_auto_compactions=true",
        families: 2,
        script: &[Put(0, 1), Put(1, 1), Flush(0), Settle, Tables(0), Tables(1)],
    },
    Case {
        name: "atomic_flush with enable_pipelined_write",
        options: "atomic_flush=true;enable_pipelined_write=true",
        families: 1,
        script: &[],
    },
    Case {
        name: "compaction of a range",
        options: "disable_auto_compactions=true",
        families: 1,
        script: &[
            Put(0, 1),
            Put(0, 9),
            Flush(0),
            Put(0, 2),
            Put(0, 8),
            Compact(3, 7),
            Tables(0),
            Compact(8, 2),
            Tables(0),
            Compact(8, 8),
            Tables(0),
        ],
    },
    Case {
        name: "no identity at all",
        options: "write_dbid_to_manifest=false;write_identity_file=false",
        families: 1,
        script: &[Exists("IDENTITY")],
    },
    Case {
        name: "identity in the MANIFEST",
        options: "write_identity_file=false",
        families: 1,
        script: &[Exists("IDENTITY")],
    },
    Case {
        name: "identity in the file",
        options: "write_dbid_to_manifest=false",
        families: 1,
        script: &[Exists("IDENTITY")],
    },
    Case {
        name: "updates of one log",
        options: "",
        families: 2,
        script: &[
            Since(0),
            Since(1),
            Put(0, 1),
            Put(1, 2),
            Delete(1),
            Since(0),
            Since(2),
            Since(3),
            Since(4),
            More,
            Put(0, 3),
            Fill(1, 60),
            More,
            More,
        ],
    },
    Case {
        name: "updates of archived logs",
        options: "WAL_ttl_seconds=3600",
        families: 1,
        script: &[
            Exists("archive"),
            Put(0, 1),
            Put(0, 2),
            Flush(0),
            Settle,
            Archived,
            Put(0, 3),
            Flush(0),
            Put(0, 4),
            Settle,
            Archived,
            Since(1),
            Since(3),
            Since(4),
            Put(0, 5),
            More,
            Flush(0),
            Put(0, 6),
            Settle,
            More,
            More,
            Since(6),
        ],
    },
    Case {
        name: "updates of deleted logs",
        options: "",
        families: 1,
        script: &[
            Put(0, 1),
            Flush(0),
            Settle,
            Archived,
            Since(1),
            Put(0, 2),
            Put(0, 3),
            Since(1),
            Since(3),
        ],
    },
    Case {
        name: "updates that no log has",
        options: "",
        families: 1,
        script: &[
            Put(0, 1),
            Unlogged(2),
            Put(0, 3),
            Since(1),
            More,
            Since(2),
            Unlogged(4),
            More,
            Since(3),
            Put(0, 5),
            Since(3),
            Since(4),
        ],
    },
    Case {
        name: "an archive of a limited size",
        options: "WAL_size_limit_MB=1",
        families: 1,
        script: &[Fill(0, 300), Flush(0), Settle, Fill(0, 300), Flush(0), Settle, Archived],
    },
];

/// A batch as an answer: its numbers, length and first bytes.
fn described((sequence, data): &(u64, Vec<u8>)) -> String {
    let shown = &data[..data.len().min(48)];
    format!("{sequence} ({} bytes) {}", data.len(), shown.escape_ascii())
}

fn updates((batches, status): (Updates, Result<(), String>)) -> String {
    let batches: Vec<String> = batches.iter().map(described).collect();
    let end = status.err().unwrap_or_else(|| "OK".to_string());
    format!("{}; {end}", batches.join(", "))
}

type Open<E> = fn(&Path, &Settings) -> Result<E, String>;

fn run_case<E: Engine>(case: &Case, path: &Path, open: Open<E>) -> Vec<String> {
    let text =
        format!("create_if_missing=true;create_missing_column_families=true;{}", case.options);
    let mut engine = match open(path, &Settings::of(&text, "").with_families(case.families)) {
        Ok(engine) => engine,
        Err(text) => return vec![format!("open: {text}")],
    };
    let printed = |result: Result<String, String>| result.unwrap_or_else(|text| text);
    let report = |call: &Call| format!("{call:?}: {}", printed(answer(&mut engine, call, path)));
    case.script.iter().map(report).collect()
}

fn answer(engine: &mut dyn Engine, call: &Call, path: &Path) -> Result<String, String> {
    let key = |n: u32| format!("key{n:06}").into_bytes();
    let put = |cf, n| Op::Put { cf, key: key(n), value: b"value".into() };
    match *call {
        Put(cf, n) => engine.write(&[put(cf, n)])?,
        Delete(n) => engine.write(&[Op::Delete { cf: 0, key: key(n) }])?,
        SingleDelete(n) => engine.write(&[Op::SingleDelete { cf: 0, key: key(n) }])?,
        Fill(cf, count) => {
            let long = |n| Op::Put { cf, key: key(n), value: vec![b'v'; 1000] };
            (0..count).try_for_each(|n| engine.write(&[long(n)]))?;
        }
        Flush(cf) => engine.flush(cf)?,
        Compact(begin, end) => engine.compact(0, Some(&key(begin)), Some(&key(end)))?,
        Settle => engine.settle()?,
        Tables(cf) => {
            let files = engine.files();
            let own = files.iter().filter(|file| file.family == family_name(cf));
            return Ok(own.count().to_string());
        }
        Get(n) => {
            let found = engine.get(0, &key(n), None)?;
            return Ok(found.map_or("none".to_string(), |value| value.len().to_string()));
        }
        Exists(name) => return Ok(path.join(name).exists().to_string()),
        Unlogged(n) => {
            engine
                .write_as(&[put(0, n)], WriteMode { disable_wal: true, ..WriteMode::default() })?;
        }
        Since(sequence) => return engine.updates_since(sequence).map(updates),
        More => return engine.more_updates().map(updates),
        Archived => {
            let archive = std::fs::read_dir(path.join("archive"));
            return Ok(archive.map_or(0, |files| files.count()).to_string());
        }
    }
    Ok("ok".to_string())
}

fn case_named(name: &str) -> Result<&'static Case, String> {
    CASES.iter().find(|case| case.name == name).ok_or_else(|| format!("no case {name}"))
}

const ANSWERS: &str = "answers";

/// Child job: RocksDB answers the case of that name.
pub fn run(folder: &Path, argument: &str) -> Result<(), String> {
    let answers = run_case(case_named(argument)?, &folder.join("rocksdb"), |path, settings| {
        RocksDb::open(&rocksdb::load()?, path, settings)
    });
    std::fs::write(folder.join(ANSWERS), answers.join("\n")).map_err(|e| e.to_string())
}

/// What Pumice and RocksDB answer in the case of that name.
fn answers(name: &str) -> (String, String) {
    let folder = temp_folder();
    child::run("rocksdb-beside", folder.path(), name).unwrap();
    let theirs = std::fs::read_to_string(folder.path().join(ANSWERS)).unwrap();
    let ours = run_case(case_named(name).unwrap(), &folder.path().join("pumice"), Pumice::open);
    (ours.join("\n"), theirs)
}

fn compare(names: &[&str]) {
    for name in names {
        let (ours, theirs) = answers(name);
        assert_eq!(ours, theirs, "{name}");
    }
}

#[pumice_test_macros::test]
fn misused_single_deletes_end_as_in_rocksdb() {
    compare(&[
        "single delete over delete",
        "single delete over delete, tolerated",
        "a delete between two single deletes",
        "a single delete below a put, over a delete",
        "delete over single delete, and twice",
    ]);
}

#[pumice_test_macros::test]
fn the_limit_of_all_logs_acts_as_in_rocksdb() {
    compare(&["max_total_wal_size of one family", "max_total_wal_size of two families"]);
}

#[pumice_test_macros::test]
fn the_identity_is_where_rocksdb_has_it() {
    compare(&["no identity at all", "identity in the MANIFEST", "identity in the file"]);
}

/// Memtables are flushed only if they have something in the range.
#[pumice_test_macros::test]
fn a_compaction_of_a_range_flushes_what_is_in_it() {
    compare(&["compaction of a range"]);
}

#[pumice_test_macros::test]
fn atomic_flushes_are_as_in_rocksdb() {
    compare(&[
        "memtable full with atomic_flush",
        "flushes of both families with atomic_flush",
        "atomic_flush with enable_pipelined_write",
    ]);
}

/// A difference on purpose: no call lets some families get ahead of others.
#[pumice_test_macros::test]
fn an_atomic_flush_of_one_family_takes_both_and_in_rocksdb_the_one() {
    let (ours, theirs) = answers("flush of one family with atomic_flush");
    let answered = |tables: [u32; 2]| format!("Tables(0): {}\nTables(1): {}", tables[0], tables[1]);
    assert!(ours.ends_with(&answered([1, 1])), "{ours}");
    assert!(theirs.ends_with(&answered([1, 0])), "{theirs}");
}

/// The same batches, ends, gaps and calls for a new iterator.
#[pumice_test_macros::test]
fn updates_are_those_of_rocksdb() {
    compare(&[
        "updates of one log",
        "updates of archived logs",
        "updates of deleted logs",
        "updates that no log has",
    ]);
}

#[pumice_test_macros::test]
fn the_archive_has_as_many_logs_as_in_rocksdb() {
    compare(&["an archive of a limited size"]);
}
