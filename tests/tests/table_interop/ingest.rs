//! Ingestion on both engines: each ingests the other's files, continues in the other's database,
//! puts files on the same levels with the same sequence numbers, and refuses with the same texts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pumice_peer::{self as theirs, Peer};
use pumice_testkit::store::{IngestMode, scan};
use pumice_testkit::{Engine, Op};
use pumice_tests::stores::Settings;
use pumice_tests::stores::pumice::Pumice;
use pumice_tests::stores::rocksdb::RocksDb;

use super::peer;

pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// A put of the default column family, and so on.
pub fn put(key: &str, value: &str) -> Op {
    Op::Put { cf: 0, key: key.into(), value: value.into() }
}
pub fn merge(key: &str, operand: &str) -> Op {
    Op::Merge { cf: 0, key: key.into(), operand: operand.into() }
}
pub fn delete(key: &str) -> Op {
    Op::Delete { cf: 0, key: key.into() }
}
pub fn delete_range(begin: &str, end: &str) -> Op {
    Op::DeleteRange { cf: 0, begin: begin.into(), end: end.into() }
}

/// Whether a database takes files behind its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    No,
    Yes,
}

fn settings(format: u32, behind: Behind) -> Settings {
    const BASE: &str = "create_if_missing=true;allow_fallocate=false;\
                        disable_auto_compactions=true;merge_operator=stringappend";
    const BEHIND: &str = ";cf_allow_ingest_behind=true;level_compaction_dynamic_level_bytes=false";
    let more = if behind == Behind::Yes { BEHIND } else { "" };
    let table = format!("format_version={format};filter_policy=bloomfilter:10:false");
    Settings::of(&format!("{BASE}{more}"), &table)
}

pub fn open_theirs(peer: &Peer, path: &Path, format: u32) -> Box<dyn Engine> {
    Box::new(RocksDb::open(peer, path, &settings(format, Behind::No)).unwrap())
}

fn open_ours(path: &Path, format: u32) -> Box<dyn Engine> {
    Box::new(Pumice::open(path, &settings(format, Behind::No)).unwrap())
}

/// All that there is, by an iterator and by gets.
pub fn state_of(engine: &mut dyn Engine) -> State {
    let state: State = scan(engine, 0, false).unwrap().into_iter().collect();
    for (key, value) in &state {
        assert_eq!(engine.get(0, key, None).unwrap().as_ref(), Some(value));
    }
    engine.verify().unwrap();
    state
}

/// Levels of all files, sorted.
fn levels(engine: &mut dyn Engine) -> Vec<usize> {
    let mut levels: Vec<usize> = engine.files().iter().map(|file| file.level).collect();
    levels.sort_unstable();
    levels
}

/// What is done to both engines, in turn.
enum Step {
    Write(Op),
    Flush,
    Compact,
    Snapshot,
    Release,
    /// Files of one call.
    Ingest(Vec<Vec<Op>>),
    /// The same, whether it succeeds or not: the outcome must be the same on both.
    Try(Vec<Vec<Op>>, IngestMode),
    Reopen,
}

fn steps() -> Vec<Step> {
    use Step::{Compact, Flush, Ingest, Release, Reopen, Snapshot, Try, Write};
    let mode = IngestMode::default;
    let no_flush = IngestMode { allow_blocking_flush: false, ..mode() };
    let no_seqno = IngestMode { allow_global_seqno: false, ..mode() };
    let last_level = IngestMode { fail_if_not_bottommost_level: true, ..mode() };
    let behind = IngestMode { ingest_behind: true, ..mode() };
    vec![
        Ingest(vec![vec![put("d", "1"), put("g", "1")]]),
        Write(put("e", "memory")),
        Try(vec![vec![put("e", "x")]], no_flush),
        Try(vec![vec![put("e", "x")]], no_seqno),
        Try(vec![vec![put("e", "x")]], last_level),
        Try(vec![vec![put("zz", "x")]], behind),
        Try(vec![], mode()),
        Ingest(vec![vec![put("e", "2"), merge("g", "m"), delete("h")]]),
        Ingest(vec![vec![put("x", "3")], vec![put("y", "3")]]),
        Reopen,
        Ingest(vec![
            vec![put("a", "4"), put("c", "4")],
            vec![put("b", "5"), put("c", "5")],
            vec![put("p", "5")],
            vec![delete_range("b", "c"), merge("c", "6")],
        ]),
        Snapshot,
        Ingest(vec![vec![put("q", "7"), put("r", "7")]]),
        Ingest(vec![vec![delete_range("q", "r"), put("qa", "8")]]),
        Release,
        Flush,
        Try(vec![vec![put("k", "1")], vec![put("k", "2")]], no_seqno),
        Ingest(vec![vec![delete_range("s", "v")]]),
        Write(put("t", "9")),
        Reopen,
        Compact,
        Ingest(vec![vec![put("t", "10")], vec![put("zz", "10")]]),
        Try(vec![vec![put("zzz", "11")]], last_level),
        Write(merge("zz", "12")),
        Ingest(vec![vec![delete_range("a", "c"), put("b", "13"), put("s", "13")]]),
        Compact,
        Ingest(vec![vec![put("bb", "14")], vec![put("s", "14")], vec![put("s", "15")]]),
        Reopen,
    ]
}

/// The result of a call. RocksDB prints one of its texts without filling in the name.
fn words(result: Result<(), String>) -> String {
    result.map_or_else(|error| error.replace("%s", "default"), |()| "OK".to_string())
}

/// Does `step` on both; files begin with `prefix`, and each gets those that the other made.
fn do_step(engines: &mut [Box<dyn Engine>; 2], step: &Step, prefix: &Path, what: &str) {
    let (files, mode) = match step {
        Step::Ingest(files) => (files.as_slice(), IngestMode::default()),
        Step::Try(files, mode) => (files.as_slice(), *mode),
        _ => (&[][..], IngestMode::default()),
    };
    let made = [1, 0].map(|maker: usize| {
        let made = files.iter().enumerate().map(|(f, records)| {
            let path = PathBuf::from(format!("{}-{f}-{maker}.sst", prefix.display()));
            engines[maker].make_table(&path, records).unwrap();
            path
        });
        made.collect::<Vec<PathBuf>>()
    });
    let mut outcomes = Vec::new();
    for engine in engines.iter_mut() {
        match step {
            Step::Write(record) => engine.write(std::slice::from_ref(record)).unwrap(),
            Step::Flush => engine.flush(0).unwrap(),
            Step::Compact => engine.compact_all(0).unwrap(),
            Step::Snapshot => engine.snapshot(0).unwrap(),
            Step::Release => engine.release(0),
            Step::Reopen => engine.reopen().unwrap(),
            Step::Ingest(_) | Step::Try(..) => {
                let mine: Vec<&Path> = made[outcomes.len()].iter().map(PathBuf::as_path).collect();
                outcomes.push(words(engine.ingest(0, &mine, &mode)));
            }
        }
    }
    if matches!(step, Step::Ingest(_)) {
        assert_eq!(outcomes[0], "OK", "{what}");
    }
    assert!(outcomes.is_empty() || outcomes[0] == outcomes[1], "{what}: {outcomes:?}");
}

/// The same steps on both, with each other's files.
#[pumice_test_macros::test]
fn both_engines_ingest_alike() {
    let Some(peer) = peer() else { return };
    for format in [5, 6, 7] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut engines =
            [open_theirs(&peer, &path("theirs"), format), open_ours(&path("ours"), format)];
        for (n, step) in steps().iter().enumerate() {
            let what = format!("format {format}, step {n}");
            let prefix = folder.path().join(n.to_string());
            do_step(&mut engines, step, &prefix, &what);
            let [a, b] = &mut engines;
            assert_eq!(state_of(&mut **a), state_of(&mut **b), "{what}");
            assert_eq!(levels(&mut **a), levels(&mut **b), "{what}");
            assert_eq!(a.sequence(), b.sequence(), "{what}");
        }
        let state = state_of(&mut *engines[0]);
        assert!(state.len() > 8);
        drop(engines);
        // Each continues in the other's database.
        for (mut engine, name) in [
            (open_ours(&path("theirs"), format), "theirs"),
            (open_theirs(&peer, &path("ours"), format), "ours"),
        ] {
            assert_eq!(state_of(&mut *engine), state, "{name}");
            let file = path(&format!("last-{name}.sst"));
            engine.make_table(&file, &[put("a", "last"), delete_range("d", "f")]).unwrap();
            engine.ingest(0, &[&file], &IngestMode::default()).unwrap();
            let mut expected = state.clone();
            expected.retain(|key, _| !(&b"d"[..]..&b"f"[..]).contains(&&key[..]));
            expected.insert(b"a".to_vec(), b"last".to_vec());
            assert_eq!(state_of(&mut *engine), expected, "{name}");
            engine.compact_all(0).unwrap();
            assert_eq!(state_of(&mut *engine), expected, "{name}");
            engine.reopen().unwrap();
            assert_eq!(state_of(&mut *engine), expected, "{name}");
        }
    }
}

/// Files ingested behind, next to plain ones. With fixed level targets, because with dynamic ones
/// RocksDB 10.10 still compacts into the last level, and then has no room there. Without range
/// deletions, which it drops in compactions although files may be ingested behind them.
#[pumice_test_macros::test]
fn both_engines_ingest_behind_alike() {
    use Step::{Compact, Flush, Ingest, Reopen, Try, Write};
    let Some(peer) = peer() else { return };
    let behind = IngestMode { ingest_behind: true, ..Default::default() };
    let steps = [
        Write(put("b", "first")),
        Write(put("c", "first")),
        Flush,
        Write(delete("c")),
        Compact,
        Write(put("h", "memory")),
        Try(vec![vec![put("a", "1"), put("b", "1"), put("c", "1"), put("f", "1")]], behind),
        Try(vec![vec![put("c", "2")]], behind),
        Try(vec![vec![put("x", "2")], vec![put("x", "3")]], behind),
        Try(vec![vec![put("g", "2"), put("h", "2")]], behind),
        Compact,
        Reopen,
        Ingest(vec![vec![put("c", "4"), put("d", "4")]]),
        Compact,
        Try(vec![vec![put("y", "5")]], behind),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let settings = settings(6, Behind::Yes);
    let mut engines: [Box<dyn Engine>; 2] = [
        Box::new(RocksDb::open(&peer, &path("theirs"), &settings).unwrap()),
        Box::new(Pumice::open(&path("ours"), &settings).unwrap()),
    ];
    for (n, step) in steps.iter().enumerate() {
        let what = format!("step {n}");
        do_step(&mut engines, step, &path(&n.to_string()), &what);
        let [a, b] = &mut engines;
        assert_eq!(state_of(&mut **a), state_of(&mut **b), "{what}");
        assert_eq!(a.sequence(), b.sequence(), "{what}");
    }
    let state = state_of(&mut *engines[0]);
    let value = |key: &str| state.get(key.as_bytes()).map(Vec::as_slice);
    assert_eq!(
        (value("a"), value("b"), value("f")),
        (Some(&b"1"[..]), Some(&b"first"[..]), Some(&b"1"[..]))
    );
}

/// Files that do not fit are refused with the same words, ours with the file's name before them.
#[pumice_test_macros::test]
fn both_engines_refuse_alike() {
    let Some(peer) = peer() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut reverse = theirs::Options::new(&peer);
    reverse.set("comparator", "rocksdb.ReverseBytewiseComparator").unwrap();
    let mut writer = theirs::SstFileWriter::new(&reverse);
    writer.open(&path("reverse.sst")).unwrap();
    writer.put(b"b", b"1").unwrap();
    writer.put(b"a", b"1").unwrap();
    writer.finish().unwrap();
    for own in ["theirs", "ours"] {
        let mut engine = match own {
            "theirs" => open_theirs(&peer, &path(own), 6),
            _ => open_ours(&path(own), 6),
        };
        engine.put(b"k", b"v").unwrap();
        engine.flush(0).unwrap();
        engine.reopen().unwrap();
        drop(engine);
        let tables = std::fs::read_dir(path(own)).unwrap().map(|entry| entry.unwrap().path());
        let table = tables.into_iter().find(|path| path.extension().is_some_and(|e| e == "sst"));
        std::fs::copy(table.unwrap(), path(&format!("{own}.sst"))).unwrap();
    }
    let mut engines = [open_theirs(&peer, &path("a"), 6), open_ours(&path("b"), 6)];
    for name in ["reverse.sst", "theirs.sst", "ours.sst"] {
        let [a, b] = engines.each_mut().map(|engine| {
            let error = engine.ingest(0, &[&path(name)], &IngestMode::default());
            error.err().unwrap_or_else(|| format!("{name} was taken"))
        });
        let named = format!("{}: ", path(name).display());
        assert_eq!(a, b.replace(&named, ""), "{name}");
        assert!(b.contains(name), "{b}");
    }
}
