//! A database of FIFO style goes from Pumice to RocksDB and back: both keep its files in L0, in the
//! order by age, and drop the same end of it.

use std::path::Path;

use pumice::options::CompactionStyle;
use pumice_peer::{Db as PeerDb, Options as PeerOptions, Peer};
use pumice_peer::{ReadOptions, ReadSettings, WriteOptions, WriteSettings};

const FAMILY: &str =
    "compression=kNoCompression;compaction_style=kCompactionStyleFIFO;num_levels=3";
const ROUND_KEYS: u64 = 100;

fn key(round: u64, n: u64) -> Vec<u8> {
    format!("key{:05}", round * ROUND_KEYS + n).into_bytes()
}

fn value(round: u64) -> Vec<u8> {
    format!("value of round {round} ").repeat(5).into_bytes()
}

fn ours(path: &Path, limit: &str) -> pumice::Db {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.set_from_text(FAMILY).unwrap();
    options.set("compaction_options_fifo", &format!("{{max_table_files_size={limit}}}")).unwrap();
    let db = pumice::Db::open(&options, path).unwrap();
    let family = db.column_family_options(db.default_column_family()).unwrap();
    assert_eq!(family.compaction_style, CompactionStyle::Fifo);
    db
}

fn theirs(peer: &Peer, path: &Path, limit: &str) -> PeerDb {
    let mut options = PeerOptions::new(peer);
    options.set_many(FAMILY).unwrap();
    options.set("compaction_options_fifo", &format!("{{max_table_files_size={limit}}}")).unwrap();
    PeerDb::open(&options, path).unwrap()
}

fn write_ours(db: &pumice::Db, rounds: std::ops::Range<u64>) {
    for round in rounds {
        for n in 0..ROUND_KEYS {
            db.put_opt(&pumice::WriteOptions::default(), &key(round, n), &value(round)).unwrap();
        }
        // Every round overwrites one key, so that the order of files shows.
        db.put_opt(&pumice::WriteOptions::default(), b"newest", &value(round)).unwrap();
        db.flush_opt(&pumice::FlushOptions::default()).unwrap();
    }
}

fn write_theirs(db: &PeerDb, peer: &Peer, rounds: std::ops::Range<u64>) {
    let (wo, cf) = (WriteOptions::new(peer, &WriteSettings::default()), db.default_column_family());
    for round in rounds {
        for n in 0..ROUND_KEYS {
            db.put(&wo, cf, &key(round, n), &value(round)).unwrap();
        }
        db.put(&wo, cf, b"newest", &value(round)).unwrap();
        db.flush(cf).unwrap();
    }
}

/// The rounds whose keys are all there; panics on a round of which some are missing.
fn rounds_found(total: u64, mut get: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Vec<u64> {
    assert_eq!(get(b"newest"), Some(value(total - 1)));
    let mut whole = |round: &u64| {
        let found = (0..ROUND_KEYS).filter(|n| get(&key(*round, *n)) == Some(value(*round)));
        match found.count() as u64 {
            0 => false,
            ROUND_KEYS => true,
            some => panic!("{some} keys of round {round}"),
        }
    };
    (0..total).filter(|round| whole(round)).collect()
}

fn found_by_us(db: &pumice::Db, total: u64) -> Vec<u64> {
    let ro = pumice::ReadOptions::default();
    rounds_found(total, |key| db.get_opt(&ro, key).unwrap().map(|v| v.to_vec()))
}

fn found_by_them(db: &PeerDb, peer: &Peer, total: u64) -> Vec<u64> {
    let (ro, cf) = (ReadOptions::new(peer, &ReadSettings::default()), db.default_column_family());
    let mut found = Vec::new();
    rounds_found(total, |key| db.get(&ro, cf, key, &mut found).unwrap().then(|| found.clone()))
}

// Plain #[test]: RocksDB blocks its thread.
#[test]
fn a_fifo_database_goes_to_rocksdb_and_back() {
    let Some(peer) = super::peer() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = ours(&path, "100M");
    write_ours(&db, 0..12);
    assert_eq!(found_by_us(&db, 12), (0..12).collect::<Vec<_>>());
    db.close().unwrap();

    let db = theirs(&peer, &path, "100M");
    assert_eq!(found_by_them(&db, &peer, 12), (0..12).collect::<Vec<_>>());
    write_theirs(&db, &peer, 12..20);
    assert_eq!(db.live_files().len(), 20);
    drop(db);

    let db = ours(&path, "100M");
    assert_eq!(found_by_us(&db, 20), (0..20).collect::<Vec<_>>());
    let size = db.live_files_metadata().iter().map(|f| f.size).max().unwrap();
    assert_eq!(db.live_files_metadata().len(), 20);
    db.close().unwrap();

    // Room for ten of the files: RocksDB drops the oldest, then Pumice the oldest of the rest.
    let db = theirs(&peer, &path, &(size * 10 + size / 2).to_string());
    write_theirs(&db, &peer, 20..21);
    db.wait_for_compact(true).unwrap();
    let left = found_by_them(&db, &peer, 21);
    assert_eq!(left, (21 - left.len() as u64..21).collect::<Vec<_>>());
    assert!((9..=11).contains(&left.len()), "{left:?}");
    drop(db);
    let db = ours(&path, &(size * 5 + size / 2).to_string());
    write_ours(&db, 21..22);
    db.wait_for_compact(&pumice::WaitForCompactOptions::default()).unwrap();
    let left = found_by_us(&db, 22);
    assert_eq!(left, (22 - left.len() as u64..22).collect::<Vec<_>>());
    assert!((4..=6).contains(&left.len()), "{left:?}");
    db.close().unwrap();
    let db = theirs(&peer, &path, "100M");
    assert_eq!(found_by_them(&db, &peer, 22), left);
}
