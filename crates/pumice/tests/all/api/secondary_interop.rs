//! Pumice as a secondary of the C library of 10.10.1, and the reverse, in one process. (In two
//! processes, with primaries that are killed, and Debian's ldb as a secondary of Pumice's:
//! `crates/cli/tests/ldb/secondary.rs`.)

use std::collections::BTreeMap;

use crate::common::{Scratch, let_files_go};
use pumice::{ColumnFamilyDescriptor, Db, Options, WriteBatch};
use pumice_peer::{CompactRangeSettings, Peer, ReadOptions, ReadSettings, WriteSettings};

const NAMES: [&str; 2] = ["default", "other"];

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A column family, a key range that is deleted in it, and keys that are put.
type Change = (usize, [Vec<u8>; 2], Vec<Vec<u8>>);

/// The primary's changes in round `round`, by column family: a deleted key range, and puts.
fn changes(round: usize) -> Vec<Change> {
    let key = |n: usize| format!("key{:03}", n % 60).into_bytes();
    let of = |cf: usize| {
        let from = round * 7 + cf;
        let puts = (from..from + 12).map(|n| key(n * 5)).collect();
        let mut bounds = [key(from), key(from + 3)];
        bounds.sort();
        (cf, bounds, puts)
    };
    vec![of(0), of(1)]
}

/// Of many lengths, so that records end anywhere in a block.
fn value_of(round: usize) -> String {
    format!("{round:03}").repeat(1 + round * 37 % 500)
}

fn contents_of_ours(db: &Db, cf: &pumice::ColumnFamily) -> Contents {
    db.iter_cf(cf).unwrap().map(|entry| entry.unwrap()).collect()
}

fn contents_of_theirs(
    peer: &Peer,
    db: &pumice_peer::Db,
    cf: &pumice_peer::ColumnFamily,
) -> Contents {
    let read = ReadOptions::new(peer, &ReadSettings::default());
    let mut cursor = db.iter(&read, cf);
    cursor.seek_to_first();
    let mut all = Contents::new();
    while cursor.valid() {
        all.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.next();
    }
    cursor.status().unwrap();
    all
}

fn their_options(peer: &Peer, more: &str) -> pumice_peer::Options {
    let mut options = pumice_peer::Options::new(peer);
    let text = "create_if_missing=true;create_missing_column_families=true;max_open_files=-1;\
                max_manifest_file_size=800;disable_auto_compactions=true;";
    options.set_many(&(text.to_string() + more)).unwrap();
    options
}

fn our_options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.max_manifest_file_size = 800;
    options.cf.disable_auto_compactions = true;
    options
}

fn our_families(options: &Options) -> [ColumnFamilyDescriptor; 2] {
    NAMES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()))
}

fn pumice_follows(peer: &Peer, more: &str) {
    let (dir, beside) = (Scratch::new("theirs"), Scratch::new("beside"));
    let their = their_options(peer, more);
    let families = NAMES.map(|name| (name, &their));
    let (primary, theirs) = pumice_peer::Db::open_cf(&their, &dir.0, &families, false).unwrap();
    let options = our_options();
    let (secondary, cfs) =
        Db::open_as_secondary(&options.db, &dir.0, &beside.0, &our_families(&options)).unwrap();
    let write = pumice_peer::WriteOptions::new(peer, &WriteSettings::default());
    for round in 0..30 {
        let mut batch = pumice_peer::WriteBatch::new(peer);
        for (cf, [begin, end], puts) in changes(round) {
            batch.delete_range(&theirs[cf], &begin, &end);
            let value = value_of(round);
            puts.iter().for_each(|key| batch.put(&theirs[cf], key, value.as_bytes()));
        }
        primary.write(&write, &batch).unwrap();
        match round % 6 {
            2 => theirs.iter().for_each(|cf| primary.flush(cf).unwrap()),
            3 => primary.flush(&theirs[1]).unwrap(),
            5 => theirs.iter().for_each(|cf| {
                primary.compact_range(cf, None, None, &CompactRangeSettings::default());
            }),
            _ => {}
        }
        secondary.try_catch_up_with_primary().unwrap();
        for (mine, their) in cfs.iter().zip(&theirs) {
            let expected = contents_of_theirs(peer, &primary, their);
            assert_eq!(contents_of_ours(&secondary, mine), expected, "{more}, round {round}");
        }
    }
    secondary.close().unwrap();
}

#[pumice_test_macros::test]
fn pumice_follows_what_rocksdb_writes() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    // A log that is used again has records of its earlier use after its end.
    for more in ["", "recycle_log_file_num=2"] {
        pumice_follows(&peer, more);
    }
}

/// A follower shows of each family what RocksDB has flushed, whatever is in the log.
#[pumice_test_macros::test]
fn a_follower_shows_what_rocksdb_has_flushed() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let (dir, own) = (Scratch::new("leads"), Scratch::new("follows"));
    let their = their_options(&peer, "");
    let families = NAMES.map(|name| (name, &their));
    let (leader, theirs) = pumice_peer::Db::open_cf(&their, &dir.0, &families, false).unwrap();
    let options = our_options();
    let (follower, cfs) =
        Db::open_as_follower(&options.db, &own.0, &dir.0, &our_families(&options)).unwrap();
    let write = pumice_peer::WriteOptions::new(&peer, &WriteSettings::default());
    let mut flushed = [Contents::new(), Contents::new()];
    for round in 0..30 {
        let mut batch = pumice_peer::WriteBatch::new(&peer);
        for (cf, [begin, end], puts) in changes(round) {
            batch.delete_range(&theirs[cf], &begin, &end);
            let value = value_of(round);
            puts.iter().for_each(|key| batch.put(&theirs[cf], key, value.as_bytes()));
        }
        leader.write(&write, &batch).unwrap();
        for (at, cf) in theirs.iter().enumerate() {
            match round % 6 {
                2 => leader.flush(cf).unwrap(),
                3 if at == 1 => leader.flush(cf).unwrap(),
                5 => leader.compact_range(cf, None, None, &CompactRangeSettings::default()),
                _ => continue,
            }
            flushed[at] = contents_of_theirs(&peer, &leader, cf);
        }
        follower.try_catch_up_with_primary().unwrap();
        for (mine, expected) in cfs.iter().zip(&flushed) {
            assert_eq!(contents_of_ours(&follower, mine), *expected, "round {round}");
        }
    }
    follower.close().unwrap();
}

/// After a flush a RocksDB secondary's memtables hide the tables until a record of the same family
/// arrives, also with a RocksDB primary. So each family gets a record here.
#[pumice_test_macros::test]
fn rocksdb_follows_what_pumice_writes() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let (dir, beside) = (Scratch::new("ours"), Scratch::new("beside"));
    let options = our_options();
    let (primary, ours) = Db::open_cf(&options.db, &dir.0, &our_families(&options)).unwrap();
    let their = their_options(&peer, "");
    let families = NAMES.map(|name| (name, &their));
    let (secondary, cfs) =
        pumice_peer::Db::open_as_secondary(&their, &dir.0, &beside.0, &families).unwrap();
    for round in 0..30 {
        let mut batch = WriteBatch::new();
        for (cf, [begin, end], puts) in changes(round) {
            batch.delete_range_cf(&ours[cf], &begin, &end);
            puts.iter().for_each(|key| batch.put_cf(&ours[cf], key, value_of(round)));
        }
        primary.write(&mut batch).unwrap();
        match round % 6 {
            2 => primary.flush_all().unwrap(),
            3 => primary.flush_cf(&ours[1]).unwrap(),
            5 => ours.iter().for_each(|cf| {
                primary.compact_range_cf(&Default::default(), cf, None, None).unwrap();
            }),
            _ => {}
        }
        ours.iter().for_each(|cf| primary.put_cf(cf, "round", round.to_string()).unwrap());
        secondary.try_catch_up_with_primary().unwrap();
        for (mine, their) in ours.iter().zip(&cfs) {
            let seen = contents_of_theirs(&peer, &secondary, their);
            assert_eq!(seen, contents_of_ours(&primary, mine), "round {round}");
        }
    }
    drop((cfs, secondary));
    primary.close().unwrap();
}

/// After a flush of ours a secondary of 10.10.1 finds the old content of its memtables, family by
/// family, until it reads a record of that family.
#[pumice_test_macros::test]
fn rocksdb_shows_a_flush_once_a_record_follows_it() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let (dir, beside) = (Scratch::new("flushed"), Scratch::new("beside"));
    let options = our_options();
    let (primary, ours) = Db::open_cf(&options.db, &dir.0, &our_families(&options)).unwrap();
    ours.iter().for_each(|cf| primary.put_cf(cf, "k", "old").unwrap());
    let their = their_options(&peer, "");
    let families = NAMES.map(|name| (name, &their));
    let (secondary, cfs) =
        pumice_peer::Db::open_as_secondary(&their, &dir.0, &beside.0, &families).unwrap();
    let read = ReadOptions::new(&peer, &ReadSettings::default());
    let shown = || {
        secondary.try_catch_up_with_primary().unwrap();
        let mut value = Vec::new();
        let get = |cf| {
            assert!(secondary.get(&read, cf, b"k", &mut value).unwrap());
            String::from_utf8_lossy(&value).into_owned()
        };
        cfs.iter().map(get).collect::<Vec<_>>()
    };
    assert_eq!(shown(), ["old", "old"]);
    ours.iter().for_each(|cf| primary.put_cf(cf, "k", "new").unwrap());
    primary.flush_all().unwrap();
    let_files_go(&primary);
    assert_eq!(shown(), ["old", "old"]);
    primary.put_cf(&ours[0], "other", "record").unwrap();
    assert_eq!(shown(), ["new", "old"]);
    primary.put_cf(&ours[1], "other", "record").unwrap();
    assert_eq!(shown(), ["new", "new"]);
    drop((cfs, secondary));
    primary.close().unwrap();
}
