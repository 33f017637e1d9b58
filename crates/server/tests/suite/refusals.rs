//! Commands of a transaction that are refused halfway: EXEC goes on, and nothing of them is
//! written, counted or published.

use std::path::Path;
use std::sync::Arc;

use pumice::{MemFs, Options};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_server::keyspace::txn::Txn;

use super::{Quiet, text};

/// Everything in the engine but its numbers of generations.
fn data(server: &Quiet) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = server.shared.keyspace.db().cursor().unwrap();
    cursor.seek_to_first();
    let mut all = Vec::new();
    while cursor.valid() {
        if !cursor.key().unwrap().starts_with(b"\xff\xff") {
            all.push((cursor.key().unwrap().to_vec(), cursor.value().unwrap().to_vec()));
        }
        cursor.next();
    }
    all
}

/// What commands find: keys of every type, and `bad`, whose record is in a newer layout.
const BEFORE: &[&str] = &[
    "SET s 1",
    "SET t 2",
    "SADD e a b c d",
    "SADD f c d",
    "RPUSH l 3 1 2 1",
    "RPUSH {l}m x y",
    "ZADD z 1 a 2 b 3 c",
    "ZADD y 1 a",
    "HSET h f 1 g 2",
    "EXPIRE t 1000",
    "EXPIRE z 1000",
];

fn filled(fs: &Arc<MemFs>) -> Quiet {
    let mut options = Options::default();
    options.db.file_system = fs.clone();
    let server = Quiet::with(Path::new("/data"), options);
    let client = &mut server.client();
    for line in BEFORE {
        assert!(!server.say(client, line).starts_with('-'), "{line}");
    }
    let keyspace = &server.shared.keyspace;
    for name in ["bad", "{l}bad"] {
        let record = Txn::glance(keyspace, 0, 1).record_key(name.as_bytes());
        keyspace.db().put(&record, b"\x10").unwrap();
    }
    server
}

/// Each is refused because of its last part: a key that cannot be read, or holds another type.
const REFUSED: &[&str] = &[
    "MSET s 9 new 9 bad 9",
    "MSETNX new 9 bad 9",
    "DEL s e l z bad",
    "UNLINK e h bad",
    "SMOVE e bad a",
    "SMOVE e s a",
    "LMOVE l bad LEFT LEFT",
    "LMOVE l s RIGHT LEFT",
    "RPOPLPUSH l bad",
    "BLMOVE l bad LEFT RIGHT 0",
    "BRPOPLPUSH l s 0",
    "LMPOP 2 nothing bad LEFT",
    "BLPOP nothing bad 0",
    "ZMPOP 2 nothing bad MIN",
    "RENAME s bad",
    "RENAME l {l}bad",
    "RENAMENX s bad",
    "COPY l bad REPLACE",
    "COPY bad l REPLACE",
    "SORT l STORE bad",
    "SORT e STORE s",
    "SUNIONSTORE e e bad",
    "SUNIONSTORE bad e f",
    "SINTERSTORE e f bad",
    "SDIFFSTORE e f s",
    "ZUNIONSTORE z 2 z bad",
    "ZUNIONSTORE bad 2 z y",
    "ZINTERSTORE y 2 z s",
    "ZDIFFSTORE y 2 z bad",
    "ZRANGESTORE bad z 0 -1",
    "ZRANGESTORE z bad 0 -1",
    "SET bad 9 GET",
    "SET l 9 GET",
    "GETEX l EX 9",
    "GETDEL l",
    "GETSET l 9",
    "HSET h f 3 g",
    "ZADD z 9 a 9 b x c",
    "ZADD z INCR nan a",
    "INCRBY l 1",
    "HINCRBY h f 9223372036854775807",
    "EXPIRE bad 1",
    "SETRANGE l 1 x",
];

/// Each is refused since what it reads is more than a command may keep.
const TOO_LARGE: &[&str] = &[
    "COPY big s REPLACE",
    "RENAME big e",
    "RENAME biglist {l}m",
    "MOVE bigscores 1",
    "SORT biglist STORE l",
    "SUNIONSTORE e big f",
    "SDIFFSTORE f big e",
    "ZUNIONSTORE z 1 bigscores",
    "ZRANGESTORE y bigscores 0 -1",
    "ZREMRANGEBYRANK bigscores 0 -1",
    "ZPOPMIN bigscores 1000",
    "ZMPOP 1 bigscores MAX COUNT 1000",
    "SPOP big 1000",
    "LINSERT biglist BEFORE 500 x",
    "LREM biglist 1 500",
];

/// Carries each out between two others in a transaction; its own reply, and that nothing but what
/// the others wrote is there afterwards.
fn refused_between(server: &Quiet, line: &str) -> String {
    let client = &mut server.client();
    let before = data(server);
    let info = server.say(client, "INFO keyspace");
    let refused = server.say(&mut server.client(), line);
    assert!(refused.starts_with('-'), "{line}: {refused}");
    assert_eq!(data(server), before, "{line} alone");
    for queued in ["MULTI", "SET around 1", line, "DEL around"] {
        server.say(client, queued);
    }
    let reply = server.say(client, "EXEC");
    assert_eq!(reply, format!("*3|+OK|{refused}|:1"), "{line}");
    assert_eq!(data(server), before, "{line} in a transaction");
    assert_eq!(server.say(client, "INFO keyspace"), info, "{line}");
    refused
}

#[pumice_test_macros::test]
fn a_command_that_is_refused_halfway_leaves_nothing_in_a_transaction() {
    let server = filled(&Arc::new(MemFs::new(1)));
    for line in REFUSED {
        refused_between(&server, line);
    }
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn nor_does_one_that_reads_too_much() {
    let server = filled(&Arc::new(MemFs::new(1)));
    let client = &mut server.client();
    let long = "x".repeat(40);
    for number in 0..1000 {
        for line in [
            format!("SADD big {number}{long}"),
            format!("RPUSH biglist {number}"),
            format!("ZADD bigscores {number} {number}{long}"),
        ] {
            server.say(client, &line);
        }
    }
    server.shared.keyspace.set_room(8_000);
    for line in TOO_LARGE {
        let refused = refused_between(&server, line);
        assert!(refused.contains("needs more memory"), "{line}: {refused}");
    }
    server.shared.keyspace.close().unwrap();
}

/// What the commands before a refused one did stays, whatever it took back: values, ranges of a
/// collection, numbers of keys.
#[pumice_test_macros::test]
fn what_is_taken_back_is_what_the_refused_command_did() {
    let server = filled(&Arc::new(MemFs::new(1)));
    let client = &mut server.client();
    let many: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    server.say(client, &format!("SADD many {}", many.join(" ")));
    server.say(client, &format!("SADD more {}", many.join(" ")));
    for queued in [
        "MULTI",
        "SET s 5",
        "SADD new a",
        "DEL more",
        "SADD more again",
        "MSET s 6 t 6 new 6 many 6 more 6 bad 6",
        "DEL s new many more bad",
        "GET s",
        "SMEMBERS more",
        "SCARD many",
        "DBSIZE",
    ] {
        server.say(client, queued);
    }
    let reply = server.say(client, "EXEC");
    let unreadable = "-ERR unreadable record: written in a newer layout";
    let refused = format!("{unreadable}|{unreadable}");
    let wanted = format!("*10|+OK|:1|:1|:1|{refused}|$1|5|*1|$5|again|:100|:12");
    assert_eq!(reply, wanted);
    server.talk(client, &[("SCARD many", ":100"), ("SMEMBERS more", "*1|$5|again")]);
    server.talk(client, &[("TTL t", ":1000"), ("SMEMBERS new", "*1|$1|a"), ("DBSIZE", ":12")]);
    let info = server.say(client, "INFO keyspace");
    assert!(info.contains("keys=12,expires=2,"), "{info}");
    server.shared.keyspace.close().unwrap();
}

/// A transaction whose batch the engine refuses is refused as a whole.
#[pumice_test_macros::test]
fn a_batch_that_the_engine_refuses_leaves_nothing() {
    let fs = Arc::new(MemFs::new(1));
    let server = filled(&fs);
    let before = data(&server);
    fs.add_fault(FaultRule::always(FaultOp::Write, "*.log", Fault::Eio));
    for line in ["MSET s 9 t 9", "SMOVE e f a", "SORT l STORE s", "ZUNIONSTORE z 1 y", "RENAME s t"]
    {
        let client = &mut server.client();
        for queued in ["MULTI", "SELECT 1", "SET around 1", "SELECT 0", line] {
            server.say(client, queued);
        }
        let reply = text(&server.ask(client, &["EXEC"]));
        assert!(reply.starts_with("-MISCONF ") && !reply.contains('|'), "{line}: {reply}");
        assert_eq!(data(&server), before, "{line}");
        let info = server.say(client, "INFO keyspace");
        assert!(info.contains("keys=9,expires=2,") && !info.contains("db1"), "{info}");
    }
    server.shared.keyspace.close().ok();
}
