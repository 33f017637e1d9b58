//! Pumice follows what the C library of 10.10.1 writes, in one process. (In two processes, with
//! primaries that are killed, and Debian's ldb as a secondary of Pumice's:
//! `crates/cli/tests/ldb/secondary.rs`.)

use std::collections::BTreeMap;
use std::path::PathBuf;

use pumice::{ColumnFamilyDescriptor, Db, Options};
use pumice_env::PosixFs;
use pumice_peer::{CompactRangeSettings, Peer, ReadOptions, ReadSettings, WriteSettings};

const NAMES: [&str; 2] = ["default", "other"];

/// A directory for a test, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("pumice-secondary-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        PosixFs::shared().create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // They are in the way of nobody.
        for name in ["d", "s"] {
            drop(Db::destroy(&Options::default(), self.0.join(name)));
        }
        drop(PosixFs::shared().remove_dir(&self.0));
    }
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A column family, a key range that is deleted in it, and keys that are put.
type Change = (usize, [Vec<u8>; 2], Vec<Vec<u8>>);

/// What the primary is told to do in round `round`, by column family: a key range that is
/// deleted, and puts.
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

fn their_options(peer: &Peer) -> pumice_peer::Options {
    let mut options = pumice_peer::Options::new(peer);
    let text = "create_if_missing=true;create_missing_column_families=true;max_open_files=-1;\
                max_manifest_file_size=800;disable_auto_compactions=true";
    options.set_many(text).unwrap();
    options
}

fn our_options() -> Options {
    let mut options = Options::default();
    options.cf.disable_auto_compactions = true;
    options
}

#[pumice_test_macros::test]
fn pumice_follows_what_rocksdb_writes() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let dir = Scratch::new("theirs");
    let path = dir.0.join("d");
    let their = their_options(&peer);
    let families = NAMES.map(|name| (name, &their));
    let (primary, theirs) = pumice_peer::Db::open_cf(&their, &path, &families, false).unwrap();
    let options = our_options();
    let family = |name: &str| ColumnFamilyDescriptor::new(name, options.cf.clone());
    let beside = dir.0.join("s");
    let (secondary, cfs) =
        Db::open_as_secondary(&options.db, &path, &beside, &NAMES.map(family)).unwrap();
    let write = pumice_peer::WriteOptions::new(&peer, &WriteSettings::default());
    for round in 0..30 {
        let mut batch = pumice_peer::WriteBatch::new(&peer);
        for (cf, [begin, end], puts) in changes(round) {
            batch.delete_range(&theirs[cf], &begin, &end);
            let value = round.to_string();
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
            let expected = contents_of_theirs(&peer, &primary, their);
            assert_eq!(contents_of_ours(&secondary, mine), expected, "round {round}");
        }
    }
    secondary.close().unwrap();
}
