//! Keys that nobody touches, what they leave behind, and the space that it takes.
//!
//! `PUMICE_SEED=N` replays a seed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pumice::{MemFs, Options};
use pumice_server::keyspace::space::Space;

use super::connections::{Caller, start};
use super::peer::number;
use super::{Quiet, Random, Scratch};

fn open(fs: &Arc<MemFs>) -> Quiet {
    let mut options = Options::default();
    options.db.file_system = fs.clone();
    Quiet::with(Path::new("/data"), options)
}

/// Looks for expired keys, `keys_max` at a time, until it has looked everywhere.
fn expire(server: &Quiet, keys_max: usize) -> usize {
    let events = Cell::new(0);
    let mut deleted = 0;
    for _ in 0..100_000 {
        let round = server.shared.keyspace.expire(server.now, keys_max, |some| {
            assert!(some.iter().all(|event| event.name == "expired"));
            events.set(events.get() + some.len());
            server.shared.notify(some);
        });
        let round = round.unwrap();
        deleted += round.deleted;
        if !round.is_behind && round.deleted == 0 {
            break;
        }
    }
    assert_eq!(deleted, events.get());
    deleted
}

#[pumice_test_macros::test]
fn keys_that_nobody_touches_expire() {
    let fs = Arc::new(MemFs::new(1));
    let mut server = open(&fs);
    for life in 0..3 {
        let client = &mut server.client();
        for n in 0..1000 {
            // Many in one slot, among others that stay.
            let tag = if n % 2 == 0 { "{tag}" } else { "" };
            server.say(client, &format!("SET {tag}short{n} v PX 500"));
            server.say(client, &format!("SET {tag}long{n} v PX 1000000"));
            server.say(client, &format!("SET {tag}stays{n} v"));
        }
        server.talk(client, &[("SADD s a b c", ":3"), ("PEXPIRE s 500", ":1")]);
        assert_eq!(expire(&server, 5000), 0);
        if life > 0 {
            // What expires where is not known any more. With a clean end counts are; without
            // it all keys are read.
            if life == 1 {
                server.shared.keyspace.close().unwrap();
            } else {
                server.shared.keyspace.db().close().unwrap();
            }
            let now = server.now;
            server = open(&fs);
            server.now = now;
        }
        let client = &mut server.client();
        server.talk(client, &[("DBSIZE", ":3001")]);
        // The slot of many keys is looked at again after a rest.
        server.now += 31_000;
        assert_eq!(expire(&server, [5000, 100, 7][life]), 1001);
        server.talk(client, &[("DBSIZE", ":2000"), ("EXISTS s long1 {tag}long2 stays3", ":3")]);
        if life < 2 {
            server.say(client, "FLUSHALL");
        }
    }
}

#[pumice_test_macros::test]
fn a_listener_learns_of_keys_that_nobody_touches() {
    let scratch = Scratch::new("untouched");
    let running = start(scratch.path(), &[("notify-keyspace-events", "Ex")]);
    let mut listener = Caller::to(&running);
    listener.send(b"SUBSCRIBE __keyevent@0__:expired\r\n");
    listener.until(":1\r\n");
    let mut caller = Caller::to(&running);
    for n in 100..200 {
        caller.line(&format!("SET key{n} v PX 20"));
    }
    let mut heard = String::new();
    while heard.matches("key1").count() < 100 {
        heard += &listener.until("\r\n");
    }
    assert_eq!(caller.line("DBSIZE"), ":0");
    running.stop().unwrap();
}

/// Keys of several types with drawn times, overwritten, moved, copied and kept: those that have
/// expired go, and no other.
#[pumice_test_macros::test]
fn what_expires_is_what_a_model_says() {
    let seed = number("PUMICE_SEED", 1);
    let random = &mut Random::new(seed);
    let fs = Arc::new(MemFs::new(1));
    let mut server = open(&fs);
    let mut model: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..40 {
        let client = &mut server.client();
        for _ in 0..150 {
            let name = |random: &mut Random| {
                let tag = if random.below(2) == 0 { "{t}" } else { "" };
                format!("{tag}k{}", random.below(300))
            };
            let (key, to) = (name(random), name(random));
            model.retain(|_, expires| *expires == 0 || *expires > server.now);
            let millis = random.below(20_000) + 1;
            let line = match random.below(9) {
                0 => format!("SET {key} v"),
                1 | 2 => format!("SET {key} v PX {millis}"),
                3 | 4 => format!("PEXPIRE {key} {millis}"),
                5 => format!("PERSIST {key}"),
                6 => format!("RENAME {key} {to}"),
                7 => format!("COPY {key} {to} REPLACE"),
                _ => format!("SADD {{new}}{key} member"),
            };
            server.say(client, &line);
            let at = server.now + millis;
            let old = model.get(&key).copied();
            match (line.split(' ').next().unwrap(), old) {
                ("SET", _) => drop(model.insert(key, if line.ends_with('v') { 0 } else { at })),
                ("SADD", _) => drop(model.entry(format!("{{new}}{key}")).or_insert(0)),
                ("PEXPIRE", Some(_)) => drop(model.insert(key, at)),
                ("PERSIST", Some(_)) => drop(model.insert(key, 0)),
                ("RENAME", Some(old)) => {
                    model.remove(&key);
                    model.insert(to, old);
                }
                ("COPY", Some(old)) if key != to => drop(model.insert(to, old)),
                _ => {}
            }
        }
        server.now += random.below(3000);
        expire(&server, 1 + random.below(300) as usize);
        if random.below(5) == 0 {
            // A rest is over by then.
            server.now += 30_001;
            model.retain(|_, expires| *expires == 0 || *expires > server.now);
            if random.below(2) == 0 {
                if random.below(2) == 0 {
                    server.shared.keyspace.close().unwrap();
                } else {
                    server.shared.keyspace.db().close().unwrap();
                }
                let now = server.now;
                server = open(&fs);
                server.now = now;
            }
            expire(&server, 1 + random.below(300) as usize);
            let client = &mut server.client();
            assert_eq!(server.say(client, "DBSIZE"), format!(":{}", model.len()), "seed {seed}");
            for key in model.keys() {
                server.talk(client, &[(&format!("EXISTS {key}"), ":1")]);
            }
        }
    }
}

/// Bytes of all tables.
fn table_bytes(server: &Quiet) -> u64 {
    let db = server.shared.keyspace.db();
    db.live_files_metadata().iter().map(|file| file.size).sum()
}

fn give_back(server: &Quiet) {
    let mut space = Space::default();
    // The first look only finds out how much has been written.
    space.look(&server.shared.keyspace).unwrap();
    for _ in 0..1000 {
        if !space.look(&server.shared.keyspace).unwrap() {
            return;
        }
    }
    panic!("there is always more to give back");
}

#[pumice_test_macros::test]
fn space_is_given_back_while_nobody_writes() {
    let fs = Arc::new(MemFs::new(1));
    let mut server = open(&fs);
    let value = "v".repeat(10_000);
    for (life, way) in ["FLUSHALL", "FLUSHDB", "expires", "DEL", "restart"].iter().enumerate() {
        let client = &mut server.client();
        server.say(client, "SET stays v");
        let mut random = Random::new(life as u64);
        for n in 0..300 {
            let value: String =
                value.chars().map(|_| (b'a' + random.below(26) as u8) as char).collect();
            server.say(client, &format!("SET key{n} {value} PX 1000"));
            server.say(client, &format!("RPUSH list {value}"));
        }
        let db = server.shared.keyspace.db();
        db.flush().unwrap();
        assert!(table_bytes(&server) > 3_000_000, "{way}");
        server.now += 31_000;
        match *way {
            "DEL" | "expires" => {
                server.say(client, "DEL list");
                expire(&server, 5000);
                server.talk(client, &[("DBSIZE", ":1")]);
                server.shared.keyspace.sweep(true).unwrap();
            }
            "restart" => {
                server.say(client, "FLUSHALL");
                server.shared.keyspace.close().unwrap();
                server = open(&fs);
            }
            command => drop(server.say(client, command)),
        }
        give_back(&server);
        let left = table_bytes(&server);
        assert!(left < 20_000, "{left} bytes after {way}");
    }
}

#[pumice_test_macros::test]
fn the_newest_checkpoints_are_kept() {
    let scratch = Scratch::new("checkpoints");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    let names = || {
        let entries = std::fs::read_dir(scratch.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.contains("checkpoint"));
        names.sort();
        names
    };
    let others = ["db-checkpoint-", "db-checkpoint-1x", "db2-checkpoint-1"];
    others.iter().for_each(|name| std::fs::create_dir(scratch.path().join(name)).unwrap());
    let mut last = Vec::new();
    for n in 0..5 {
        server.say(client, &format!("SET n {n}"));
        assert_eq!(server.say(client, "BGSAVE"), "+Background saving started");
        let found = names();
        assert_eq!(found.len(), others.len() + (n + 1).min(2), "{found:?}");
        assert_ne!(found, last);
        last = found;
    }
    server.talk(client, &[("CONFIG SET checkpoints-kept 0", "+OK"), ("SAVE", "+OK")]);
    server.talk(client, &[("SAVE", "+OK")]);
    assert_eq!(names().len(), others.len() + 4);
    // One that is in use stays, and hinders nobody.
    let oldest = names().into_iter().find(|name| name.len() > 20).unwrap();
    let open = pumice::Db::open(&Options::default(), scratch.path().join(&oldest)).unwrap();
    server.talk(client, &[("CONFIG SET checkpoints-kept 1", "+OK"), ("SAVE", "+OK")]);
    assert_eq!(names().len(), others.len() + 2);
    open.close().unwrap();
    server.talk(client, &[("SAVE", "+OK")]);
    assert_eq!(names().len(), others.len() + 1);
}
