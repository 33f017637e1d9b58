//! Numbers in all places where a command takes one, beside Debian's redis-server 7.0: base 10 and
//! 16, infinities, blanks, and numbers at the ends of double and of long double.
//!
//! `PUMICE_SEED=N` replays a seed, `PUMICE_PEER=N` sets how many numbers are drawn (600).

use super::connections::{Caller, start};
use super::peer::{Redis, ask, canonical, commands, number};
use super::{Random, Scratch};

/// What a list of texts does not draw often.
const TEXTS: &[&str] = &[
    "",
    " ",
    " 1",
    "1 ",
    "\t1",
    "1\0",
    "\0",
    ".",
    ".5",
    "5.",
    "1e",
    "e1",
    "1e+",
    "+1",
    "--1",
    "+-1",
    "1_0",
    "inf",
    "+inf",
    "-Infinity",
    "INF",
    "infin",
    "nan",
    "-nan",
    "nan(1)",
    "0x",
    "0x.",
    "0x.8",
    "0X1P3",
    "0x1p",
    "0x1p+",
    "+0x1",
    "x1",
    "0x1p-2.0",
    "-0",
    "-0x0",
    "0e99999",
    "0x0p999999999999",
    "1e308",
    "1.7976931348623157e308",
    "1.7976931348623158e308",
    "1.7976931348623159e308",
    "1e309",
    "1e4932",
    "1.18e4932",
    "1.19e4932",
    "1e-323",
    "3e-324",
    "2e-324",
    "4e-320",
    "1e-4950",
    "1e-4951",
    "1e-99999999999999999999",
    "1e99999999999999999999",
    "0x1.fffffffffffff7p1023",
    "0x1.fffffffffffff8p1023",
    "0x1p-1074",
    "0x1p-1075",
    "0x1.8p-1075",
    "0x1p16383",
    "0x1p16384",
    "0x1p-16445",
    "0x1p-16446",
    "0x1.1p-16446",
    "9007199254740993",
    "0x20000000000001",
    "0x1.00000000000008p0",
    "0x1.000000000000080000001p0",
    "18446744073709551615",
    "0xffffffffffffffff8",
    "0xffffffffffffffff7",
    "9223372036854775807",
];

/// `N` is the number; each begins with what it needs to be there.
const LINES: &[&str] = &[
    "INCRBYFLOAT s N",
    "INCRBYFLOAT s 0.25",
    "SET s N",
    "INCRBYFLOAT s 1",
    "INCR s",
    "HINCRBYFLOAT h f N",
    "HSET h f N",
    "HINCRBYFLOAT h f 1",
    "ZADD z N m",
    "ZADD z INCR N m",
    "ZSCORE z m",
    "ZINCRBY y N n",
    "ZADD x 1 a 2 b 1e300 c -inf d inf e",
    "ZCOUNT x N +inf",
    "ZCOUNT x (N inf",
    "ZRANGEBYSCORE x -inf N",
    "ZRANGE x N (1 BYSCORE REV",
    "ZUNION 1 x WEIGHTS N WITHSCORES",
    "RPUSH l N 7",
    "SORT l",
    "BLPOP nothing -N",
    "DEL s h z y l",
];

fn drawn(random: &mut Random) -> String {
    let mut text = String::new();
    let digits = |random: &mut Random, base: u64| -> String {
        let n = [0, 1, 3, 17, 30, 400][random.below(6) as usize];
        let digit = |_| char::from_digit(random.below(base) as u32, 16).unwrap();
        (0..n).map(digit).collect()
    };
    text += random.pick::<&str>(&["", "", "-", "+"]);
    let (base, mark, powers) = match random.below(2) {
        0 => (10, "e", [1, 30, 330, 5000]),
        _ => (16, "p", [1, 60, 1080, 16_500]),
    };
    text += if base == 16 { "0x" } else { "" };
    text += &digits(random, base);
    if random.below(2) == 0 {
        text += ".";
        text += &digits(random, base);
    }
    if random.below(3) > 0 {
        let power = *random.pick(&powers);
        text += mark;
        text += random.pick::<&str>(&["", "-", "-", "+"]);
        text += &random.below(power).to_string();
    }
    text
}

#[pumice_test_macros::test]
fn numbers_are_read_as_redis_reads_them() {
    let seed = number("PUMICE_SEED", 1);
    let random = &mut Random::new(seed);
    let scratch = Scratch::new("numbers");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let (mut ours, mut theirs) = (Caller::to(&running), redis.connect());
    let texts = TEXTS.iter().map(|text| text.to_string());
    let long = [4900, 4933, 5119, 5120].map(|n| "1".repeat(n));
    let random = (0..commands(600)).map(|_| drawn(random));
    let mut differences = Vec::new();
    for text in texts.chain(long).chain(random) {
        for line in LINES {
            // A timeout that rounds to none waits for ever.
            let is_one =
                text.starts_with(|c: char| ('1'..='9').contains(&c)) && !text.contains('-');
            if line.contains("-N") && !is_one {
                continue;
            }
            let args: Vec<_> = line.split(' ').map(|word| word.replace('N', &text)).collect();
            let args: Vec<_> = match line.split_once(' ') {
                // Names of commands have an N too.
                Some((name, _)) => {
                    std::iter::once(name.to_string()).chain(args.into_iter().skip(1)).collect()
                }
                None => args,
            };
            let (one, two) = (ask(&mut ours, &args), ask(&mut theirs, &args));
            let told = |reply: &[u8]| canonical(reply, &mut 0, false);
            // Here a weight may be smaller than a normal double.
            let is_tiny =
                line.starts_with("SORT") && (text.contains("e-3") || text.contains("p-10"));
            if told(&one) != told(&two) && !is_tiny {
                let (one, two) = (told(&one), told(&two));
                differences.push(format!("{line} of {text:?}\n  ours  {one}\n  redis {two}"));
            }
        }
    }
    running.stop().unwrap();
    assert!(differences.is_empty(), "seed {seed}: {}\n{}", differences.len(), {
        differences.truncate(20);
        differences.join("\n")
    });
}
