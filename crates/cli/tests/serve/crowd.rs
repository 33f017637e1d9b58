//! More connections than there may be.

use std::process::Command;

use super::client::{Client, encode_line};
use super::{Scratch, Server, info, setting, wait_until};

/// Raises the limit of descriptors of this process and its children to `count`, if permitted.
fn allow_descriptors(count: usize) {
    let own = std::process::id().to_string();
    let limit = format!("--nofile={count}:");
    let done = Command::new("prlimit").args(["--pid", &own, &limit]).status();
    assert!(done.is_ok_and(|status| status.success()), "prlimit {limit}");
}

/// `PUMICE_SERVE_CROWD=N` connects N, of which five sixths may stay (360).
// Plain #[test]: it only waits for other processes.
#[test]
fn those_beyond_maxclients_are_told_so_and_the_others_served() {
    let crowd = setting("PUMICE_SERVE_CROWD", 360);
    let most = crowd / 6 * 5;
    if crowd > 500 {
        allow_descriptors(crowd + 2000);
    }
    let scratch = Scratch::new("crowd");
    let server = Server::start(&scratch.0, &[("maxclients", &most.to_string())]);
    let mut first = server.connect();
    assert_eq!(first.say("PING"), "PONG");
    let before = server.memory_bytes();
    let mut inside = vec![first];
    let mut refused = 0;
    for _ in 1..crowd {
        let mut client = Client::to(server.port).unwrap();
        // A client that comes too late gets an error without a request; it may see the connection
        // end before that.
        if client.send(b"PING\r\n").is_err() {
            refused += 1;
            continue;
        }
        match client.receive() {
            Ok(reply) if reply.to_string() == "PONG" => inside.push(client),
            Ok(reply) => {
                assert_eq!(reply.to_string(), "-ERR max number of clients reached");
                client.until_closed();
                refused += 1;
            }
            Err(error) => panic!("no answer: {error}"),
        }
    }
    assert_eq!((inside.len(), refused), (most, crowd - most));
    let idle = server.memory_bytes().saturating_sub(before);
    // All at the same time.
    for (number, client) in inside.iter_mut().enumerate() {
        let lines = [format!("SET c{number} {number}"), format!("GET c{number}")];
        client.send(&lines.map(|line| encode_line(&line)).concat()).unwrap();
    }
    for (number, client) in inside.iter_mut().enumerate() {
        assert_eq!(client.receive().unwrap().to_string(), "OK");
        assert_eq!(client.receive().unwrap().to_string(), number.to_string());
    }
    let busy = server.memory_bytes().saturating_sub(before);
    let rejected = info(&mut inside[0], "rejected_connections");
    assert_eq!(rejected, refused);
    println!(
        "CROWD {crowd} served={most} refused={refused} memory_each_idle={} memory_each_busy={}",
        idle / most,
        busy / most
    );
    assert!(idle / most < 64 << 10 && busy / most < 96 << 10, "{idle} {busy}");
    // Freed places are given out again.
    let mut one = inside.pop().unwrap();
    inside.clear();
    wait_until("the others are gone", || info(&mut one, "connected_clients") == 1);
    assert_eq!(server.connect().say(&format!("GET c{}", most - 1)), (most - 1).to_string());
    server.end_well();
}
