//! Channels over sockets: order, patterns, events of keys, both protocols.

use super::Scratch;
use super::connections::{Caller, start};
use super::text;

#[pumice_test_macros::test]
fn messages_reach_those_who_listen() {
    let scratch = Scratch::new("pubsub");
    let running = start(scratch.path(), &[("notify-keyspace-events", "KEA")]);
    let (mut one, mut two, mut says) =
        (Caller::to(&running), Caller::to(&running), Caller::to(&running));
    one.send(b"PING\r\nSUBSCRIBE a b\r\n");
    let both = "+PONG|*3|$9|subscribe|$1|a|:1|*3|$9|subscribe|$1|b|:2";
    assert_eq!(text(one.until("b\r\n:2\r\n").as_bytes()), both);
    two.send(b"HELLO 3\r\nPSUBSCRIBE ?\r\n");
    two.until("?\r\n:1\r\n");
    assert_eq!(says.line("PUBLISH a hello"), ":2");
    assert_eq!(says.line("PUBLISH nobody hello"), ":0");
    assert_eq!(text(one.until("hello\r\n").as_bytes()), "*3|$7|message|$1|a|$5|hello");
    assert_eq!(text(two.until("hello\r\n").as_bytes()), ">4|$8|pmessage|$1|?|$1|a|$5|hello");
    assert_eq!(says.line("PUBSUB NUMPAT"), ":1");
    let refused = one.line("GET a");
    assert!(refused.starts_with("-ERR Can't execute 'get': only (P|S)SUBSCRIBE"), "{refused}");
    one.send(b"PING\r\n");
    assert_eq!(text(one.until("$0\r\n\r\n").as_bytes()), "*2|$4|pong|$0");
    one.send(b"UNSUBSCRIBE\r\n");
    one.until("b\r\n:0\r\n");
    assert_eq!(one.line("DBSIZE"), ":0");
    // With RESP3, commands and messages can be mixed.
    assert_eq!(two.line("DBSIZE"), ":0");
    two.send(b"PSUBSCRIBE __key*__:*\r\n");
    two.until(":2\r\n");
    assert_eq!(says.line("SET k 1"), "+OK");
    let events = text(two.until("$1\r\nk\r\n").as_bytes());
    assert!(
        events.contains("__keyspace@0__:k|$3|set") && events.contains("__keyevent@0__:set|$1|k")
    );
    assert_eq!(says.line("MULTI"), "+OK");
    assert_eq!(says.line("SUBSCRIBE a"), "-ERR Command not allowed inside a transaction");
    drop(one);
    running.stop().unwrap();
    two.until_closed();
}

#[pumice_test_macros::test]
fn all_listeners_see_one_order() {
    let scratch = Scratch::new("order");
    let running = start(scratch.path(), &[]);
    let mut listeners: Vec<_> = (0..3).map(|_| Caller::to(&running)).collect();
    for listener in &mut listeners {
        listener.send(b"SUBSCRIBE c\r\n");
        listener.until(":1\r\n");
    }
    let mut speakers: Vec<_> = (0..3).map(|_| Caller::to(&running)).collect();
    for (number, speaker) in speakers.iter().enumerate() {
        let commands: String = (0..50).map(|i| format!("PUBLISH c {number}-{i}\r\n")).collect();
        speaker.send(commands.as_bytes());
    }
    for speaker in &mut speakers {
        speaker.until(&":3\r\n".repeat(50));
    }
    let mut last = Caller::to(&running);
    assert_eq!(last.line("PUBLISH c end"), ":3");
    let heard: Vec<_> = listeners.iter_mut().map(|l| l.until("$3\r\nend\r\n")).collect();
    assert!(heard.iter().all(|each| each == &heard[0]));
    running.stop().unwrap();
}
