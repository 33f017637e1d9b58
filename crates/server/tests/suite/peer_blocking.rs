//! Clients that wait, here and at Debian's redis-server 7.0: which client is served by which
//! element, in which order, with which reply.
//!
//! `PUMICE_SEED=N` replays a seed, `PUMICE_PEER=N` sets the number of steps (400).

use super::connections::{Caller, start, wait_until};
use super::peer::{Redis, ask, canonical, commands, encoded, number};
use super::{Random, Scratch};

/// Sent after each command that may block.
const MARK: &str = "$8\r\nthe mark\r\n";

/// A server with clients that wait and one that does not.
struct Side {
    waiting: Vec<Caller>,
    ids: Vec<String>,
    driver: Caller,
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_string).collect()
}

impl Side {
    fn new(mut connect: impl FnMut() -> Caller) -> Side {
        let mut waiting: Vec<_> = (0..5).map(|_| connect()).collect();
        let mut id = |caller: &mut Caller| {
            let reply = ask(caller, &words("CLIENT ID"));
            String::from_utf8(reply).unwrap().trim_start_matches(':').trim().to_string()
        };
        let ids = waiting.iter_mut().map(&mut id).collect();
        Side { waiting, ids, driver: connect() }
    }
    /// The replies to commands between semicolons.
    fn drive(&mut self, line: &str) -> String {
        let mut lines: Vec<_> = line.split("; ").collect();
        let last = lines.pop().unwrap();
        lines.iter().for_each(|line| self.driver.send(&encoded(&words(line))));
        let reply = ask(&mut self.driver, &words(last));
        let (mut at, mut replies) = (0, String::new());
        while at < reply.len() {
            replies += &(canonical(&reply, &mut at, false) + "; ");
        }
        replies
    }
    /// Whether each client waits.
    fn who_waits(&mut self) -> Vec<bool> {
        let list = self.drive("CLIENT LIST");
        let waits = |id: &String| {
            let line = list.split("id=").find(|line| line.split(' ').next() == Some(id)).unwrap();
            line.split(' ').any(|field| field.starts_with("flags=") && field.contains('b'))
        };
        self.ids.iter().map(waits).collect()
    }
    /// Lets a client begin; None if it waits, otherwise its reply.
    fn begin(&mut self, client: usize, line: &str) -> Option<String> {
        let mut bytes = encoded(&words(line));
        bytes.extend(b"*2\r\n$4\r\nECHO\r\n$8\r\nthe mark\r\n");
        self.waiting[client].send(&bytes);
        let mut reply = None;
        wait_until("it waits or has its reply", || {
            let waits = self.who_waits()[client];
            if !waits {
                reply = self.waiting[client].until_soon(MARK);
            }
            waits || reply.is_some()
        });
        reply
    }
}

fn waiting_command(random: &mut Random) -> String {
    let list = |random: &mut Random| format!("l{}", random.below(3));
    let sorted = |random: &mut Random| format!("z{}", random.below(2));
    let end = *random.pick(&["LEFT", "RIGHT"]);
    let (one, two) = (list(random), list(random));
    match random.below(8) {
        0 | 1 => format!("BLPOP {one} {two} 0"),
        2 => format!("BRPOP {one} 0"),
        3 => format!("BLMOVE {one} {two} {end} LEFT 0"),
        4 => format!("BRPOPLPUSH {one} {two} 0"),
        5 => format!("BLMPOP 0 2 {one} {two} {end} COUNT 2"),
        6 => format!("BZPOPMIN {} {} 0", sorted(random), sorted(random)),
        _ => format!("BZMPOP 0 1 {} MAX COUNT 2", sorted(random)),
    }
}

/// What the driver does: lines, of which `ID` is a client's number.
fn driving_commands(random: &mut Random) -> Vec<String> {
    let mut one = || {
        let list = format!("l{}", random.below(3));
        let other = format!("l{}", random.below(3));
        let value = random.below(100);
        match random.below(11) {
            0 | 1 => format!("RPUSH {list} {value}"),
            2 => format!("LPUSH {list} a{value} b{value} c{value}"),
            3 => format!("ZADD z{} {value} m{value} 1 n", value % 2),
            4 => format!("DEL {list} {other} z0"),
            5 => format!("SET {list} text"),
            6 => format!("RENAME {list} {other}"),
            7 => format!("ZADD {list} 1 a"),
            8 => format!("RPUSH source {value}"),
            9 => format!("COPY source {list}"),
            _ => format!("LLEN {list}"),
        }
    };
    let mut lines: Vec<String> = (0..3).map(|_| one()).collect();
    match random.below(6) {
        0 => vec![format!("MULTI; {}; EXEC", lines.join("; "))],
        1 => vec!["CLIENT UNBLOCK ID".to_string()],
        2 => vec!["CLIENT UNBLOCK ID ERROR".to_string()],
        _ => vec![lines.swap_remove(0)],
    }
}

#[pumice_test_macros::test]
fn those_who_wait_are_served_as_by_redis() {
    let scratch = Scratch::new("waiting");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let mut sides = [Side::new(|| Caller::to(&running)), Side::new(|| redis.connect())];
    let seed = number("PUMICE_SEED", 1);
    let mut random = Random::new(seed);
    let mut waits = [false; 5];
    let mut served = 0;
    for step in 0..commands(400) {
        let client = random.below(5) as usize;
        let mut told = Vec::new();
        let mut replies = [Vec::new(), Vec::new()];
        if !waits[client] && random.below(2) == 0 {
            let line = waiting_command(&mut random);
            for (side, replies) in sides.iter_mut().zip(&mut replies) {
                replies.push(side.begin(client, &line));
            }
            waits[client] = replies[0][0].is_none();
            told.push(format!("{client}: {line}"));
        } else {
            let lines = driving_commands(&mut random);
            for (side, replies) in sides.iter_mut().zip(&mut replies) {
                for line in &lines {
                    let line = line.replace("ID", &side.ids[client]);
                    replies.push(Some(side.drive(&line)));
                }
                let now = side.who_waits();
                for (client, now) in now.iter().enumerate() {
                    let was = waits[client];
                    assert!(was || !now, "{client} began to wait");
                    replies.push((was && !now).then(|| side.waiting[client].until(MARK)));
                }
            }
            for (waits, reply) in waits.iter_mut().zip(&replies[0][lines.len()..]) {
                served += u32::from(reply.is_some());
                *waits &= reply.is_none();
            }
            told = lines;
        }
        assert_eq!(replies[0], replies[1], "seed {seed} step {step}: {told:?}");
    }
    assert!(u64::from(served) * 20 >= commands(400), "{served} were served");
    running.stop().unwrap();
}
