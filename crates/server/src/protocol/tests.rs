//! Unit tests: requests cut at every byte, at random, and damaged; the texts of refusals; replies.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::reply::{Meter, Reply};
use super::request::{KeysAhead, Limits, Parser, ProtocolError, split_words};

type Commands = Vec<Vec<Vec<u8>>>;

/// Feeds `chunks` as a connection does.
fn run(chunks: &[&[u8]], limits: &Limits) -> (Commands, Option<ProtocolError>) {
    let (mut parser, mut input, mut commands) = (Parser::new(), Vec::new(), Commands::new());
    for chunk in chunks {
        input.extend_from_slice(chunk);
        loop {
            match parser.parse(&input, limits) {
                Err(error) => return (commands, Some(error)),
                Ok(false) => break,
                Ok(true) => {
                    let mut arguments = Vec::new();
                    parser.arguments(&input, &mut arguments);
                    commands.push(arguments.iter().map(|a| a.to_vec()).collect());
                    parser.next();
                }
            }
        }
        input.drain(..parser.done_bytes());
        parser.removed();
    }
    (commands, None)
}

fn request(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

// Plain #[test]: nothing here can suspend.
#[test]
fn keys_ahead_are_those_of_whole_short_arrays() {
    let ahead = |input: &[u8]| KeysAhead(input).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let pipeline: [&[&[u8]]; 4] = [
        &[b"GET", b"one"],
        &[b"SET", b"", b"*2\r\n$3\r\nGET\r\n"],
        &[b"SET", b"two", b"v", b"EX", b"5"],
        &[b"GET", b"three"],
    ];
    let bytes: Vec<u8> = pipeline.iter().flat_map(|words| request(words)).collect();
    let keys: Vec<Vec<u8>> = pipeline.iter().map(|words| words[1].to_vec()).collect();
    assert_eq!(ahead(&bytes), keys);
    for end in 0..bytes.len() {
        let found = ahead(&bytes[..end]);
        assert!(found.len() < keys.len() && keys.starts_with(&found), "{end}");
    }
    // The keys end where anything else begins.
    for other in [&b"PING\r\n"[..], &request(&[b"PING"]), b"*-1\r\n", b"*2\r\n$-1\r\n", b"*2x\r\n"]
    {
        assert_eq!(ahead(&[&request(&[b"GET", b"k"]), other, &bytes].concat()), [b"k"]);
    }
    let mut random = 7_u64;
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let at = (random >> 33) as usize % damaged.len();
            damaged[at] = b"*$\r\n0159a"[(random >> 20) as usize % 9];
        }
        let inside = |key: Vec<u8>| key.is_empty() || damaged.windows(key.len()).any(|w| w == key);
        assert!(KeysAhead(&damaged).map(<[u8]>::to_vec).all(inside));
    }
}

fn sample() -> (Vec<u8>, Commands) {
    let mut bytes = request(&[b"SET", b"key", b"value\r\n*1\r\n"]);
    bytes.extend_from_slice(b"PING\r\n\r\n*0\r\n*-1\r\nset \"a b\" '\\'c' \\x41 \"\\x41\\n\"\n");
    bytes.extend(request(&[b"GET", b""]));
    let words = |words: &[&[u8]]| words.iter().map(|w| w.to_vec()).collect::<Vec<_>>();
    let commands = vec![
        words(&[b"SET", b"key", b"value\r\n*1\r\n"]),
        words(&[b"PING"]),
        words(&[b"set", b"a b", b"'c", b"\\x41", b"A\n"]),
        words(&[b"GET", b""]),
    ];
    (bytes, commands)
}

// Plain #[test]: nothing here can suspend.
#[test]
fn a_line_that_comes_whole_has_the_same_limits() {
    let refused = |line: String, limits: &Limits| {
        let (commands, error) = run(&[line.as_bytes()], limits);
        assert!(commands.is_empty() == error.is_some());
        error.map(|error| error.0)
    };
    let line = |bytes: usize| "x".repeat(bytes) + "\r\n";
    assert_eq!(refused(line(65_000), &Limits::OPEN), None);
    let too_big = Some("too big inline request".to_string());
    assert_eq!(refused(line(66_000), &Limits::OPEN), too_big);
    let words = |words: usize| "x ".repeat(words) + "\r\n";
    assert_eq!(refused(words(10), &Limits::BEFORE_AUTH), None);
    let too_many = Some("unauthenticated multibulk length".to_string());
    assert_eq!(refused(words(11), &Limits::BEFORE_AUTH), too_many);
    assert_eq!(refused(words(11), &Limits::OPEN), None);
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

// Plain #[test]: nothing here can suspend.
#[test]
fn a_message_may_be_split_at_every_byte() {
    let (bytes, commands) = sample();
    for at in 0..=bytes.len() {
        let got = run(&[&bytes[..at], &bytes[at..]], &Limits::OPEN);
        assert_eq!(got, (commands.clone(), None), "split at {at}");
    }
    let single: Vec<_> = bytes.chunks(1).collect();
    assert_eq!(run(&single, &Limits::OPEN), (commands, None));
}

// Plain #[test]: nothing here can suspend.
#[test]
fn chunks_do_not_matter_and_no_bytes_panic() {
    for seed in 1..=400_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = Vec::new();
        for _ in 0..random.below(6) {
            bytes.extend(sample().0);
        }
        // Half of the runs are damaged somewhere.
        for _ in 0..random.below(2) * 3 {
            if !bytes.is_empty() {
                let at = random.below(bytes.len());
                bytes[at] = b"*$\r\n-0129\"\\"[random.below(11)];
            }
        }
        let whole = run(&[&bytes], &Limits::OPEN);
        let mut chunks = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (chunk, next) = rest.split_at(1 + random.below(rest.len()));
            chunks.push(chunk);
            rest = next;
        }
        assert_eq!(run(&chunks, &Limits::OPEN), whole, "seed {seed}");
        let noise: Vec<u8> = (0..200).map(|_| random.below(256) as u8).collect();
        assert_eq!(
            run(&[&noise], &Limits::OPEN),
            run(&[&noise[..100], &noise[100..]], &Limits::OPEN)
        );
    }
}

// Plain #[test]: nothing here can suspend.
#[test]
fn limits_are_refused_in_words() {
    let error = |bytes: &[u8], limits: &Limits| run(&[bytes], limits).1.unwrap().0;
    let open = &Limits::OPEN;
    assert_eq!(error(b"*1048577\r\n", open), "invalid multibulk length");
    assert_eq!(error(b"*x\r\n", open), "invalid multibulk length");
    assert_eq!(error(b"*1\r\n:1\r\n", open), "expected '$', got ':'");
    assert_eq!(error(b"*1\r\n$-1\r\n", open), "invalid bulk length");
    assert_eq!(error(b"*1\r\n$536870913\r\n", open), "invalid bulk length");
    assert_eq!(error(b"a \"b\r\n", open), "unbalanced quotes in request");
    assert_eq!(error(&[b'x'; 70_000], open), "too big inline request");
    let digits = [b"*".to_vec(), vec![b'1'; 70_000]].concat();
    assert_eq!(error(&digits, open), "too big mbulk count string");
    let digits = [b"*1\r\n$".to_vec(), vec![b'1'; 70_000]].concat();
    assert_eq!(error(&digits, open), "too big bulk count string");
    let before = &Limits::BEFORE_AUTH;
    assert_eq!(error(b"*11\r\n", before), "unauthenticated multibulk length");
    assert_eq!(error(b"*1\r\n$16385\r\n", before), "unauthenticated bulk length");
}

// Plain #[test]: nothing here can suspend.
#[test]
fn nothing_is_reserved_on_a_requests_word() {
    let mut parser = Parser::new();
    assert!(!parser.parse(b"*1000000\r\n$500000000\r\n", &Limits::OPEN).unwrap());
    assert!(parser.lacking(23) <= 500_000_002);
    assert!(std::mem::size_of_val(&parser) < 200);
}

// Plain #[test]: nothing here can suspend.
#[test]
fn quotes_end_words() {
    assert_eq!(split_words(b"a\"b\"c"), None);
    assert_eq!(split_words(b"a\"b\" c"), Some(vec![b"ab".to_vec(), b"c".to_vec()]));
    assert_eq!(split_words(b"  "), Some(vec![]));
    assert_eq!(split_words(b"\"\\"), None);
}

// Plain #[test]: nothing here can suspend.
#[test]
fn replies_follow_the_protocols_version() {
    let say = |resp3| {
        let mut reply = Reply::new();
        reply.resp3 = resp3;
        reply.ok();
        reply.error("ERR a\r\nb");
        reply.integer(-3);
        reply.bulk(b"x");
        reply.null();
        reply.null_array();
        reply.map(1);
        reply.set(2);
        reply.push(1);
        reply.double(1.5);
        reply.verbatim("t");
        String::from_utf8(reply.take()).unwrap()
    };
    let two = "+OK\r\n-ERR a  b\r\n:-3\r\n$1\r\nx\r\n$-1\r\n*-1\r\n\
               *2\r\n*2\r\n*1\r\n$3\r\n1.5\r\n$1\r\nt\r\n";
    let three =
        "+OK\r\n-ERR a  b\r\n:-3\r\n$1\r\nx\r\n_\r\n_\r\n%1\r\n~2\r\n>1\r\n,1.5\r\n=5\r\ntxt:t\r\n";
    assert_eq!((say(false).as_str(), say(true).as_str()), (two, three));
}

// Plain #[test]: nothing here can suspend.
#[test]
fn what_is_done_can_go_while_the_next_request_comes() {
    let value = vec![b'v'; 1000];
    let requests: Vec<_> = (0..50).map(|i| request(&[b"SET", &[i], &value])).collect();
    let bytes = requests.concat();
    for step in [1, 7, 900, 1024, 1500, 5000] {
        let (mut parser, mut input, mut seen) = (Parser::new(), Vec::new(), 0);
        for chunk in bytes.chunks(step) {
            input.extend_from_slice(chunk);
            while parser.parse(&input, &Limits::OPEN).unwrap() {
                let mut arguments = Vec::new();
                parser.arguments(&input, &mut arguments);
                assert_eq!(arguments, [b"SET", &[seen][..], &value]);
                parser.next();
                seen += 1;
            }
            input.drain(..parser.done_bytes());
            parser.removed();
            assert!(input.len() < requests[0].len(), "{} bytes are kept", input.len());
        }
        assert_eq!(seen, 50);
    }
}

/// Allows a mebibyte.
#[derive(Default)]
struct Mebibyte(AtomicUsize);

impl Meter for Mebibyte {
    fn grow(&self, bytes: usize) -> bool {
        self.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= 1 << 20
    }
}

#[pumice_test_macros::test]
fn replies_ask_before_they_grow() {
    const FREE: usize = 64 << 10;
    let meter = Arc::new(Mebibyte::default());
    let mut reply = Reply::metered(meter.clone());
    let asked = || meter.0.load(Ordering::Relaxed);
    reply.bulk(&[b'x'; 1000]);
    assert_eq!(asked(), 0, "small replies do not ask");
    while !reply.is_full() {
        assert!(reply.len() <= asked() + FREE, "{} after {}", reply.len(), asked());
        reply.bulk(&[b'x'; 1000]);
    }
    assert!(((1 << 20) - FREE..=(1 << 20) + FREE).contains(&reply.len()), "{}", reply.len());
    // The limit holds besides it, and sent output is dropped.
    reply.clear();
    meter.0.store(0, Ordering::Relaxed);
    reply.limit(100_000);
    reply.bulk(&[b'x'; 70_000]);
    assert!(!reply.is_full() && asked() == 100_000 - FREE, "{}", asked());
    reply.bulk(&[b'x'; 70_000]);
    assert!(reply.is_full() && asked() == 100_000 - FREE, "{}", asked());
}

// Plain #[test]: nothing here can suspend.
#[test]
fn a_large_reply_leaves_little_behind() {
    let mut reply = Reply::new();
    for bytes in [1_000_000, 20_000] {
        reply.bulk(&vec![b'v'; bytes]);
        reply.clear();
        assert!(reply.held_bytes() <= 1024, "{} bytes after {bytes}", reply.held_bytes());
    }
    // What most replies need stays.
    reply.bulk(&[b'v'; 5_000]);
    reply.clear();
    assert!(reply.held_bytes() >= 5_000);
}
