//! Strings and keys of any type, reply by reply.

use super::{Quiet, Scratch};

#[pumice_test_macros::test]
fn strings_answer_as_redis_does() {
    let scratch = Scratch::new("strings");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    server.talk(
        client,
        &[
            ("GET a", "$-1"),
            ("SET a 1", "+OK"),
            ("get a", "$1|1"),
            ("SET a 2 NX", "$-1"),
            ("SET b 2 XX", "$-1"),
            ("SET a 3 XX GET", "$1|1"),
            ("SET a 3 NX XX", "-ERR syntax error"),
            ("SET a 3 EX 0", "-ERR invalid expire time in 'set' command"),
            ("SET a 3 EX x", "-ERR value is not an integer or out of range"),
            ("SET a 3 EX 1 PX 1", "-ERR syntax error"),
            ("SET a 3 EX 10 KEEPTTL", "-ERR syntax error"),
            ("INCR a", ":4"),
            ("INCRBY a -10", ":-6"),
            ("DECRBY a -9223372036854775808", "-ERR decrement would overflow"),
            ("SET n 9223372036854775807", "+OK"),
            ("INCR n", "-ERR increment or decrement would overflow"),
            ("INCRBYFLOAT f 10.5", "$4|10.5"),
            ("INCRBYFLOAT f 0.1", "$4|10.6"),
            ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"),
            ("SET f inf", "+OK"),
            ("INCRBYFLOAT f 1", "-ERR increment would produce NaN or Infinity"),
            ("ZADD zeros 0 z -1 a 0 b", ":3"),
            ("ZUNION 1 zeros WEIGHTS 0", "*3|$1|a|$1|b|$1|z"),
            ("ZADD zeros 1e-400 x", "-ERR value is not a valid float"),
            ("APPEND s Hello", ":5"),
            ("APPEND s World", ":10"),
            ("INCR s", "-ERR value is not an integer or out of range"),
            ("GETRANGE s 0 4", "$5|Hello"),
            ("GETRANGE s -3 -1", "$3|rld"),
            ("GETRANGE s 5 2", "$0"),
            ("SETRANGE s 12 !", ":13"),
            ("STRLEN s", ":13"),
            ("MSET x 1 y 2 x 3", "+OK"),
            ("MGET x y z s", "*4|$1|3|$1|2|$-1|$13|HelloWorld\0\0!"),
            ("MSETNX p 1 x 1", ":0"),
            ("MSETNX p 1 q 1", ":1"),
            ("MSET x", "-ERR wrong number of arguments for 'mset' command"),
            ("GETDEL p", "$1|1"),
            ("EXISTS p q q", ":2"),
            ("GETSET q 2", "$1|1"),
            ("LCS x y", "$0"),
            ("SUBSTR s 0 0", "$1|H"),
            ("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("CONFIG NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP."),
            ("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command"),
        ],
    );
}

#[pumice_test_macros::test]
fn keys_expire_by_the_clock_that_is_passed_in() {
    let scratch = Scratch::new("expire");
    let mut server = Quiet::open(scratch.path());
    let client = &mut server.client();
    server.talk(
        client,
        &[
            ("SET a 1 PX 1500", "+OK"),
            ("PTTL a", ":1500"),
            ("TTL a", ":2"),
            ("SET b 1", "+OK"),
            ("TTL b", ":-1"),
            ("TTL c", ":-2"),
            ("EXPIRE b 10 XX", ":0"),
            ("EXPIRE b 10 NX", ":1"),
            ("EXPIRE b 5 GT", ":0"),
            ("EXPIRE b 20 GT", ":1"),
            (
                "EXPIRE b 10 NX GT",
                "-ERR NX and XX, GT or LT options at the same time are not compatible",
            ),
            ("EXPIRE b 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
            ("EXPIRETIME b", ":1700000020"),
            ("SET k 1 EX 100", "+OK"),
            ("SET k 2 KEEPTTL", "+OK"),
            ("TTL k", ":100"),
            ("APPEND k x", ":2"),
            ("TTL k", ":100"),
            ("PERSIST k", ":1"),
            ("PERSIST k", ":0"),
            ("GETEX k PX 500", "$2|2x"),
            ("DBSIZE", ":3"),
        ],
    );
    server.now += 1500;
    server.talk(
        client,
        &[
            ("GET a", "$-1"),
            ("EXISTS a b", ":1"),
            ("TYPE a", "+none"),
            // Expired keys are counted until they are deleted.
            ("DBSIZE", ":3"),
            ("SET k new NX", "+OK"),
            ("DBSIZE", ":3"),
            ("EXPIRE b -1", ":1"),
            ("DBSIZE", ":2"),
        ],
    );
    let all_expired = |events: &[pumice_server::keyspace::txn::Event]| {
        assert!(events.iter().all(|event| event.name == "expired" && event.key == b"a"));
    };
    server.shared.keyspace.reap(server.now, 10, all_expired).unwrap();
    server.talk(client, &[("DBSIZE", ":1"), ("KEYS *", "*1|$1|k")]);
}

#[pumice_test_macros::test]
fn compactions_find_what_nobody_asks_for() {
    let scratch = Scratch::new("compaction");
    let mut server = Quiet::open(scratch.path());
    let client = &mut server.client();
    for i in 0..50 {
        server.say(client, &format!("SET k{i} v PX {}", if i < 40 { 100 } else { 100_000 }));
    }
    server.now += 1000;
    server.say(client, "GET nothing");
    let db = server.shared.keyspace.db();
    db.compact_range(&Default::default(), None, None).unwrap();
    assert_eq!(server.shared.keyspace.reap(server.now, 1000, |_| ()).unwrap(), 40);
    server.talk(client, &[("DBSIZE", ":10")]);
}

#[pumice_test_macros::test]
fn databases_change_places_for_good() {
    let scratch = Scratch::new("swap");
    let mut server = Quiet::open(scratch.path());
    let (one, two) = (&mut server.client(), &mut server.client());
    server.talk(one, &[("SET a 0", "+OK"), ("RPUSH l x", ":1"), ("SELECT 1", "+OK")]);
    server.talk(
        one,
        &[("SET a 1", "+OK"), ("WATCH a", "+OK"), ("MULTI", "+OK"), ("PING", "+QUEUED")],
    );
    server.talk(
        two,
        &[("SWAPDB 0 1", "+OK"), ("GET a", "$1|1"), ("DBSIZE", ":1"), ("KEYS *", "*1|$1|a")],
    );
    server.talk(one, &[("EXEC", "*-1"), ("GET a", "$1|0"), ("LRANGE l 0 -1", "*1|$1|x")]);
    server.talk(one, &[("DBSIZE", ":2"), ("SELECT 0", "+OK"), ("BLPOP l 0", "")]);
    // Within a transaction too; and a blocked client gets the new elements.
    let queue = ["MULTI", "SWAPDB 0 1", "SWAPDB 0 2", "GET a", "SET b 1", "DBSIZE", "SWAPDB 0 2"];
    queue.iter().for_each(|line| drop(server.say(two, line)));
    server.talk(
        two,
        &[("EXEC", "*6|+OK|+OK|$-1|+OK|:1|+OK"), ("SELECT 2", "+OK"), ("GET b", "$1|1")],
    );
    let waiter = one.session.waiter.take().unwrap();
    assert_eq!(super::text(&waiter.reply().unwrap()), "*2|$1|l|$1|x");
    for life in 0..2 {
        if life == 1 {
            // As after a crash: keys are recounted.
            server.shared.keyspace.db().close().unwrap();
        } else {
            server.shared.keyspace.close().unwrap();
        }
        server = Quiet::open(scratch.path());
        let client = &mut server.client();
        server.talk(client, &[("GET a", "$1|0"), ("DBSIZE", ":1"), ("SELECT 1", "+OK")]);
        server.talk(client, &[("GET a", "$1|1"), ("DBSIZE", ":1"), ("FLUSHDB", "+OK")]);
        server.talk(client, &[("DBSIZE", ":0"), ("SET a 1", "+OK"), ("SELECT 2", "+OK")]);
        server.talk(client, &[("DBSIZE", ":1"), ("KEYS *", "*1|$1|b"), ("MOVE b 1", ":1")]);
        server.talk(client, &[("SELECT 1", "+OK"), ("MOVE b 2", ":1"), ("DBSIZE", ":1")]);
    }
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn databases_are_apart_and_counted() {
    let scratch = Scratch::new("databases");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    server.talk(
        client,
        &[
            ("SET a 0", "+OK"),
            ("SELECT 3", "+OK"),
            ("GET a", "$-1"),
            ("SET a 3", "+OK"),
            ("SET {a}b 3", "+OK"),
            ("SELECT 16", "-ERR DB index is out of range"),
            ("SELECT x", "-ERR value is not an integer or out of range"),
            ("MOVE a 0", ":0"),
            ("MOVE {a}b 0", ":1"),
            ("DBSIZE", ":1"),
            ("COPY a a DB 5", ":1"),
            ("COPY a a", "-ERR source and destination objects are the same"),
            ("COPY a c DB 16", "-ERR DB index is out of range"),
            ("FLUSHDB", "+OK"),
            ("DBSIZE", ":0"),
            ("SELECT 0", "+OK"),
            ("DBSIZE", ":2"),
            ("MGET a {a}b", "*2|$1|0|$1|3"),
            ("RENAME nosuch b", "-ERR no such key"),
            ("RENAME a b", "+OK"),
            ("RENAMENX b {a}b", ":0"),
            ("GET b", "$1|0"),
            ("FLUSHALL", "+OK"),
            ("DBSIZE", ":0"),
            ("RANDOMKEY", "$-1"),
        ],
    );
}

#[pumice_test_macros::test]
fn a_keyspace_keeps_its_counts_and_refuses_others() {
    let scratch = Scratch::new("reopen");
    for life in 0..3 {
        let server = Quiet::open(scratch.path());
        let client = &mut server.client();
        assert_eq!(server.say(client, "DBSIZE"), format!(":{}", 2 * life));
        server.say(client, &format!("SET a{life} 1"));
        server.say(client, &format!("SET b{life} 1"));
        if life != 1 {
            // The other run ends without a clean shutdown: keys are recounted.
            server.shared.keyspace.close().unwrap();
        }
    }
    let other = Scratch::new("other");
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    let db = pumice::Db::open(&options, other.path()).unwrap();
    db.put_opt(&Default::default(), b"key", b"value").unwrap();
    db.close().unwrap();
    let refused = pumice_server::keyspace::Keyspace::open(options, other.path());
    assert!(refused.err().unwrap().to_string().contains("was not made by pumice serve"));
}

#[pumice_test_macros::test]
fn walks_see_everything_that_stays() {
    let scratch = Scratch::new("scan");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    for i in 0..300 {
        // Some keys share a slot.
        server.say(client, &format!("SET {}k{i} v", if i % 3 == 0 { "{tag}" } else { "" }));
    }
    for forget in [false, true] {
        let (mut cursor, mut seen, mut steps) =
            ("0".to_string(), std::collections::BTreeSet::new(), 0);
        loop {
            // A cursor stays valid in a server that has forgotten it.
            if forget {
                server.shared.keyspace.places.forget();
            }
            let reply = server.say(client, &format!("SCAN {cursor} COUNT 7 MATCH *k*"));
            let mut words = reply.split('|').filter(|word| !word.starts_with(['*', '$']));
            cursor = words.next().unwrap().to_string();
            seen.extend(words.map(str::to_string));
            steps += 1;
            if cursor == "0" {
                break;
            }
        }
        assert_eq!((seen.len(), steps), (300, 43));
    }
    server.talk(
        client,
        &[("SCAN x", "-ERR invalid cursor"), ("SCAN 0 COUNT 0", "-ERR syntax error")],
    );
    assert_eq!(server.say(client, "KEYS {tag}*").matches("{tag}k").count(), 100);
}
