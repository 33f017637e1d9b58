//! Logs in the archive: Pumice's, RocksDB's and those of both, as each of the two reads them, and
//! Debian's ldb.

use std::path::Path;
use std::process::Command;

use pumice_peer::{Db as PeerDb, Options as PeerOptions, Peer};
use pumice_peer::{WriteOptions, WriteSettings};

/// With tables that Debian's ldb can read.
const OPTIONS: &str = "create_if_missing=true;allow_fallocate=false;WAL_ttl_seconds=1000000;\
                       block_based_table_factory={format_version=5}";
const ROUNDS: u32 = 3;
const ROUND_KEYS: u32 = 20;

/// Sequence number and wire form.
type Batches = Vec<(u64, Vec<u8>)>;

fn key(round: u32, n: u32) -> Vec<u8> {
    format!("key{:05}", round * ROUND_KEYS + n).into_bytes()
}

/// Some larger than a block of the log.
fn value(round: u32, n: u32) -> Vec<u8> {
    let bytes = if n == 7 { 70_000 } else { 10 + n as usize };
    vec![b'a' + round as u8; bytes]
}

fn ours(path: &Path) -> pumice::Db {
    let mut options = pumice::Options::default();
    options.set_from_text(OPTIONS).unwrap();
    pumice::Db::open(&options, path).unwrap()
}

fn theirs(peer: &Peer, path: &Path) -> PeerDb {
    let mut options = PeerOptions::new(peer);
    options.set_many(OPTIONS).unwrap();
    PeerDb::open(&options, path).unwrap()
}

/// The last round stays in the log.
fn write_ours(db: &pumice::Db, first: u32) {
    for round in first..first + ROUNDS {
        if round > first {
            db.flush().unwrap();
        }
        for n in 0..ROUND_KEYS {
            db.put(key(round, n), value(round, n)).unwrap();
        }
    }
}

fn write_theirs(db: &PeerDb, peer: &Peer, first: u32) {
    let (wo, cf) = (WriteOptions::new(peer, &WriteSettings::default()), db.default_column_family());
    for round in first..first + ROUNDS {
        if round > first {
            db.flush(cf).unwrap();
        }
        for n in 0..ROUND_KEYS {
            db.put(&wo, cf, &key(round, n), &value(round, n)).unwrap();
        }
    }
}

fn read_ours(db: &pumice::Db) -> Batches {
    let mut updates = db.get_updates_since(0).unwrap();
    let batches = (&mut updates).map(|item| item.map(|(at, batch)| (at, batch.data().to_vec())));
    let batches = batches.collect::<pumice::Result<_>>().unwrap();
    updates.status().unwrap();
    batches
}

/// Without batches that hold only an annotation: Pumice's logs begin with one.
fn read_theirs(db: &PeerDb) -> Batches {
    let mut updates = db.updates_since(0).unwrap();
    let mut batches = Vec::new();
    while let Some((sequence, batch)) = updates.batch() {
        if batch.count() > 0 {
            batches.push((sequence, batch.data().to_vec()));
        }
        updates.next();
    }
    updates.status().unwrap();
    batches
}

fn assert_has(batches: &Batches, rounds: u32) {
    let sequences: Vec<u64> = batches.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(sequences, (1..=u64::from(rounds * ROUND_KEYS)).collect::<Vec<_>>());
}

#[pumice_test_macros::test]
fn each_reads_the_archived_logs_of_the_other() {
    let Some(peer) = super::peer() else { return };
    let folder = tempfile::tempdir().unwrap();
    let db = ours(folder.path());
    write_ours(&db, 0);
    let first = read_ours(&db);
    assert_has(&first, ROUNDS);
    db.close().unwrap();
    // RocksDB archives the logs that it recovers from.
    let db = theirs(&peer, folder.path());
    assert!(read_theirs(&db) == first, "RocksDB reads other batches than were written");
    write_theirs(&db, &peer, ROUNDS);
    let second = read_theirs(&db);
    assert_has(&second, 2 * ROUNDS);
    drop(db);
    let db = ours(folder.path());
    assert!(read_ours(&db) == second, "Pumice reads other batches than were written");
    write_ours(&db, 2 * ROUNDS);
    let third = read_ours(&db);
    assert_has(&third, 3 * ROUNDS);
    db.close().unwrap();
    let db = theirs(&peer, folder.path());
    assert!(read_theirs(&db) == third, "RocksDB reads other batches than were written");
}

#[pumice_test_macros::test]
fn ldb_reads_archived_logs() {
    if Command::new("ldb").arg("--help").output().is_err() {
        eprintln!("SKIPPED: no ldb; `cargo xtask peers` installs it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let db = ours(folder.path());
    write_ours(&db, 0);
    // What the flushes made obsolete is archived when this returns.
    db.disable_file_deletions();
    db.enable_file_deletions();
    let logs = db.wal_files().unwrap();
    assert_eq!(logs.len(), ROUNDS as usize);
    db.close().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new("ldb").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for log in logs {
        let path = format!("{}{}", folder.path().display(), log.path_name);
        let printed = run(&["dump_wal", &format!("--walfile={path}")]);
        let put = |line: &&str| line.contains("PUT(0)");
        assert_eq!(printed.lines().filter(put).count(), ROUND_KEYS as usize, "{path}: {printed}");
        assert!(printed.contains(&format!("{},1,", log.start_sequence)), "{printed}");
    }
    // It opens the database by its OPTIONS file, too.
    let database = format!("--db={}", folder.path().display());
    let printed = run(&[&database, "--try_load_options", "scan"]);
    assert_eq!(printed.lines().count(), (ROUNDS * ROUND_KEYS) as usize);
}
