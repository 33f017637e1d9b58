//! How it begins and ends.

use std::io::{BufRead, BufReader};
use std::process::Command;

use super::{Scratch, Server, command, wait_until};

// Plain #[test]: it only waits for other processes.
#[test]
fn it_says_where_it_listens_and_ends_in_good_order() {
    let scratch = Scratch::new("end");
    for signal in ["-TERM", "-INT"] {
        let server = Server::start(&scratch.0, &[]);
        let mut client = server.connect();
        client.say("INCR lives");
        assert_eq!(client.say("PING"), "PONG");
        server.signal(signal);
        let (status, printed) = server.end();
        assert!(status.success(), "{signal}: {status}");
        assert!(printed.contains("everything is on disk"), "{printed}");
    }
    let server = Server::start(&scratch.0, &[("appendfsync", "no")]);
    assert_eq!(server.connect().say("INCR lives"), "3");
}

// Plain #[test]: it only waits for other processes.
#[test]
fn it_needs_nobody_who_reads_what_it_says() {
    let scratch = Scratch::new("deaf");
    let mut child = command(&scratch.0, &[]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("listening on") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
    }
    drop(lines);
    let kill = || Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill().success());
    let mut status = None;
    wait_until("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success(), "{status:?}");
}
