//! `compaction_pri=kRoundRobin`: the cursors of both engines are in the MANIFEST, outlive a close,
//! and pass from one to the other.

use std::path::Path;
use std::process::Command;

use pumice_base::random::Rng;
use pumice_peer::{Db as PeerDb, Options as PeerOptions};
use pumice_peer::{ReadOptions, ReadSettings, WriteOptions, WriteSettings};

use crate::peer;

const OPTIONS: &str = "create_if_missing=true;allow_fallocate=false;compression=kNoCompression;\
    compaction_pri=kRoundRobin;level_compaction_dynamic_level_bytes=false;\
    level0_file_num_compaction_trigger=2;write_buffer_size=65536;target_file_size_base=20000;\
    max_bytes_for_level_base=80000;max_bytes_for_level_multiplier=4";
const KEYS: u64 = 20_000;

fn entries(round: u64) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut rng = Rng::new(round);
    (0..KEYS).map(move |_| {
        (format!("key{:06}", rng.uniform(KEYS)).into_bytes(), format!("{round:030}").into_bytes())
    })
}

/// The levels with a cursor in the newest MANIFEST, with the last one: as Debian's ldb reads it.
fn cursors(path: &Path) -> std::collections::BTreeMap<u32, String> {
    let current = std::fs::read_to_string(path.join("CURRENT")).unwrap();
    let manifest = path.join(current.trim());
    let argument = format!("--path={}", manifest.display());
    let out = Command::new("ldb").args(["manifest_dump", "--verbose", &argument]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("CompactCursor: "));
    lines
        .map(|line| {
            let (level, key) = line.split_once(' ').unwrap();
            (level.parse().unwrap(), key.to_string())
        })
        .collect()
}

/// Writes a round, or only opens the database; the number of its keys.
fn ours(path: &Path, round: Option<u64>) -> u64 {
    let mut options = pumice::Options::default();
    options.set_from_text(OPTIONS).unwrap();
    options.cf.disable_auto_compactions = round.is_none();
    let db = pumice::Db::open(&options, path).unwrap();
    for (key, value) in round.into_iter().flat_map(entries) {
        db.put_opt(&pumice::WriteOptions::default(), &key, &value).unwrap();
    }
    db.wait_for_compact(&pumice::WaitForCompactOptions::default()).unwrap();
    let mut iter = db.cursor_opt(&pumice::ReadOptions::default()).unwrap();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next();
    }
    iter.status().unwrap();
    drop(iter);
    db.close().unwrap();
    count
}

#[pumice_test_macros::test]
fn cursors_outlive_a_close_and_change_hands() {
    let Some(peer) = peer() else { return };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path();
    ours(path, Some(1));
    let first = cursors(path);
    assert!(first.contains_key(&1) && first.contains_key(&2), "{first:?}");
    let quiet = ours(path, None);
    assert_eq!(cursors(path), first, "a new MANIFEST has them");
    {
        let mut options = PeerOptions::new(&peer);
        options.set_many(OPTIONS).unwrap();
        let db = PeerDb::open(&options, path).unwrap();
        let (wo, cf) =
            (WriteOptions::new(&peer, &WriteSettings::default()), db.default_column_family());
        assert!(cursors(path).contains_key(&2), "RocksDB takes them over");
        for (key, value) in entries(2) {
            db.put(&wo, cf, &key, &value).unwrap();
        }
        db.wait_for_compact(true).unwrap();
        let ro = ReadOptions::new(&peer, &ReadSettings::default());
        let mut iter = db.iter(&ro, cf);
        iter.seek_to_first();
        assert!(iter.valid());
    }
    let theirs = cursors(path);
    assert!(theirs.contains_key(&1) && theirs != first, "{theirs:?}");
    assert!(ours(path, None) > quiet);
    assert_eq!(cursors(path), theirs, "so does Pumice");
    ours(path, Some(3));
    assert_ne!(cursors(path), theirs);
}
