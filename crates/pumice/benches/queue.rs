//! A queue of keys: each round puts one at the back, seeks the first and deletes it.
//!
//! `cargo bench -p pumice --bench queue -- DIRECTORY ROUNDS [rocksdb]` prints the mean time of a
//! round at growing numbers of rounds, with the database closed and opened between, for this engine
//! or for RocksDB's library. Keys have 8 bytes and values 50; the queue holds 100.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;

use pumice::{Db, Options};
use pumice_peer::{
    Peer, ReadOptions as PeerRead, ReadSettings, WriteOptions as PeerWrite, WriteSettings,
};
use pumice_port::time::now_micros;

/// Keys in the queue.
const LEN: u64 = 100;

/// What a round needs.
trait Engine {
    fn put(&self, key: &[u8]);
    fn delete(&self, key: &[u8]);
    fn first(&self) -> Vec<u8>;
}

impl Engine for Db {
    fn put(&self, key: &[u8]) {
        Db::put(self, key, [7; 50]).unwrap();
    }
    fn delete(&self, key: &[u8]) {
        Db::delete(self, key).unwrap();
    }
    fn first(&self) -> Vec<u8> {
        let mut cursor = self.cursor().unwrap();
        cursor.seek_to_first();
        cursor.key().unwrap().to_vec()
    }
}

struct RocksDb(Peer, pumice_peer::Db);

impl Engine for RocksDb {
    fn put(&self, key: &[u8]) {
        let write = PeerWrite::new(&self.0, &WriteSettings::default());
        self.1.put(&write, self.1.default_column_family(), key, &[7; 50]).unwrap();
    }
    fn delete(&self, key: &[u8]) {
        let write = PeerWrite::new(&self.0, &WriteSettings::default());
        self.1.delete(&write, self.1.default_column_family(), key).unwrap();
    }
    fn first(&self) -> Vec<u8> {
        let read = PeerRead::new(&self.0, &ReadSettings::default());
        let mut cursor = self.1.iter(&read, self.1.default_column_family());
        cursor.seek_to_first();
        cursor.key().to_vec()
    }
}

fn open(path: &Path, rocksdb: bool) -> Box<dyn Engine> {
    if rocksdb {
        let peer = Peer::load(pumice_peer::installed_library().unwrap()).unwrap();
        let mut options = pumice_peer::Options::new(&peer);
        options.set_many("create_if_missing=true").unwrap();
        let db = pumice_peer::Db::open(&options, path).unwrap();
        return Box::new(RocksDb(peer, db));
    }
    let mut options = Options::default();
    options.db.create_if_missing = true;
    Box::new(Db::open(&options, path).unwrap())
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let Some(dir) = args.next() else { return println!("queue: no directory is named") };
    let rounds: u64 = args.next().map_or(10_000, |text| text.parse().unwrap());
    let rocksdb = args.next().is_some();
    let dir = Path::new(&dir);
    let mut engine = open(dir, rocksdb);
    (0..LEN).for_each(|n| engine.put(&n.to_be_bytes()));
    let (mut done, mut until) = (0, 1000);
    while done < rounds {
        let (started, first) = (now_micros(), done);
        while done < until.min(rounds) {
            engine.put(&(done + LEN).to_be_bytes());
            let front = engine.first();
            assert_eq!(front, done.to_be_bytes());
            engine.delete(&front);
            done += 1;
        }
        let micros = (now_micros() - started) as f64 / (done - first) as f64;
        println!("rounds {first} to {done}: {micros:.2} us each");
        until *= 2;
        drop(engine);
        engine = open(dir, rocksdb);
    }
}
