//! Writes of a turn, which are one batch.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice::{Db, MemFs, Options, ReadOptions, Statistics, Ticker};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};
use pumice_port::fiber::{Runtime, spawn_here};
use pumice_port::thread::{self, JoinHandle};
use pumice_server::keyspace::txn::Txn;
use pumice_server::keyspace::{Keyspace, Outcome, Written};

use super::connections::{Caller, start, wait_until};
use super::{Quiet, Scratch};

const CLIENTS: usize = 40;

fn options(fs: &Arc<MemFs>, statistics: &Arc<Statistics>) -> Options {
    let mut options = Options::default();
    options.db.file_system = fs.clone();
    options.db.statistics = Some(Arc::clone(statistics));
    options
}

fn one_loop() -> Runtime {
    Runtime::builder().loops(1).build().unwrap()
}

/// Batches that the engine has written.
fn batches(statistics: &Statistics) -> u64 {
    let tickers = [Ticker::WriteDoneBySelf, Ticker::WriteDoneByOther];
    tickers.map(|ticker| statistics.ticker(ticker)).iter().sum::<u64>()
}

/// The replies to clients that send at the same time on one loop, in their order.
fn ask_at_once(
    server: &Arc<Quiet>,
    runtime: &Runtime,
    line: impl Fn(usize) -> String,
) -> Vec<String> {
    let asked: Vec<_> = (0..CLIENTS).map(line).collect();
    let server = Arc::clone(server);
    runtime.run("clients", move || {
        let ask = |line: String| {
            let server = Arc::clone(&server);
            spawn_here("client", move || server.say(&mut server.client(), &line))
        };
        // None of them runs before all have arrived.
        let asked: Vec<JoinHandle<String>> = asked.into_iter().map(ask).collect();
        asked.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

/// Sets a key together with others, and calls `tell` under its lock.
fn set(keyspace: &Keyspace, key: &str, durable: bool, tell: impl Fn()) -> Outcome<Option<Written>> {
    let key = key.as_bytes();
    let mut held = Some(keyspace.locks.one(key));
    let mut txn = Txn::write(keyspace, 0, 1);
    txn.put_string(key, None, b"v", 0)?;
    let written = keyspace.write_together(&mut txn, &mut held, durable, |_, _| tell());
    assert!(held.is_none(), "the lock is the group's");
    written
}

// Plain #[test]: it has loops of its own.
#[test]
fn commands_of_a_turn_share_a_batch() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let runtime = one_loop();
    let server = Arc::new(Quiet::with(Path::new("/data"), options(&fs, &statistics)));
    let before = batches(&statistics);
    let replies = ask_at_once(&server, &runtime, |number| format!("SET k{number} v"));
    assert_eq!(replies, vec!["+OK"; CLIENTS]);
    assert_eq!(batches(&statistics) - before, 1);
    // Commands on one key come one after the other.
    let mut counts = ask_at_once(&server, &runtime, |_| "INCR n".to_string());
    counts.sort_by_key(|count| count[1..].parse::<u64>().unwrap());
    let all: Vec<_> = (1..=CLIENTS).map(|count| format!(":{count}")).collect();
    assert_eq!(counts, all);
    assert_eq!(server.say(&mut server.client(), "DBSIZE"), format!(":{}", CLIENTS + 1));
    server.shared.keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn a_batch_that_fails_is_the_failure_of_all_in_it() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let runtime = one_loop();
    let server = Arc::new(Quiet::with(Path::new("/data"), options(&fs, &statistics)));
    fs.add_fault(FaultRule::always(FaultOp::Write, "*.log", Fault::Enospc));
    let replies = ask_at_once(&server, &runtime, |number| format!("SET k{number} v"));
    for reply in &replies {
        assert!(reply.starts_with("-MISCONF ") && reply.contains("No space left"), "{reply}");
    }
    // Nothing was written, nothing was counted, and no key is locked.
    let client = &mut server.client();
    for number in 0..CLIENTS {
        assert_eq!(server.say(client, &format!("GET k{number}")), "$-1");
    }
    assert_eq!(server.say(client, "DBSIZE"), ":0");
    let held = server.shared.keyspace.locks.all();
    drop(held);
    server.shared.keyspace.db().close().ok();
}

// Plain #[test]: it has loops of its own.
#[test]
fn watchers_learn_of_what_others_write_for_a_client() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let runtime = one_loop();
    let server = Arc::new(Quiet::with(Path::new("/data"), options(&fs, &statistics)));
    let watcher = &mut server.client();
    server.talk(watcher, &[("WATCH k7", "+OK"), ("MULTI", "+OK"), ("SET x 1", "+QUEUED")]);
    ask_at_once(&server, &runtime, |number| format!("SET k{number} v"));
    server.talk(watcher, &[("EXEC", "*-1"), ("GET x", "$-1")]);
    server.shared.keyspace.close().unwrap();
}

/// What a string replaces.
const BEFORE: [&str; 5] = ["", "SET k v", "SET k v PX 1000", "SET k v PX 10", "SADD k a b c"];

/// SETs of one turn over keys that are absent, strings, expiring, expired and collections; in
/// memory, and where a file has to be read.
// Plain #[test]: it has loops of its own.
#[test]
fn strings_of_a_turn_replace_whatever_there_is() {
    for is_cold in [false, true] {
        let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
        let runtime = one_loop();
        let mut options = options(&fs, &statistics);
        options.cf.table_factory.no_block_cache = true;
        let mut server = Quiet::with(Path::new("/data"), options);
        let client = &mut server.client();
        for number in 0..CLIENTS {
            let before = BEFORE[number % BEFORE.len()];
            if !before.is_empty() {
                server.say(client, &before.replace('k', &format!("k{number}")));
            }
        }
        if is_cold {
            server.shared.keyspace.db().flush().unwrap();
        }
        server.now += 100;
        let server = Arc::new(server);
        let replies = ask_at_once(&server, &runtime, |number| format!("SET k{number} {number}"));
        assert_eq!(replies, vec!["+OK"; CLIENTS]);
        for number in 0..CLIENTS {
            assert_eq!(server.say(client, &format!("GET k{number}")), {
                let text = number.to_string();
                format!("${}|{text}", text.len())
            });
            assert_eq!(server.say(client, &format!("TTL k{number}")), ":-1");
        }
        let keyspace = server.say(client, "INFO keyspace");
        assert!(keyspace.contains(&format!("keys={CLIENTS},expires=0,")), "{keyspace}");
        // No element of a set is left.
        let mut cursor = server.shared.keyspace.db().cursor().unwrap();
        cursor.seek_to_first();
        let mut data = 0;
        while cursor.valid() {
            data += usize::from(!cursor.key().unwrap().starts_with(b"\xff\xff"));
            cursor.next();
        }
        assert_eq!(data, CLIENTS);
        drop(cursor);
        server.shared.keyspace.close().unwrap();
    }
}

// Plain #[test]: it has loops of its own.
#[test]
fn a_group_has_bounds() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let runtime = one_loop();
    let server = Arc::new(Quiet::with(Path::new("/data"), options(&fs, &statistics)));
    // 40 of 32 KB go alone; of 15 KB each there are more than one group may have.
    for (bytes, count) in [(32_000, CLIENTS as u64..=CLIENTS as u64), (15_000, 1..=2)] {
        let before = batches(&statistics);
        let value = "v".repeat(bytes);
        let replies = ask_at_once(&server, &runtime, |number| format!("SET k{number} {value}"));
        assert_eq!(replies, vec!["+OK"; CLIENTS]);
        let written = batches(&statistics) - before;
        assert!(count.contains(&written), "{written} batches of {bytes} bytes");
    }
    // 80 of 15 KB are more than 1 MiB: those beyond it go alone.
    let before = batches(&statistics);
    let value = "v".repeat(15_000);
    let (one, two) = (Arc::clone(&server), value.clone());
    let more = runtime.spawn("more", move || {
        let ask = |number| {
            let (server, value) = (Arc::clone(&one), two.clone());
            let line = format!("SET m{number} {value}");
            spawn_here("client", move || server.say(&mut server.client(), &line))
        };
        let asked: Vec<_> = (0..2 * CLIENTS).map(ask).collect();
        asked.into_iter().for_each(|client| assert_eq!(client.join().unwrap(), "+OK"));
    });
    more.join().unwrap();
    let written = batches(&statistics) - before;
    assert!((2..=20).contains(&written), "{written} batches");
    server.shared.keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn a_loop_waits_for_no_other_loops_turn() {
    let fs = Arc::new(MemFs::new(1));
    let runtime = Runtime::builder().loops(2).build().unwrap();
    let server =
        Arc::new(Quiet::with(Path::new("/data"), options(&fs, &Arc::new(Statistics::new()))));
    let is_over = Arc::new(AtomicBool::new(false));
    let (own, end) = (Arc::clone(&server), Arc::clone(&is_over));
    let began = Arc::new(pumice_port::sync::Event::new());
    let ready = Arc::clone(&began);
    let busy = runtime.spawn_on(0, "busy", move || {
        let leader = spawn_here("leader", move || own.say(&mut own.client(), "SET a 1"));
        // It has opened its group, and continues when this fiber lets it.
        thread::yield_now();
        ready.set();
        while !end.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        leader.join().unwrap()
    });
    began.wait();
    let own = Arc::clone(&server);
    let other = runtime.spawn_on(1, "other", move || own.say(&mut own.client(), "SET b 1"));
    assert_eq!(other.join().unwrap(), "+OK");
    is_over.store(true, Ordering::Release);
    assert_eq!(busy.join().unwrap(), "+OK");
    server.shared.keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn who_wants_to_wait_for_a_key_of_a_group_finds_what_it_wrote() {
    let fs = Arc::new(MemFs::new(1));
    let runtime = one_loop();
    let server =
        Arc::new(Quiet::with(Path::new("/data"), options(&fs, &Arc::new(Statistics::new()))));
    // Another key's waiter does not keep writes from being grouped.
    let waits = &mut server.client();
    server.talk(waits, &[("BLPOP other 0", "")]);
    let replies = ask_at_once(&server, &runtime, |number| match number % 4 {
        0 => format!("RPUSH l{number} x"),
        1 => format!("BLPOP l{} 0", number - 1),
        2 => format!("MULTI_{number}"),
        _ => format!("LLEN l{}", number - 3),
    });
    for (number, reply) in replies.iter().enumerate() {
        match number % 4 {
            0 => assert_eq!(reply, ":1"),
            1 => assert_eq!(
                *reply,
                format!("*2|${0}|l{1}|$1|x", 1 + (number - 1).to_string().len(), number - 1)
            ),
            2 => assert!(reply.starts_with("-ERR unknown command"), "{reply}"),
            _ => assert!(reply == ":0" || reply == ":1", "{reply}"),
        }
    }
    // The waiter of a written key is served by the write.
    let client = &mut server.client();
    server.talk(client, &[("RPUSH other y", ":1"), ("DBSIZE", ":0")]);
    let waiter = waits.session.waiter.take().unwrap();
    assert_eq!(super::text(&waiter.reply().unwrap()), "*2|$5|other|$1|y");
    server.shared.keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn a_panic_of_the_leader_holds_nobody_up() {
    let fs = Arc::new(MemFs::new(1));
    let options = options(&fs, &Arc::new(Statistics::new()));
    let keyspace = Arc::new(Keyspace::open(options, Path::new("/data")).unwrap());
    let runtime = one_loop();
    let own = Arc::clone(&keyspace);
    runtime.run("group", move || {
        let member = |number: usize| {
            let keyspace = Arc::clone(&own);
            let tell = || std::panic::panic_any("planted");
            spawn_here("member", move || set(&keyspace, &format!("k{number}"), true, tell))
        };
        let mut members: Vec<_> = (0..5).map(member).collect();
        assert!(members.remove(0).join().is_err(), "the leader calls `tell`, which panics");
        for member in members {
            assert!(member.join().unwrap().unwrap().is_some(), "what it wrote is written");
        }
    });
    drop(keyspace.locks.all());
    assert_eq!(keyspace.keys_in(0).keys, 5);
    keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn what_a_group_has_written_is_durable_for_each_in_it() {
    let fs = Arc::new(MemFs::new(1));
    let statistics = Arc::new(Statistics::new());
    let opened = options(&fs, &statistics);
    let keyspace = Arc::new(Keyspace::open(opened, Path::new("/data")).unwrap());
    let runtime = one_loop();
    let together = |what: fn(&Keyspace, &MemFs, usize)| {
        let (keyspace, fs) = (Arc::clone(&keyspace), Arc::clone(&fs));
        runtime.run("group", move || {
            let member = |number: usize| {
                let (keyspace, fs) = (Arc::clone(&keyspace), Arc::clone(&fs));
                spawn_here("member", move || what(&keyspace, &fs, number))
            };
            let members: Vec<_> = (0..8).map(member).collect();
            members.into_iter().for_each(|member| member.join().unwrap());
        });
    };
    let syncs = statistics.ticker(Ticker::WalFileSynced);
    together(|keyspace, fs, number| {
        let written = set(keyspace, &format!("k{number}"), true, || ()).unwrap().unwrap();
        keyspace.sync_upto(written.upto).unwrap();
        let after = Arc::new(fs.crashed_copy(number as u64, CrashMode::UNSYNCED));
        let options = options(&after, &Arc::new(Statistics::new()));
        let db = Db::open(&options, Path::new("/data")).unwrap();
        let record = Txn::glance(keyspace, 0, 1).record_key(format!("k{number}").as_bytes());
        assert!(db.get_opt(&ReadOptions::default(), &record).unwrap().is_some(), "k{number}");
        db.close().unwrap();
    });
    assert_eq!(statistics.ticker(Ticker::WalFileSynced) - syncs, 1, "one sync for all");
    // A sync that fails is the failure of each, and keeps no lock.
    fs.add_fault(FaultRule::always(FaultOp::Sync, "*.log", Fault::Eio));
    together(|keyspace, _, number| {
        let written = set(keyspace, &format!("f{number}"), true, || ()).unwrap().unwrap();
        assert!(keyspace.sync_upto(written.upto).is_err());
    });
    drop(keyspace.locks.all());
    keyspace.close().ok();
}

// Plain #[test]: it has loops of its own.
#[test]
fn clients_that_go_leave_their_writes_and_no_lock() {
    let scratch = Scratch::new("groups-gone");
    let running = start(scratch.path(), &[("appendfsync", "always"), ("loops", "2")]);
    let shared = running.shared();
    let until_gone = |come: usize| {
        wait_until("all have come and gone", || {
            let all = shared.stats.connections.load(Ordering::Relaxed) == come as u64;
            all && shared.clients.list().is_empty()
        });
    };
    for number in 0..CLIENTS {
        Caller::to(&running).send(format!("SET k{number} v\r\n").as_bytes());
    }
    until_gone(CLIENTS);
    // Killed clients may have written.
    for number in 0..CLIENTS {
        let caller = Caller::to(&running);
        caller.send(format!("SET killed{number} v\r\n").as_bytes());
        shared.clients.list().iter().for_each(|client| client.hang_up());
    }
    until_gone(2 * CLIENTS);
    let mut asks = Caller::to(&running);
    for number in 0..CLIENTS {
        assert_eq!(asks.line(&format!("EXISTS k{number}")), ":1");
        assert_eq!(asks.line(&format!("SET killed{number} w")), "+OK");
    }
    drop(shared.keyspace.locks.all());
    assert_eq!(asks.line("DBSIZE"), format!(":{}", 2 * CLIENTS));
    running.stop().unwrap();
}
