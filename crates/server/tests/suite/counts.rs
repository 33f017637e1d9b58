//! What INFO says about how many keys there are, and how many of them expire.

use std::path::Path;
use std::sync::Arc;

use pumice::{Db, MemFs, Options, WriteOptions};
use pumice_env::mem::CrashMode;

use super::{Client, Quiet, Scratch};

/// The line of INFO about a database, without its name; empty if it has no key.
fn line(server: &Quiet, client: &mut Client, db: u8) -> String {
    let text = server.say(client, "INFO keyspace");
    let start = format!("db{db}:");
    let line = text.split('|').find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_default().to_string()
}

/// Asserts that database 0 has `keys` keys, of which `expires` expire.
fn has(server: &Quiet, client: &mut Client, keys: u64, expires: u64, after: &str) {
    let wanted = format!("keys={keys},expires={expires},avg_ttl=0");
    let wanted = if keys == 0 { String::new() } else { wanted };
    assert_eq!(line(server, client, 0), wanted, "{after}");
}

/// Commands that set or remove the expiry of keys, and the counts after each.
const STEPS: &[(&str, u64, u64)] = &[
    ("SET a 1", 1, 0),
    ("SET a 1 EX 100", 1, 1),
    ("EXPIRE a 200", 1, 1),
    ("SET a 2 KEEPTTL", 1, 1),
    ("APPEND a 3", 1, 1),
    ("GETEX a PERSIST", 1, 0),
    ("PERSIST a", 1, 0),
    ("GETEX a EX 10", 1, 1),
    ("GETSET a 1", 1, 0),
    ("PEXPIRE a 5000", 1, 1),
    ("PEXPIRE a -1", 0, 0),
    ("SETEX a 100 1", 1, 1),
    ("GETDEL a", 0, 0),
    ("RPUSH l 1 2 3", 1, 0),
    ("EXPIRE l 100", 1, 1),
    ("RPUSH l 4", 1, 1),
    ("LPOP l 4", 0, 0),
    ("HSET h f 1", 1, 0),
    ("EXPIRE h 100", 1, 1),
    ("SET h 1", 1, 0),
    ("EXPIRE h 100", 1, 1),
    ("COPY h i", 2, 2),
    ("RENAME h i", 1, 1),
    ("SADD {i}s 1", 2, 1),
    ("EXPIRE {i}s 100", 2, 2),
    ("RENAME {i}s {i}t", 2, 2),
    ("COPY {i}t {j}t", 3, 3),
    ("RENAME {i}t i", 2, 2),
    ("SDIFFSTORE i {j}t nothing", 2, 1),
    ("ZADD z 1 a", 3, 1),
    ("EXPIRE z 100", 3, 2),
    ("ZUNIONSTORE z 1 z", 3, 1),
    ("SORT i STORE {j}t", 3, 0),
    ("EXPIRE i 100", 3, 1),
    ("MOVE i 1", 2, 0),
    ("EXPIRE z 100", 2, 1),
    ("SWAPDB 0 1", 1, 1),
    ("SWAPDB 0 1", 2, 1),
    ("MSET z 1 y 2", 3, 0),
    ("EXPIRE y 1000", 3, 1),
    ("FLUSHDB", 0, 0),
    ("SET a 1 EX 100", 1, 1),
    ("FLUSHALL", 0, 0),
];

#[pumice_test_macros::test]
fn info_tells_how_many_keys_expire() {
    let scratch = Scratch::new("expires");
    let mut server = Quiet::open(scratch.path());
    let client = &mut server.client();
    for (command, keys, expires) in STEPS {
        server.say(client, command);
        has(&server, client, *keys, *expires, command);
    }
    // What was not written is not counted; a transaction counts as a whole.
    server.talk(client, &[("MULTI", "+OK"), ("SET a 1 EX 9", "+QUEUED"), ("PERSIST a", "+QUEUED")]);
    server.say(client, "SET b 1 EX 9");
    has(&server, client, 0, 0, "queued");
    server.say(client, "EXEC");
    has(&server, client, 2, 1, "EXEC");
    // Expired, and counted until it is accessed.
    server.now += 9_000;
    has(&server, client, 2, 1, "later");
    server.talk(client, &[("SET b 2 XX", "$-1")]);
    has(&server, client, 1, 0, "access");
    server.shared.keyspace.close().unwrap();
}

/// A clean shutdown saves the counts; otherwise, and where an earlier form has only the number of
/// keys, everything is counted.
#[pumice_test_macros::test]
fn the_counts_outlive_every_end() {
    const SAVED: &[u8] = b"\xff\xffcounts";
    let fs = Arc::new(MemFs::new(1));
    let options = |fs: &Arc<MemFs>| {
        let mut options = Options::default();
        options.db.file_system = fs.clone();
        options
    };
    let (dir, db) = (Path::new("/data"), Path::new("/data/db"));
    let fill = |server: &Quiet| {
        let client = &mut server.client();
        for number in 0..20 {
            server.say(client, &format!("SET s{number} v"));
            server.say(client, &format!("SADD e{number} a b"));
        }
        for number in 0..7 {
            server.say(client, &format!("EXPIRE e{number} 1000"));
            server.say(client, &format!("EXPIRE s{number} 1000"));
        }
        server.say(client, "SELECT 3");
        server.say(client, "SET k v EX 1");
    };
    let check = |server: &Quiet| {
        let client = &mut server.client();
        has(server, client, 40, 14, "start");
        assert_eq!(line(server, client, 3), "keys=1,expires=1,avg_ttl=0");
        let saved = server.shared.keyspace.db().get(SAVED).unwrap();
        assert!(saved.is_none(), "valid until the next write only");
    };
    let server = Quiet::with(dir, options(&fs));
    fill(&server);
    server.shared.keyspace.sync().unwrap();
    let crashed = Arc::new(fs.crashed_copy(1, CrashMode::UNSYNCED));
    server.shared.keyspace.close().unwrap();
    for fs in [fs.clone(), crashed] {
        let server = Quiet::with(dir, options(&fs));
        check(&server);
        server.shared.keyspace.close().unwrap();
    }
    let engine = Db::open(&options(&fs), db).unwrap();
    let saved = engine.get(SAVED).unwrap().unwrap();
    assert_eq!(saved.len(), 2 * 256 * 8);
    engine.put_opt(&WriteOptions::default(), SAVED, &saved[..256 * 8]).unwrap();
    engine.close().unwrap();
    let server = Quiet::with(dir, options(&fs));
    check(&server);
    server.shared.keyspace.close().unwrap();
}
