//! Clients that request much and read nothing.

use std::time::{Duration, Instant};

use super::client::{Client, encode, encode_line};
use super::{Scratch, Server, command, info, setting, wait_until};

/// Bytes of the value that they request, and how often each does.
const VALUE_BYTES: usize = 100_000;
const REQUESTS: usize = 500;
/// What all clients together may have.
const MEMORY: usize = 64 << 20;
/// From this many clients on the test also waits for their end.
const MANY: usize = 500;

/// Latency of another client's commands: median, 99th of 100, maximum.
fn others(client: &mut Client, commands: usize) -> [Duration; 3] {
    let mut took: Vec<Duration> = (0..commands)
        .map(|number| {
            let began = Instant::now();
            assert_eq!(client.say(&format!("SET o{} {number}", number % 100)), "OK");
            assert_eq!(client.say(&format!("GET o{}", number % 100)), number.to_string());
            began.elapsed()
        })
        .collect();
    took.sort();
    [took[commands / 2], took[commands * 99 / 100], took[commands - 1]]
}

/// `PUMICE_SERVE_SLOW=N` has N of them (40); a third listens to a channel and does not read that.
// Plain #[test]: it only waits for other processes.
#[test]
fn clients_that_do_not_read_cost_a_bounded_memory_and_slow_nobody() {
    let slow = setting("PUMICE_SERVE_SLOW", 40);
    let commands = if slow >= MANY { 5000 } else { 300 };
    let scratch = Scratch::new("slow");
    let limit = MEMORY.to_string();
    let mut command = command(&scratch.0, &[("maxmemory-clients", &limit)]);
    // Freed memory that the allocator keeps does not count.
    let server = Server::run(command.env("MIMALLOC_PURGE_DELAY", "0"));
    let mut other = server.connect();
    other.send(&encode(&["SET", "big", &"v".repeat(VALUE_BYTES)])).unwrap();
    assert_eq!(other.receive().unwrap().to_string(), "OK");
    let alone = others(&mut other, commands);
    let before = server.memory_bytes();
    let mut lazy = Vec::new();
    for number in 0..slow {
        let mut client = server.connect();
        let bytes = match number % 3 {
            0 => encode_line("SUBSCRIBE news"),
            1 => encode_line("GET big").repeat(REQUESTS),
            // One reply for all.
            _ => encode(&[vec!["MGET"], vec!["big"; REQUESTS]].concat()),
        };
        // Some of the earlier ones may have been disconnected meanwhile, but not this one.
        client.send(&bytes).unwrap();
        lazy.push(client);
    }
    let message = "m".repeat(VALUE_BYTES);
    let mut peak = 0;
    for _ in 0..200 {
        other.send(&encode(&["PUBLISH", "news", &message])).unwrap();
        other.receive().unwrap();
        peak = peak.max(server.memory_bytes());
    }
    let beside = others(&mut other, commands);
    peak = peak.max(server.memory_bytes());
    let (evicted, sent) =
        (info(&mut other, "evicted_clients"), info(&mut other, "total_net_output_bytes"));
    println!(
        "SLOW {slow} memory={} evicted={evicted} asked={} sent={sent} others alone={alone:?} \
         beside={beside:?}",
        peak - before,
        slow / 3 * 2 * REQUESTS * VALUE_BYTES
    );
    // The limit, what every client may begin with, and buffers that grow by being copied.
    assert!(peak - before < 6 * MEMORY, "{} bytes", peak - before);
    assert!(evicted > 0 || slow < MANY, "no client was disconnected");
    if slow >= MANY {
        // A client that reads no byte for a minute is disconnected; one that waits for messages is
        // not.
        wait_until("they are cut off", || info(&mut other, "connected_clients") <= slow / 3 + 2);
    }
    drop(lazy);
    wait_until("all are gone", || info(&mut other, "connected_clients") == 1);
    assert_eq!(info(&mut other, "panicked_commands"), 0);
    server.end_well();
}
