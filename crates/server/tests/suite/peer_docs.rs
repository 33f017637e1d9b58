//! The arguments of commands as COMMAND DOCS tells them, beside Debian's redis-server 7.0: equal to
//! the byte in both versions of the protocol, but for the commands that are named here.

use super::Scratch;
use super::connections::{Caller, start};
use super::peer::{Redis, ask};

/// Commands whose arguments differ, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("client|kill", "that its first form is deprecated is not told"),
    ("command|getkeys", "Redis 7.0 tells none, 7.2 does"),
    ("command|getkeysandflags", "Redis 7.0 tells none, 7.2 does"),
    ("shutdown", "an end cannot be aborted, since nothing is waited for"),
];

fn asked(caller: &mut Caller, words: &[&str]) -> String {
    let args: Vec<_> = words.iter().map(|word| word.to_string()).collect();
    String::from_utf8(ask(caller, &args)).unwrap()
}

/// What COMMAND DOCS says of the arguments of a command without subcommands: the end of its reply.
fn arguments(caller: &mut Caller, name: &str) -> Option<String> {
    let told = asked(caller, &["COMMAND", "DOCS", name]);
    told.split_once("$9\r\narguments\r\n").map(|(_, rest)| rest.to_string())
}

#[pumice_test_macros::test]
fn arguments_are_described_as_by_redis() {
    let scratch = Scratch::new("docs");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let (mut ours, mut theirs) = (Caller::to(&running), redis.connect());
    for protocol in ["2", "3"] {
        asked(&mut ours, &["HELLO", protocol]);
        asked(&mut theirs, &["HELLO", protocol]);
        let list = asked(&mut ours, &["COMMAND", "LIST"]);
        let names: Vec<_> = list.lines().filter(|line| !line.starts_with(['$', '*'])).collect();
        let is_parent = |name: &&str| {
            let parent = format!("{name}|");
            names.iter().any(|other| other.starts_with(&parent))
        };
        let leaves: Vec<_> = names.iter().copied().filter(|name| !is_parent(name)).collect();
        let with = leaves.iter().filter(|name| arguments(&mut ours, name).is_some()).count();
        assert!(with > 140, "{with} commands have arguments");
        let different = leaves.iter().filter(|name| {
            let (one, two) = (arguments(&mut ours, name), arguments(&mut theirs, name));
            let known = DIFFERENT.iter().any(|(known, _)| known == *name);
            let same = one == two;
            assert!(same || known, "RESP{protocol} {name}: ours {one:?}, redis's {two:?}");
            !same
        });
        assert_eq!(different.count(), DIFFERENT.len(), "all that is listed differs");
    }
    running.stop().unwrap();
}
