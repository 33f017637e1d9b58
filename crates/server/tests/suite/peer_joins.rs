//! ZUNION, ZINTER and their relatives over sets of any sizes, beside Debian's redis-server 7.0:
//! sums of floating-point numbers depend on their order, and infinities on what they meet first.
//!
//! `PUMICE_SEED=N` replays a seed, `PUMICE_PEER=N` sets the number of commands (3,000).

use super::connections::{Caller, start};
use super::peer::{Redis, ask, canonical, commands, number};
use super::{Random, Scratch};

const SCORES: &[&str] = &["0.1", "0.2", "0.3", "1e17", "-1e17", "inf", "-inf", "0", "-0.7", "3"];
const WEIGHTS: &[&str] = &["1", "0", "-1", "0.1", "inf", "-inf", "3"];

fn drawn(random: &mut Random) -> Vec<String> {
    let set = |random: &mut Random| format!("z{}", random.below(6));
    let mut words: Vec<String> = Vec::new();
    match random.below(10) {
        0 => words.extend(["DEL".to_string(), set(random)]),
        1..=4 => {
            words.extend(["ZADD".to_string(), set(random)]);
            for _ in 0..=random.below(4) {
                words.push(random.pick(SCORES).to_string());
                words.push(format!("m{}", random.below(5)));
            }
        }
        5 => words.extend(["SADD".to_string(), "s".to_string(), format!("m{}", random.below(5))]),
        _ => {
            let stores = random.below(4) == 0;
            let name = *random.pick(&["ZUNION", "ZINTER"]);
            words.push(format!("{name}{}", if stores { "STORE" } else { "" }));
            words.extend(stores.then(|| set(random)));
            let count = 2 + random.below(4);
            words.push(count.to_string());
            for _ in 0..count {
                let key = set(random);
                words.push(if random.below(8) == 0 { "s".to_string() } else { key });
            }
            if random.below(2) == 0 {
                words.push("WEIGHTS".to_string());
                words.extend((0..count).map(|_| random.pick(WEIGHTS).to_string()));
            }
            if random.below(3) == 0 {
                words.push("AGGREGATE".to_string());
                words.push(random.pick(&["SUM", "MIN", "MAX"]).to_string());
            }
            words.extend((!stores).then(|| "WITHSCORES".to_string()));
        }
    }
    words
}

#[pumice_test_macros::test]
fn sums_over_sets_are_those_of_redis() {
    let seed = number("PUMICE_SEED", 1);
    let random = &mut Random::new(seed);
    let scratch = Scratch::new("joins");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let (mut ours, mut theirs) = (Caller::to(&running), redis.connect());
    let fixed = ["ZADD a inf m", "ZADD b -inf m 1 n", "ZADD c inf m 1 n 1 o"].iter().chain(&[
        "ZUNION 3 c b a WITHSCORES",
        "ZINTER 3 c b a WITHSCORES",
        "ZADD d 0.1 m 1 x 1 y",
        "ZADD e 0.2 m 1 x",
        "ZADD f 0.3 m",
        "ZUNION 3 d e f WITHSCORES",
        "ZINTER 3 d e f WITHSCORES",
    ]);
    let fixed = fixed.map(|line| line.split(' ').map(str::to_string).collect::<Vec<_>>());
    let lines: Vec<_> = fixed.chain((0..commands(3000)).map(|_| drawn(random))).collect();
    for args in lines {
        let (one, two) = (ask(&mut ours, &args), ask(&mut theirs, &args));
        let told = |reply: &[u8]| canonical(reply, &mut 0, false);
        assert_eq!(told(&one), told(&two), "seed {seed}: {}", args.join(" "));
    }
    running.stop().unwrap();
}
