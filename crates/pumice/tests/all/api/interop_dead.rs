//! What flushes leave of deleted keys, read by RocksDB's library, and back.

use crate::common::{Scratch, contents, fill, flush, key};
use pumice::{Db, Options, WriteOptions};
use pumice_peer::{
    CompactRangeSettings, Peer, ReadOptions as PeerRead, ReadSettings, WriteOptions as PeerWrite,
    WriteSettings,
};

/// The keys that RocksDB shows, forwards and backwards.
fn shown(peer: &Peer, db: &pumice_peer::Db) -> [usize; 2] {
    let read = PeerRead::new(peer, &ReadSettings::default());
    let mut iter = db.iter(&read, db.default_column_family());
    let mut counts = [0; 2];
    iter.seek_to_first();
    while iter.valid() {
        counts[0] += 1;
        iter.next();
    }
    iter.seek_to_last();
    while iter.valid() {
        counts[1] += 1;
        iter.prev();
    }
    counts
}

/// A range in which our readers found nothing is a range tombstone in the file: RocksDB shows, and
/// after its compaction both engines show, what is there and what is written there later.
#[pumice_test_macros::test]
fn rocksdb_reads_what_a_flush_left_of_a_dead_range() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let dir = Scratch::new("dead");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, &dir.0).unwrap();
    fill(&db, 0..1000, "old");
    flush(&db);
    for n in 100..900 {
        db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
    }
    assert_eq!(contents(&db).len(), 200);
    flush(&db);
    db.put_opt(&WriteOptions::default(), &key(300), b"new").unwrap();
    let properties = db.property("rocksdb.aggregated-table-properties").unwrap();
    assert!(properties.contains("# range deletions=1;"), "{properties}");
    db.close().unwrap();
    drop(db);

    let settings = pumice_peer::Options::new(&peer);
    let theirs = pumice_peer::Db::open(&settings, &dir.0).unwrap();
    assert_eq!(shown(&peer, &theirs), [201, 201]);
    let cf = theirs.default_column_family().clone();
    let write = PeerWrite::new(&peer, &WriteSettings::default());
    theirs.put(&write, &cf, &key(400), b"theirs").unwrap();
    theirs.compact_range(&cf, None, None, &CompactRangeSettings::default());
    assert_eq!(shown(&peer, &theirs), [202, 202]);
    drop(theirs);

    let db = Db::open(&options, &dir.0).unwrap();
    assert_eq!(contents(&db).len(), 202);
    db.close().unwrap();
}
