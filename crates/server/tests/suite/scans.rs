//! SCAN and its kin over names of any length, while elements go.

use std::collections::BTreeSet;

use pumice::perf::{self, PerfLevel, PerfMetric};

use super::{Client, Quiet, Scratch};

/// The cursor and the names of a reply.
fn step(server: &Quiet, client: &mut Client, args: &[&str]) -> (String, Vec<String>) {
    let reply = super::text(&server.ask(client, args));
    let mut words = reply.split('|').filter(|word| !word.starts_with(['*', '$']));
    let cursor = words.next().unwrap().to_string();
    (cursor, words.map(str::to_string).collect())
}

/// Names of any length, which begin alike or not.
fn names(bytes: usize, alike: bool) -> Vec<String> {
    let fill = "n".repeat(bytes);
    let name =
        |n: usize| if alike { format!("{{t}}{fill}{n:05}") } else { format!("{n:05}{fill}") };
    (0..2000).map(name).collect()
}

#[pumice_test_macros::test]
fn a_walk_ends_whatever_is_deleted_and_however_long_names_are() {
    let scratch = Scratch::new("scans");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    for (bytes, alike) in [(1, false), (600, false), (600, true), (70_000, false)] {
        let names =
            if bytes > 9999 { names(bytes, alike)[..200].to_vec() } else { names(bytes, alike) };
        for deletes in [false, true] {
            for name in &names {
                server.ask(client, &["SADD", "s", name]);
                server.ask(client, &["SET", &format!("key:{name}"), "v"]);
            }
            for command in ["SSCAN", "SCAN"] {
                perf::set_level(PerfLevel::EnableCount);
                perf::reset();
                let (mut cursor, mut seen, mut steps) = ("0".to_string(), BTreeSet::new(), 0);
                loop {
                    let args = match command {
                        "SSCAN" => vec![command, "s", &cursor],
                        _ => vec![command, &cursor, "MATCH", "key:*"],
                    };
                    let (next, found) = step(&server, client, &args);
                    // Enough stay for the cursor to be needed.
                    for name in found.iter().filter(|_| deletes) {
                        if command == "SCAN" {
                            server.ask(client, &["DEL", name]);
                        } else if !name.ends_with("99") && !name.starts_with("00099") {
                            server.ask(client, &["SREM", "s", name]);
                        }
                    }
                    seen.extend(found);
                    steps += 1;
                    cursor = next;
                    if cursor == "0" {
                        break;
                    }
                }
                let walked = perf::context().get(PerfMetric::IterNextCount);
                perf::set_level(PerfLevel::Disable);
                let what = format!("{command}, {bytes} bytes, alike: {alike}, deletes: {deletes}");
                assert_eq!(seen.len(), names.len(), "{what}");
                assert!(steps < names.len() / 8, "{what}: {steps} steps");
                // A generation that is written anew is walked once more.
                assert!(walked < 12 * names.len() as u64, "{what}: {walked} moves");
            }
            server.say(client, "DEL s");
        }
        server.say(client, "FLUSHALL");
    }
}

/// What a cursor stands for is forgotten from the oldest on, and stays within its memory.
#[pumice_test_macros::test]
fn many_walks_over_long_names_go_on() {
    let scratch = Scratch::new("walks");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    // More than are remembered: names that differ at their end alone.
    for n in 0..300 {
        let name = format!("{}{n:04}", "n".repeat(100_000));
        server.ask(client, &["SADD", "s", &name]);
    }
    let mut cursors = Vec::new();
    let mut cursor = "0".to_string();
    loop {
        let (next, found) = step(&server, client, &["SSCAN", "s", &cursor, "COUNT", "1"]);
        assert_eq!(found.len(), 1);
        if next == "0" {
            break;
        }
        cursors.push(next.clone());
        cursor = next;
    }
    assert_eq!(cursors.len(), 299);
    for (n, cursor) in cursors.iter().enumerate().step_by(50) {
        let (_, found) = step(&server, client, &["SSCAN", "s", cursor, "COUNT", "1"]);
        assert!(found[0].ends_with(&format!("n{:04}", n + 1)), "{n}");
    }
}

/// A walk over a set through which elements go, so that it is written anew again and again, goes on
/// though the element at which it stands is gone.
#[pumice_test_macros::test]
fn a_walk_goes_on_in_a_new_generation() {
    let scratch = Scratch::new("anew");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    (0..200).for_each(|n| drop(server.say(client, &format!("SADD s m{n:03}"))));
    let (mut cursor, mut steps, mut seen) = ("0".to_string(), 0, BTreeSet::new());
    loop {
        let (next, found) = step(&server, client, &["SSCAN", "s", &cursor]);
        // The last one is gone when the walk goes on, and more than are written anew.
        server.say(client, &format!("SREM s {}", found[found.len() - 1]));
        for n in 0..700 {
            server.say(client, &format!("SADD s z{n}"));
            server.say(client, &format!("SREM s z{n}"));
        }
        seen.extend(found);
        steps += 1;
        cursor = next;
        if cursor == "0" {
            break;
        }
        assert!(steps < 30, "it does not end");
    }
    assert_eq!((seen.len(), steps), (200, 20));
}
