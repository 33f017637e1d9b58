//! Accepted clients are served as without TLS.

use pumice_port::thread;
use pumice_server::Running;
use rustls::version::{TLS12, TLS13};

use super::super::Scratch;
use super::super::connections::{Caller, PATIENCE, start, wait_until};
use super::{Papers, TlsCaller, address, start_there, start_tls};

#[pumice_test_macros::test]
fn both_versions_and_all_sizes() {
    let scratch = Scratch::new("tls-sizes");
    let papers = Papers::make(scratch.path());
    let running = start_tls(scratch.path(), &papers, "yes", &[("requirepass", "secret")]);
    let value = vec![b'v'; 10 << 20];
    for version in [&TLS12, &TLS13] {
        let config = papers.of_client("ca", Some("client"), &[version]);
        let mut caller = TlsCaller::to(address(&running), &config);
        assert_eq!(caller.line("GET a"), "-NOAUTH Authentication required.");
        assert_eq!(caller.line("AUTH secret"), "+OK");
        for len in [0, 1, 16_383, 16_384, 16_385, 100_000, value.len()] {
            let mut request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n").into_bytes();
            request.extend_from_slice(&value[..len]);
            request.extend_from_slice(b"\r\nGET k\r\nPING end\r\n");
            caller.send(&request);
            let replies = caller.until(b"$3\r\nend\r\n");
            let head = format!("+OK\r\n${len}\r\n");
            assert_eq!(replies.len(), head.len() + len + b"\r\n$3\r\nend\r\n".len());
            assert!(replies.starts_with(head.as_bytes()));
            assert_eq!(replies[head.len()..].iter().filter(|b| **b == b'v').count(), len);
        }
        caller.send(b"QUIT\r\n");
        assert_eq!(caller.until_closed().unwrap(), "+OK");
    }
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn pipelines_and_bytes_in_single_steps() {
    let scratch = Scratch::new("tls-steps");
    let papers = Papers::make(scratch.path());
    for runtime in ["fibers", "threads"] {
        let settings = [("appendfsync", "always"), ("runtime", runtime)];
        let running = start_tls(&scratch.path().join(runtime), &papers, "no", &settings);
        pipelines(&papers, &running);
        running.stop().unwrap();
    }
}

fn pipelines(papers: &Papers, running: &Running) {
    let config = papers.of_client("ca", None, &[&TLS13]);
    thread::scope(|scope| {
        for client in 0..6 {
            let (config, address) = (&config, address(running));
            scope.spawn(move || {
                let mut caller = TlsCaller::to(address, config);
                // The first sends each byte of the handshake and of its records separately.
                if client == 0 {
                    caller.tls.sock.most = 1;
                }
                let mut bytes = String::new();
                for i in 0..100 {
                    bytes += &format!("SET k{client}:{i} {i}\r\nINCR shared\r\n");
                }
                bytes += "PING end\r\n";
                let (one, two) = bytes.as_bytes().split_at(777);
                caller.send(one);
                caller.send(two);
                let replies = String::from_utf8(caller.until(b"$3\r\nend\r\n")).unwrap();
                assert_eq!(replies.matches("+OK\r\n").count(), 100);
            });
        }
    });
    let mut caller = TlsCaller::to(address(running), &config);
    assert_eq!(caller.line("DBSIZE"), ":601");
    assert_eq!(caller.line("SETRANGE shared 0 0600"), ":4");
    // More replies than the server makes before the client has to read some.
    let gets = "GET shared\r\n".repeat(5000);
    caller.send(format!("{gets}PING end\r\n").as_bytes());
    let replies = String::from_utf8(caller.until(b"$3\r\nend\r\n")).unwrap();
    assert_eq!(replies.matches("$4\r\n0600\r\n").count(), 5000);
}

#[pumice_test_macros::test]
fn who_listens_and_who_waits_is_told() {
    let scratch = Scratch::new("tls-pubsub");
    let papers = Papers::make(scratch.path());
    let running = start_tls(scratch.path(), &papers, "no", &[]);
    let config = papers.of_client("ca", None, &[&TLS13]);
    let new = || TlsCaller::to(address(&running), &config);
    let (mut listens, mut waits, mut says) = (new(), new(), new());
    listens.send(b"HELLO 3\r\nSUBSCRIBE c\r\n");
    listens.until(b":1\r\n");
    waits.send(b"BLPOP l 0\r\n");
    // A connection's own replies and others' messages are sent by two tasks.
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..500 {
                assert_eq!(says.line(&format!("PUBLISH c m{i}")), ":1");
            }
            assert_eq!(says.line("RPUSH l x"), ":1");
        });
        scope.spawn(|| {
            for i in 0..500 {
                listens.send(format!("ECHO e{i}\r\n").as_bytes());
            }
            let mut seen = String::new();
            while !(seen.contains("e499\r\n") && seen.contains("m499\r\n")) {
                seen += &String::from_utf8(listens.until(b"\r\n")).unwrap();
            }
            let of = |letter: &str| -> Vec<u32> {
                let numbers = seen.split("\r\n").filter_map(|line| line.strip_prefix(letter));
                numbers.filter_map(|number| number.parse().ok()).collect()
            };
            let all: Vec<u32> = (0..500).collect();
            assert_eq!((of("m"), of("e")), (all.clone(), all));
        });
    });
    assert_eq!(waits.until(b"x\r\n"), b"*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn plain_and_tls_side_by_side_and_what_info_says() {
    let scratch = Scratch::new("tls-both");
    let papers = Papers::make(scratch.path());
    let running = start_there(scratch.path(), |[port, plain_port]| {
        let mut settings = papers.settings("optional");
        settings.extend([("tls-port", port.clone()), ("port", plain_port.clone())]);
        settings
    });
    let plain_port = running.addresses()[0].port().to_string();
    let mut plain = Caller::to(&running);
    let config = papers.of_client("ca", None, &[&TLS13]);
    let mut covered = TlsCaller::to(address(&running), &config);
    assert_eq!(plain.line("SET a 1"), "+OK");
    assert_eq!(covered.line("INCR a"), ":2");
    let of =
        |text: String| text.lines().find_map(|l| l.strip_prefix("tcp_port:").map(String::from));
    plain.send(b"INFO server\r\nPING end\r\n");
    assert_eq!(of(plain.until("$3\r\nend\r\n")).unwrap(), plain_port);
    covered.send(b"CLIENT LIST\r\nPING end\r\n");
    let list = String::from_utf8(covered.until(b"$3\r\nend\r\n")).unwrap();
    assert!(list.contains(&format!("laddr={} ", address(&running))), "{list}");
    covered.send(b"CONFIG GET tls-auth-clients\r\n");
    covered.until(b"optional\r\n");
    running.stop().unwrap();
    // Where there is no other port.
    let running = start_tls(&scratch.path().join("two"), &papers, "no", &[]);
    let mut covered = TlsCaller::to(address(&running), &config);
    covered.send(b"INFO server\r\nPING end\r\n");
    let text = String::from_utf8(covered.until(b"$3\r\nend\r\n")).unwrap();
    assert_eq!(of(text).unwrap(), address(&running).port().to_string());
    running.stop().unwrap();
    let running = start(&scratch.path().join("three"), &[]);
    assert!(running.tls_addresses().is_empty());
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn the_end_is_said_to_all() {
    let scratch = Scratch::new("tls-end");
    let papers = Papers::make(scratch.path());
    for life in 0..3 {
        let running = start_tls(scratch.path(), &papers, "no", &[]);
        let config = papers.of_client("ca", None, &[&TLS13]);
        let mut all: Vec<_> = (0..4).map(|_| TlsCaller::to(address(&running), &config)).collect();
        for caller in &mut all {
            assert_eq!(caller.line("DBSIZE"), format!(":{}", life * 50));
        }
        all[1].send(b"SUBSCRIBE c\r\n");
        all[1].until(b":1\r\n");
        all[2].send(b"BLPOP nobody 0\r\n");
        wait_until("it waits", || running.shared().waiters.len() == 1);
        let commands: String = (0..50).map(|i| format!("SET {life}-{i} v\r\n")).collect();
        all[3].send(commands.as_bytes());
        let replies = all[3].until(&b"+OK\r\n".repeat(50));
        assert_eq!(replies.len(), 250);
        if life == 1 {
            all[0].send(b"SHUTDOWN\r\n");
            assert!(running.wait(PATIENCE));
        }
        running.stop().unwrap();
        for (number, caller) in all.iter_mut().enumerate() {
            let end = caller.until_closed();
            assert!(end.is_ok(), "client {number} was cut off: {end:?}");
        }
    }
}
