//! kill -9 under load: nothing that was acknowledged is lost, and there are no gaps and no halves.
//!
//! Every client has keys of its own, and sends rounds of the same operations, pipelined: strings,
//! hashes, lists, sets, sorted sets, moves, deletions, transactions. Operations of a connection are
//! carried out in order, so that what a client finds after the kill has to be what its operations
//! up to one of them make, and that one is not before the last acknowledged. One more pair pushes
//! and pops with waiting; all count in one key. What was found is found again after later kills.
//!
//! All kills hit one directory, with memtables so small that flushes and compactions are hit too;
//! some hit the recovery. SIGKILL leaves the system's page cache intact; durability after a power
//! loss is shown by `crates/server/tests/suite/durable.rs` and by the engine's own suites.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Stdio;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::client::{Client, Value, encode_line};
use super::{PATIENCE, Random, Scratch, Server, command, setting};

const CLIENTS: usize = 4;
/// Settings of the server that is killed.
const SETTINGS: [(&str, &str); 2] = [("appendfsync", "always"), ("write-buffer-bytes", "256kb")];

/// The operations of a round; `K` is the client's prefix, `E` the common one, `N` the round's
/// number.
const OPERATIONS: [&str; 16] = [
    "SET Ks N",
    "HSET Kh fN%16 N",
    "RPUSH Kl N",
    "SADD Kt N",
    "SET Kd N",
    "ZADD Kz N mN%32",
    "APPEND Ka x",
    "LPUSH Kq N",
    "LMOVE Kq Kr RIGHT LEFT",
    "MULTI",
    "SET Kx N",
    "HSET Ky v N",
    "RPUSH Kw N",
    "EXEC",
    "INCR Eshared",
    "SREM Kt N",
];
const DELETES: usize = 4;
const MULTI: usize = 9;
const QUEUED: usize = 12;
const EXEC: usize = 13;
const COUNTS: usize = 14;
/// Commands that read all keys of a client.
const READS: [&str; 12] = [
    "GET Ks",
    "HGETALL Kh",
    "LRANGE Kl 0 -1",
    "SMEMBERS Kt",
    "GET Kd",
    "ZRANGE Kz 0 -1 WITHSCORES",
    "STRLEN Ka",
    "LRANGE Kq 0 -1",
    "LRANGE Kr 0 -1",
    "GET Kx",
    "HGET Ky v",
    "LRANGE Kw 0 -1",
];

/// An operation of a round in words.
fn operation(index: usize, round: u64, own: &str, all: &str) -> String {
    let line = match index {
        // What is there in one round is not in the next.
        DELETES if round.is_multiple_of(2) => "DEL Kd",
        _ => OPERATIONS[index],
    };
    line.replace("N%16", &(round % 16).to_string())
        .replace("N%32", &(round % 32).to_string())
        .split(' ')
        .enumerate()
        .map(|(place, word)| match (place, word) {
            (0, name) => name.to_string(),
            (_, "N") => round.to_string(),
            (_, key) => match (key.strip_prefix('K'), key.strip_prefix('E')) {
                (Some(name), _) => format!("{own}{name}"),
                (_, Some(name)) => format!("{all}{name}"),
                _ => key.to_string(),
            },
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// What a client knows: the last round that it began to send, and for each operation the last round
/// that was acknowledged.
#[derive(Default)]
struct Known {
    issued: u64,
    acked: [u64; OPERATIONS.len()],
}

/// Sends rounds until the connection breaks. Reports the end of the first round.
fn load(mut client: Client, own: &str, all: &str, begun: &Sender<()>) -> Known {
    let mut known = Known::default();
    for round in 1.. {
        known.issued = round;
        let bytes: Vec<u8> = (0..OPERATIONS.len())
            .flat_map(|index| encode_line(&operation(index, round, own, all)))
            .collect();
        if client.send(&bytes).is_err() {
            return known;
        }
        for (index, acked) in known.acked.iter_mut().enumerate() {
            match client.receive() {
                Ok(Value::Error(text)) => panic!("round {round}, {}: {text}", OPERATIONS[index]),
                Ok(reply) => {
                    let is_exec = matches!(&reply, Value::List(replies) if replies.len() == 3);
                    assert_eq!(is_exec, index == EXEC, "{reply}");
                    *acked = round;
                }
                Err(_) => return known,
            }
        }
        if round == 1 {
            begun.send(()).unwrap();
        }
    }
    known
}

/// Numbers in a list.
fn numbers(value: &Value) -> Vec<u64> {
    value.clone().list().iter().map(|element| element.to_string().parse().unwrap()).collect()
}

/// Pairs of names and numbers.
fn pairs(value: &Value) -> BTreeMap<String, u64> {
    let flat = value.clone().list();
    let pair = |two: &[Value]| (two[0].to_string(), two[1].to_string().parse().unwrap());
    flat.chunks_exact(2).map(pair).collect()
}

/// The numbers up to `round`, the last one of each residue class.
fn latest(round: u64, modulus: u64, letter: &str) -> BTreeMap<String, u64> {
    let first = round.saturating_sub(modulus) + 1;
    (first.max(1)..=round).map(|n| (format!("{letter}{}", n % modulus), n)).collect()
}

fn read(client: &mut Client, own: &str) -> Vec<Value> {
    let line = |template: &&str| template.replacen('K', own, 1);
    READS.iter().map(|template| client.ask(&line(template))).collect()
}

/// Asserts that `found` is the result of the operations up to some one of them, and includes all
/// acknowledged ones.
fn judge(found: &[Value], known: &Known, what: &str) {
    let number = |value: &Value| match value {
        Value::Nothing => 0,
        value => value.to_string().parse::<u64>().unwrap(),
    };
    let upto = |value: &Value| {
        let list = numbers(value);
        let whole: Vec<u64> = (1..=list.len() as u64).collect();
        assert_eq!(list, whole, "{what}: a hole");
        list.len() as u64
    };
    let (s, l, x) = (number(&found[0]), upto(&found[2]), number(&found[9]));
    let h = pairs(&found[1]).into_values().max().unwrap_or(0);
    assert_eq!(pairs(&found[1]), latest(h, 16, "f"), "{what}");
    let z = pairs(&found[5]).into_values().max().unwrap_or(0);
    assert_eq!(pairs(&found[5]), latest(z, 32, "m"), "{what}");
    let a = number(&found[6]);
    // Moved elements, and those in between.
    let (mut lying, mut moved) = (numbers(&found[7]), numbers(&found[8]));
    assert!(lying.len() <= 1, "{what}: {lying:?}");
    let r = moved.len() as u64;
    lying.append(&mut moved);
    lying.reverse();
    let q = lying.len() as u64;
    assert_eq!(lying, (1..=q).collect::<Vec<_>>(), "{what}: an element was lost or doubled");
    assert_eq!((x, x), (number(&found[10]), upto(&found[11])), "{what}: half of a transaction");
    // A set has what was added and not removed again.
    let set = numbers(&found[3]);
    assert!(set.len() <= 1, "{what}: {set:?}");
    let (added, removed) = match set.first() {
        Some(&n) => (n, n - 1),
        // None has come in since the last went out: the operations between agree.
        None => (x, x),
    };
    // Deleted in one round, set in the other: its round is that of its neighbours.
    let d = number(&found[4]);
    let is_there = |round: u64| if round % 2 == 1 { round } else { 0 };
    let rounds = [s, h, l, added, 0, z, a, q, r, x, x, x, x, x, x, removed];
    let deletes = [added, z].into_iter().find(|&round| is_there(round) == d);
    let mut before = known.issued;
    for (index, &round) in rounds.iter().enumerate() {
        let round = match index {
            DELETES => deletes.unwrap_or_else(|| panic!("{what}: {d} at {added} or {z}")),
            // Queued is not done.
            MULTI..=QUEUED | COUNTS => continue,
            _ => round,
        };
        let (name, acked) = (OPERATIONS[index], known.acked[index]);
        assert!(round >= acked, "{what}: {name}: {round} after {acked} was acknowledged");
        assert!(round <= before, "{what}: {name}: {round}, but before it {before}: {rounds:?}");
        before = round;
    }
    assert!(rounds[0] <= before + 1, "{what}: a hole: {rounds:?}");
}

/// Pushes numbers; the last issued, and the last acknowledged.
fn push(mut client: Client, key: &str) -> (u64, u64) {
    for number in 1.. {
        let sent = client.send(&encode_line(&format!("RPUSH {key} {number}")));
        if sent.is_err() || client.receive().is_err() {
            return (number, number - 1);
        }
    }
    unreachable!("it never ends by itself")
}

/// Pops them with blocking; returns the last acknowledged one.
fn pop(mut client: Client, key: &str) -> u64 {
    let mut last = 0;
    loop {
        let sent = client.send(&encode_line(&format!("BLPOP {key} 0")));
        match sent.and_then(|()| client.receive()) {
            Ok(reply) => {
                let number = reply.list()[1].to_string().parse().unwrap();
                assert_eq!(number, last + 1, "out of order");
                last = number;
            }
            Err(_) => return last,
        }
    }
}

/// Nothing that was popped is there, nothing that was pushed and not popped is missing.
fn judge_queue(left: &[u64], (issued, acked): (u64, u64), popped: u64) {
    let whole = left.windows(2).all(|two| two[0] + 1 == two[1]);
    let shown = format!("{left:?} of {acked} to {issued}, taken {popped}");
    assert!(whole, "a hole: {shown}");
    match (left.first(), left.last()) {
        // One may have been popped without its reply arriving.
        (Some(&first), Some(&last)) => {
            assert!(first > popped && first <= popped + 2, "{shown}");
            assert!(last >= acked && last <= issued, "{shown}");
        }
        _ => assert!(popped + 1 >= acked, "{shown}"),
    }
}

/// Starts a server and kills it at a random instant, on which nothing depends.
fn kill_in_recovery(scratch: &Scratch, random: &mut Random) {
    let mut child = command(&scratch.0, &SETTINGS).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_micros(random.next() % 30_000));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What all kills have shown.
#[derive(Default)]
struct Figures {
    acked: u64,
    checked: usize,
    in_recovery: usize,
    recovery_max: Duration,
}

/// One run under load, the kill, and the check of the contents.
fn live_and_die(
    scratch: &Scratch,
    kill: usize,
    random: &mut Random,
    old: &mut VecDeque<(String, Vec<Value>)>,
    figures: &mut Figures,
) {
    let runtime = if kill % 4 == 3 { "threads" } else { "fibers" };
    let server = Server::start(&scratch.0, &[&SETTINGS[..], &[("runtime", runtime)]].concat());
    let all = format!("e{kill}:");
    let own = |client: usize| format!("{all}{client}:");
    let (begun, begins) = std::sync::mpsc::channel();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (client, begun) = (server.connect(), begun.clone());
            let (own, all) = (own(number), all.clone());
            std::thread::spawn(move || load(client, &own, &all, &begun))
        })
        .collect();
    let jobs = format!("{all}jobs");
    let (one, other) = ((server.connect(), jobs.clone()), (server.connect(), jobs.clone()));
    let pusher = std::thread::spawn(move || push(one.0, &one.1));
    let popper = std::thread::spawn(move || pop(other.0, &other.1));
    (0..CLIENTS).for_each(|_| begins.recv_timeout(PATIENCE).unwrap());
    // The kill comes after a number of acknowledgements, not after a time.
    let mut client = server.connect();
    (0..random.below(60)).for_each(|_| drop(client.say("INCR n")));
    server.signal("-KILL");
    let known: Vec<_> = clients.into_iter().map(|c| c.join().unwrap()).collect();
    let (pushed, popped) = (pusher.join().unwrap(), popper.join().unwrap());
    drop(server);
    if kill % 3 == 2 {
        kill_in_recovery(scratch, random);
        figures.in_recovery += 1;
    }
    let began = Instant::now();
    let server = Server::start(&scratch.0, &SETTINGS);
    figures.recovery_max = figures.recovery_max.max(began.elapsed());
    let mut client = server.connect();
    for (number, known) in known.iter().enumerate() {
        let found = read(&mut client, &own(number));
        judge(&found, known, &format!("kill {kill}, client {number}"));
        old.push_back((own(number), found));
        figures.acked += known.acked.iter().sum::<u64>();
        figures.checked += READS.len();
    }
    let shared: u64 = client.say(&format!("GET {all}shared")).parse().unwrap();
    let sum = |of: fn(&Known) -> u64| known.iter().map(of).sum::<u64>();
    let (least, most) = (sum(|known| known.acked[COUNTS]), sum(|known| known.issued));
    assert!((least..=most).contains(&shared), "{shared} is not in {least}..={most}");
    let left = numbers(&client.ask(&format!("LRANGE {jobs} 0 -1")));
    judge_queue(&left, pushed, popped);
    figures.acked += pushed.1 + popped;
    while old.len() > 4 * CLIENTS {
        old.pop_front();
    }
    for (own, found) in old.iter() {
        assert_eq!(read(&mut client, own), *found, "kill {kill}: {own} is not as it was");
    }
    server.signal("-KILL");
}

/// `PUMICE_SERVE_KILLS=N` kills it N times (3).
// Plain #[test]: it only waits for other processes.
#[test]
fn killed_under_load_it_has_everything_acknowledged() {
    let (kills, seed) = (setting("PUMICE_SERVE_KILLS", 3), setting("PUMICE_SEED", 1));
    println!("PUMICE_SEED={seed}");
    let scratch = Scratch::new("kills");
    let (mut random, mut old) = (Random::new(seed as u64), VecDeque::new());
    let mut figures = Figures::default();
    for kill in 0..kills {
        live_and_die(&scratch, kill, &mut random, &mut old, &mut figures);
    }
    let Figures { acked, checked, in_recovery, recovery_max } = figures;
    println!(
        "KILLS {kills} in_recovery={in_recovery} acknowledged={acked} keys_checked={checked} \
         lost=0 longest_start={recovery_max:?}"
    );
    assert!(acked as usize >= kills * CLIENTS * OPERATIONS.len());
    let names: BTreeSet<_> = old.iter().map(|(own, _)| own).collect();
    assert_eq!(names.len(), old.len());
}
