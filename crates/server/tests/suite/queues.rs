//! Queues: collections that elements go through. What has gone through costs nothing later.
//!
//! `PUMICE_SEED=N` replays a seed; `PUMICE_QUEUES=N` sets the number of rounds (5,000).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pumice::perf::{self, PerfLevel, PerfMetric};
use pumice::{Db, MemFs, Options, WriteBatch, WriteOptions};
use pumice_server::keyspace::txn::Txn;

use super::peer::number;
use super::{Client, Quiet, Random};

fn options(fs: &Arc<MemFs>) -> Options {
    let mut options = Options::default();
    options.db.file_system = fs.clone();
    options
}

fn open(fs: &Arc<MemFs>) -> Quiet {
    Quiet::with(Path::new("/data"), options(fs))
}

fn db(server: &Quiet) -> &Db {
    server.shared.keyspace.db()
}

/// Entries that a command moves over, alive or not.
fn walked(work: impl FnOnce()) -> u64 {
    perf::set_level(PerfLevel::EnableCount);
    perf::reset();
    work();
    let context = perf::context();
    perf::set_level(PerfLevel::Disable);
    let counts = [
        PerfMetric::InternalKeySkippedCount,
        PerfMetric::InternalDeleteSkippedCount,
        PerfMetric::IterNextCount,
        PerfMetric::IterPrevCount,
    ];
    counts.iter().map(|metric| context.get(*metric)).sum()
}

/// A kind of queue: what fills it, and a round. `#` is the number of the round, `?` a scrambled one
/// and `-` the number of one some rounds ago.
const QUEUES: &[(&str, &str, &[&str])] = &[
    ("ZADD + ZPOPMIN", "ZADD k # m?", &["ZADD k # m?", "ZPOPMIN k"]),
    ("ZADD + ZPOPMAX", "ZADD k -# m?", &["ZADD k -# m?", "ZPOPMAX k"]),
    ("ZADD + ZPOPMIN of one score", "ZADD k 0 m#", &["ZADD k 0 m#", "ZPOPMIN k"]),
    ("ZADD + ZREMRANGEBYSCORE", "ZADD k # m?", &["ZADD k # m?", "ZREMRANGEBYSCORE k -inf -"]),
    ("ZADD + ZREMRANGEBYRANK", "ZADD k # m?", &["ZADD k # m?", "ZREMRANGEBYRANK k 0 0"]),
    ("ZADD + ZREM + ZRANGE", "ZADD k # m#", &["ZADD k # m#", "ZREM k m-", "ZRANGE k 0 0"]),
    ("ZINCRBY + ZREVRANGE", "ZADD k # m?", &["ZINCRBY k 7 m", "ZREVRANGE k 0 0", "ZRANGE k 0 0"]),
    ("SADD + SPOP", "SADD k m?", &["SADD k m?", "SPOP k"]),
    ("SADD + SPOP in order", "SADD k m#", &["SADD k m#", "SPOP k"]),
    ("HSET + HRANDFIELD + HDEL", "HSET k m? v", &["HSET k m# v", "HRANDFIELD k", "HDEL k m-"]),
    ("RPUSH + LPOP", "RPUSH k #", &["RPUSH k #", "LPOP k", "LRANGE k 0 0"]),
];

/// A round of a queue, `behind` elements long.
fn round(server: &Quiet, client: &mut Client, lines: &[&str], at: u64, behind: u64) {
    for line in lines {
        let scrambled = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let words = line.split(' ').map(|word| {
            let numbered = word.replace('#', &format!("{at:08}"));
            let numbered = numbered.replace('?', &format!("{scrambled:011x}"));
            match numbered.strip_suffix('-') {
                Some(start) => format!("{start}{:08}", at.saturating_sub(behind)),
                None => numbered,
            }
        });
        let reply = server.ask(client, &words.collect::<Vec<_>>());
        assert_ne!(reply[0], b'-', "{line}: {}", super::text(&reply));
    }
}

/// A block of rounds costs what an early one has cost, with flushes and restarts in between.
#[pumice_test_macros::test]
fn a_round_costs_the_same_after_any_number_of_rounds() {
    const LENGTH: u64 = 100;
    const BLOCK: u64 = 1000;
    let blocks = number("PUMICE_QUEUES", 5_000) / BLOCK;
    for (name, fill, lines) in QUEUES {
        let fs = Arc::new(MemFs::new(1));
        let mut server = open(&fs);
        let mut costs = Vec::new();
        (0..LENGTH).for_each(|at| round(&server, &mut server.client(), &[fill], at, LENGTH));
        for block in 0..blocks {
            let client = &mut server.client();
            let cost = walked(|| {
                for at in block * BLOCK..(block + 1) * BLOCK {
                    round(&server, client, lines, LENGTH + at, LENGTH);
                }
            });
            costs.push(cost);
            match block % 4 {
                1 => db(&server).flush().unwrap(),
                3 => {
                    server.shared.keyspace.close().unwrap();
                    server = open(&fs);
                }
                _ => {}
            }
        }
        let (early, late) = (costs[1].max(BLOCK), costs[2..].iter().max().unwrap());
        assert!(*late <= 2 * early, "{name}: {costs:?}");
        server.shared.keyspace.close().unwrap();
    }
}

/// A queue that is too long to be written anew has bounds.
#[pumice_test_macros::test]
fn the_front_of_a_long_queue_is_where_its_elements_begin() {
    let fs = Arc::new(MemFs::new(1));
    let mut server = open(&fs);
    for lines in [["ZADD k # m?", "ZPOPMIN k"], ["ZADD k -# m?", "ZPOPMAX k"]] {
        let client = &mut server.client();
        server.say(client, "DEL k");
        (0..3000).for_each(|at| round(&server, client, &lines[..1], at, 0));
        for at in 3000..6000 {
            round(&server, client, &lines, at, 0);
        }
        server.shared.keyspace.close().unwrap();
        server = open(&fs);
        let client = &mut server.client();
        let cost = walked(|| {
            server.say(client, "ZRANGE k 0 0");
            server.say(client, "ZREVRANGE k 0 0");
            server.say(client, "ZRANGEBYSCORE k -inf +inf LIMIT 0 1");
        });
        assert!(cost < 200, "{lines:?}: {cost}");
    }
}

/// All elements of everything.
fn elements(server: &Quiet) -> usize {
    let mut cursor = server.shared.keyspace.db().cursor().unwrap();
    cursor.seek_to_first();
    let mut count = 0;
    while cursor.valid() {
        count += usize::from(cursor.key().unwrap()[3] == 2);
        cursor.next();
    }
    count
}

fn push(server: &Quiet, client: &mut Client, key: &str, count: usize) {
    let mut args = vec!["RPUSH".to_string(), key.to_string()];
    args.extend((0..count).map(|n| format!("element {n}")));
    server.ask(client, &args);
}

#[pumice_test_macros::test]
fn a_deleted_collection_goes_without_a_deletion_of_its_own() {
    let fs = Arc::new(MemFs::new(1));
    let server = open(&fs);
    let client = &mut server.client();
    // Other keys of the slot live among the generations that go.
    for n in 0..400 {
        push(&server, client, "{a}gone", 40);
        if n % 100 == 50 {
            push(&server, client, &format!("{{a}}stays{n}"), 40);
        }
        server.talk(client, &[("DEL {a}gone", ":1")]);
    }
    assert_eq!(server.shared.keyspace.marked(), 400);
    // A compaction drops what is gone.
    db(&server).flush().unwrap();
    db(&server).compact_range(&Default::default(), None, None).unwrap();
    let entries: u64 = db(&server).live_files_metadata().iter().map(|file| file.num_entries).sum();
    assert!(entries < 1000, "{entries} entries of 160 elements that live");
    // What is in tables goes as few ranges.
    for n in 0..400 {
        push(&server, client, &format!("{{a}}late{n}"), 40);
    }
    db(&server).flush().unwrap();
    (0..400).for_each(|n| drop(server.say(client, &format!("DEL {{a}}late{n}"))));
    assert_eq!(elements(&server), 404 * 40);
    assert_eq!(server.shared.keyspace.sweep(false).unwrap(), 0, "there are few");
    let before = server.shared.keyspace.writes();
    assert_eq!(server.shared.keyspace.sweep(true).unwrap(), 800);
    let written = server.shared.keyspace.writes() - before;
    assert!(written < 800 + 10, "{} ranges", written - 800);
    assert_eq!(elements(&server), 160);
    assert_eq!(server.shared.keyspace.marked(), 0);
    for n in [50, 150, 250, 350] {
        let last = format!("LINDEX {{a}}stays{n} 39");
        server.talk(client, &[(&last, "$10|element 39")]);
    }
}

#[pumice_test_macros::test]
fn marks_are_found_again_after_a_restart() {
    let fs = Arc::new(MemFs::new(1));
    let server = open(&fs);
    let client = &mut server.client();
    push(&server, client, "a", 40);
    push(&server, client, "b", 40);
    server.talk(client, &[("DEL a", ":1"), ("MULTI", "+OK"), ("DEL b", "+QUEUED")]);
    assert_eq!(server.shared.keyspace.marked(), 1, "nothing is marked before it is written");
    server.talk(client, &[("EXEC", "*1|:1")]);
    assert_eq!(server.shared.keyspace.marked(), 2);
    server.shared.keyspace.close().unwrap();
    let server = open(&fs);
    assert_eq!((server.shared.keyspace.marked(), elements(&server)), (2, 80));
    server.shared.keyspace.sweep(true).unwrap();
    assert_eq!((server.shared.keyspace.marked(), elements(&server)), (0, 0));
    server.shared.keyspace.close().unwrap();
    assert_eq!(open(&fs).shared.keyspace.marked(), 0);
}

/// A reader keeps what it began with, through a deletion, a flush and a compaction.
#[pumice_test_macros::test]
fn a_reader_keeps_a_collection_that_goes() {
    let fs = Arc::new(MemFs::new(1));
    let server = open(&fs);
    let client = &mut server.client();
    push(&server, client, "a", 40);
    let view = Txn::view(&server.shared.keyspace, 0, server.now).unwrap();
    server.talk(client, &[("DEL a", ":1")]);
    db(&server).flush().unwrap();
    db(&server).compact_range(&Default::default(), None, None).unwrap();
    let found = view.peek(b"a").unwrap().unwrap();
    let list = view.collection_of(b"a", &found);
    let mut count = 0;
    view.pass(&list.all(), false, &mut |_, _| {
        count += 1;
        true
    })
    .unwrap();
    assert_eq!(count, 40);
}

/// What the version before has written: records in layout 0, and its format.
#[pumice_test_macros::test]
fn a_directory_of_the_first_format_is_served() {
    let fs = Arc::new(MemFs::new(1));
    let mut options = options(&fs);
    options.db.create_if_missing = true;
    let old = Db::open(&options, "/data/db").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"\xff\xffformat", b"pumice-server 1");
    batch.put(b"\xff\xffgeneration", &(1_u64 << 20).to_be_bytes());
    let slot = pumice_server::keyspace::slot::slot_of(b"k").to_be_bytes();
    let key = |rest: &[u8]| [&slot[..], rest].concat();
    let generation = 7_u64.to_be_bytes();
    batch.put(&key(b"\0\x01k"), &[&b"\x02"[..], &generation, &600_u64.to_be_bytes()].concat());
    for n in 0..600 {
        let member = format!("m{n:04}");
        let element = [&b"\0\x02"[..], &generation, b"\x01", member.as_bytes()].concat();
        batch.put(&key(&element), b"");
    }
    old.write_opt(&WriteOptions::default(), &mut batch).unwrap();
    old.close().unwrap();
    let server = open(&fs);
    let client = &mut server.client();
    server.talk(client, &[("SCARD k", ":600"), ("SISMEMBER k m0599", ":1"), ("DBSIZE", ":1")]);
    let format = server.shared.keyspace.db().get(b"\xff\xffformat");
    assert_eq!(&*format.unwrap().unwrap(), b"pumice-server 2");
    for n in 0..590 {
        server.talk(client, &[(&format!("SREM k m{n:04}"), ":1")]);
    }
    let left: String = (590..600).map(|n| format!("|$5|m{n:04}")).collect();
    server.talk(client, &[("SMEMBERS k", &format!("*10{left}")), ("DEL k", ":1")]);
    server.talk(client, &[("SMEMBERS k", "*0")]);
}

/// What a model has of a collection: a hash's values, or a sorted set's scores.
type Model = BTreeMap<String, i64>;

/// The collection, through the command that reads it from its front and the one by name.
fn check(server: &Quiet, client: &mut Client, kind: u64, model: &Model, seed: u64) {
    let key = ["z", "h", "s"][kind as usize];
    let mut sorted: Vec<_> = model.iter().map(|(name, score)| (*score, name.clone())).collect();
    let pairs = |reply: &str| -> Vec<String> {
        let words = reply.split('|').skip(1).filter(|word| !word.starts_with('$'));
        words.map(str::to_string).collect()
    };
    let bytes =
        server.say(client, ["ZRANGE z 0 -1 WITHSCORES", "HGETALL h", "SMEMBERS s"][kind as usize]);
    let wanted: Vec<String> = match kind {
        0 => {
            sorted.sort();
            sorted.iter().flat_map(|(score, name)| [name.clone(), score.to_string()]).collect()
        }
        1 => model.iter().flat_map(|(name, value)| [name.clone(), value.to_string()]).collect(),
        _ => model.keys().cloned().collect(),
    };
    assert_eq!(pairs(&bytes), wanted, "seed {seed}, {key}");
    let card = ["ZCARD z", "HLEN h", "SCARD s"][kind as usize];
    assert_eq!(server.say(client, card), format!(":{}", model.len()), "seed {seed}, {key}");
    if kind == 0 && !sorted.is_empty() {
        let (lowest, highest) = (&sorted[0], &sorted[sorted.len() - 1]);
        let reply = server.say(client, &format!("ZCOUNT z {} {}", lowest.0, highest.0));
        assert_eq!(reply, format!(":{}", sorted.len()), "seed {seed}");
        let reverse = pairs(&server.say(client, "ZREVRANGE z 0 0"));
        assert_eq!(reverse.first(), Some(&highest.1), "seed {seed}");
    }
}

/// A drawn change of a collection, in both.
fn change(server: &Quiet, client: &mut Client, kind: u64, model: &mut Model, random: &mut Random) {
    let range = [20, 400, 100_000][random.below(3) as usize];
    // Names beyond the bytes of a bound, which differ at their end, or at once.
    let long = "n".repeat([0, 1, 80][random.below(3) as usize]);
    let name = format!("{long}{}", random.below(range));
    let score = random.below(range) as i64 - 50;
    let first = |model: &Model| model.iter().map(|(n, s)| (*s, n.clone())).min();
    let last = |model: &Model| model.iter().map(|(n, s)| (*s, n.clone())).max();
    let ends = [first(model), last(model)];
    let line = match (kind, random.below(6)) {
        (0, 0..=2) => {
            model.insert(name.clone(), score);
            format!("ZADD z {score} {name}")
        }
        (0, pop @ (3 | 4)) if !model.is_empty() => {
            let gone = ends[pop as usize - 3].as_ref().unwrap();
            model.remove(&gone.1);
            format!("ZPOP{} z", ["MIN", "MAX"][pop as usize - 3])
        }
        (1, 0..=2) => {
            model.insert(name.clone(), score);
            format!("HSET h {name} {score}")
        }
        (2, 0..=2) => {
            model.insert(name.clone(), 0);
            format!("SADD s {name}")
        }
        (_, 3) if kind > 0 && !model.is_empty() => {
            // From an end of the names.
            let at = [0, model.len() - 1][random.below(2) as usize];
            let gone = model.keys().nth(at).unwrap().clone();
            model.remove(&gone);
            format!("{} {gone}", ["", "HDEL h", "SREM s"][kind as usize])
        }
        _ => {
            model.remove(&name);
            format!("{} {name}", ["ZREM z", "HDEL h", "SREM s"][kind as usize])
        }
    };
    let reply = server.say(client, &line);
    assert!(!reply.starts_with('-'), "{line}: {reply}");
}

/// Hashes, sets and sorted sets through drawn lives: bounds and new generations hide nothing.
#[pumice_test_macros::test]
fn collections_are_what_a_model_says() {
    let seed = number("PUMICE_SEED", 1);
    let random = &mut Random::new(seed);
    let fs = Arc::new(MemFs::new(1));
    let mut server = open(&fs);
    let mut models = [Model::new(), Model::new(), Model::new()];
    for step in 0..number("PUMICE_QUEUES", 5_000) * 4 {
        let kind = random.below(3);
        let client = &mut server.client();
        let model = &mut models[kind as usize];
        match random.below(4000) {
            0 => {
                server.say(client, ["DEL z", "DEL h", "DEL s"][kind as usize]);
                model.clear();
            }
            1 => {
                // There and back, under another slot or in the same.
                let key = ["z", "h", "s"][kind as usize];
                let to = format!("{{{}{key}}}", ["", "x"][random.below(2) as usize]);
                let moved = format!("RENAME {key} {to}");
                if server.say(client, &moved) == "+OK" {
                    server.talk(client, &[(&format!("RENAME {to} {key}"), "+OK")]);
                }
            }
            2 => drop(server.shared.keyspace.sweep(true).unwrap()),
            3 => db(&server).flush().unwrap(),
            4 => {
                server.shared.keyspace.close().unwrap();
                server = open(&fs);
            }
            5 => {
                // Half of them go at once.
                let ends = ["ZREMRANGEBYRANK z 0 99", "HLEN h", "SCARD s"];
                server.say(client, ends[kind as usize]);
                if kind == 0 {
                    let mut sorted: Vec<_> = model.iter().map(|(n, s)| (*s, n.clone())).collect();
                    sorted.sort();
                    for (_, name) in sorted.iter().take(100) {
                        model.remove(name);
                    }
                }
            }
            6..=12 => check(&server, client, kind, model, seed),
            _ => change(&server, client, kind, model, random),
        }
        if step % 2000 == 0 {
            (0..3).for_each(|kind| {
                check(&server, &mut server.client(), kind, &models[kind as usize], seed);
            });
        }
    }
    (0..3)
        .for_each(|kind| check(&server, &mut server.client(), kind, &models[kind as usize], seed));
}
