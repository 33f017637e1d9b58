//! `daily_offpeak_time_utc`: both engines accept the same texts and refuse the same with the same
//! error.

use std::path::Path;

use pumice_peer::{Db as PeerDb, Options as PeerOptions, Peer};

use crate::peer;

fn ours(path: &Path, text: &str) -> Option<String> {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.db.daily_offpeak_time_utc = text.to_string();
    pumice::Db::open(&options, path).err().map(|error| error.to_string())
}

fn theirs(peer: &Peer, path: &Path, text: &str) -> Option<String> {
    let mut options = PeerOptions::new(peer);
    options.set_many("create_if_missing=true;allow_fallocate=false").unwrap();
    options.set("daily_offpeak_time_utc", text).unwrap();
    PeerDb::open(&options, path).err().map(|error| error.to_string())
}

#[pumice_test_macros::test]
fn hours_are_checked_as_in_rocksdb() {
    let Some(peer) = peer() else { return };
    let texts = [
        ("", true),
        ("06:30-11:30", true),
        ("00:00-23:59", true),
        ("23:30-01:15", true),
        ("6:3-7:4", true),
        ("1:0000000000000-2:000000000042", true),
        ("06:30-06:30", false),
        ("06:30-", false),
        ("-06:30", false),
        ("06:30", false),
        ("06:30-23:60", false),
        ("12:30-24:00", false),
        ("06:30-07:30-08:30", false),
        ("6-7", false),
        ("6:-7", false),
        ("6:0-7:", false),
        (":00-00:02", false),
        ("15:0.2-3:.7", false),
        ("No:No-Hi:Hi", false),
        ("random", false),
    ];
    for (text, good) in texts {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let mine = ours(&dir.path().join("ours"), text);
        let other = theirs(&peer, &dir.path().join("theirs"), text);
        // Ours names the option, which RocksDB's text leaves out in one case.
        let words = |error: Option<String>| {
            error.map(|error| error.replace("argument: daily_offpeak_time_utc: ", "argument: "))
        };
        assert_eq!(words(mine.clone()), words(other), "{text:?}");
        assert_eq!(mine.is_none(), good, "{text:?}: {mine:?}");
    }
}
