//! MULTI, EXEC and WATCH.

use super::{Quiet, Scratch};

#[pumice_test_macros::test]
fn queued_commands_take_effect_together() {
    let scratch = Scratch::new("multi");
    let server = Quiet::open(scratch.path());
    let (one, two) = (&mut server.client(), &mut server.client());
    server.talk(
        one,
        &[
            ("EXEC", "-ERR EXEC without MULTI"),
            ("DISCARD", "-ERR DISCARD without MULTI"),
            ("MULTI", "+OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("SET a 1", "+QUEUED"),
            ("INCR a", "+QUEUED"),
            ("GET a", "+QUEUED"),
            ("DEL a", "+QUEUED"),
            ("EXISTS a", "+QUEUED"),
            ("SET a x", "+QUEUED"),
            ("INCR a", "+QUEUED"),
            ("KEYS *", "+QUEUED"),
            ("DBSIZE", "+QUEUED"),
        ],
    );
    server.talk(two, &[("EXISTS a", ":0")]);
    let reply = "*9|+OK|:2|$1|2|:1|:0|+OK|-ERR value is not an integer or out of range|*1|$1|a|:1";
    server.talk(
        one,
        &[
            ("EXEC", reply),
            ("MULTI", "+OK"),
            ("SET b 1", "+QUEUED"),
            ("SET b", "-ERR wrong number of arguments for 'set' command"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("EXISTS b", ":0"),
            ("MULTI", "+OK"),
            ("SET b 1", "+QUEUED"),
            ("FLUSHALL", "+QUEUED"),
            ("DBSIZE", "+QUEUED"),
            ("SET c 1", "+QUEUED"),
            ("KEYS *", "+QUEUED"),
            ("EXEC", "*5|+OK|+OK|:0|+OK|*1|$1|c"),
            ("MULTI", "+OK"),
            ("DISCARD", "+OK"),
            ("MULTI", "+OK"),
            ("EXEC", "*0"),
        ],
    );
}

#[pumice_test_macros::test]
fn watched_keys_that_change_make_exec_fail() {
    let scratch = Scratch::new("watch");
    let mut server = Quiet::open(scratch.path());
    let (one, two) = (&mut server.client(), &mut server.client());
    let begin = [("WATCH a b", "+OK"), ("MULTI", "+OK"), ("SET mine 1", "+QUEUED")];
    server.talk(one, &begin);
    server.talk(two, &[("SET c 1", "+OK")]);
    server.talk(one, &[("EXEC", "*1|+OK")]);
    server.talk(one, &begin);
    server.talk(two, &[("SET b 1", "+OK")]);
    server.talk(one, &[("EXEC", "*-1"), ("MULTI", "+OK"), ("EXEC", "*0")]);
    // A command that changes nothing does not break a watch.
    server.talk(one, &begin);
    server.talk(two, &[("DEL nothing", ":0"), ("SETNX b 2", ":0")]);
    server.talk(one, &[("EXEC", "*1|+OK")]);
    server.talk(one, &begin);
    server.talk(two, &[("FLUSHDB", "+OK"), ("SET a 1 PX 100", "+OK")]);
    server.talk(one, &[("EXEC", "*-1"), ("WATCH a", "+OK"), ("UNWATCH", "+OK")]);
    server.talk(one, &begin);
    server.now += 100;
    server.talk(one, &[("EXEC", "*-1")]);
    // A key that had expired already does not count.
    server.talk(one, &begin);
    server.talk(one, &[("EXEC", "*1|+OK")]);
    server.talk(
        one,
        &[
            ("WATCH a", "+OK"),
            ("MULTI", "+OK"),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
        ],
    );
}
