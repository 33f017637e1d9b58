//! Clients that may not connect, and clients that take too long.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_port::net::Stream;
use pumice_port::thread;
use pumice_server::Running;
use rustls::version::{TLS12, TLS13};

use super::super::Scratch;
use super::super::connections::{Caller, PATIENCE, try_start, wait_until};
use super::{PATIENCE_NANOS, Papers, TlsCaller, address, start_tls};

/// An alert's first byte.
const ALERT: u8 = 21;

#[pumice_test_macros::test]
fn certificates_decide_who_may_connect() {
    let scratch = Scratch::new("tls-papers");
    let papers = Papers::make(scratch.path());
    for demand in ["yes", "optional", "no"] {
        let running = start_tls(scratch.path(), &papers, demand, &[]);
        for version in [&TLS12, &TLS13] {
            for (own, is_served) in [
                (None, demand != "yes"),
                (Some("client"), true),
                (Some("stranger"), demand == "no"),
            ] {
                let config = papers.of_client("ca", own, &[version]);
                let mut caller = TlsCaller::to(address(&running), &config);
                if is_served {
                    assert_eq!(caller.line("PING"), "+PONG", "{demand} {own:?}");
                } else {
                    let why = caller.refusal();
                    assert!(why.contains("fatal alert"), "{demand} {own:?} {version:?}: {why}");
                }
            }
            // A client that trusts another authority does not talk to this server.
            let config = papers.of_client("other", Some("client"), &[version]);
            let why = TlsCaller::to(address(&running), &config).refusal();
            assert!(why.contains("invalid peer certificate"), "{why}");
        }
        let clients = &running.shared().clients;
        wait_until("all have gone", || clients.is_empty() && clients.memory.used() == 0);
        running.stop().unwrap();
    }
}

/// Connections keep their settings; an invalid change has no effect.
#[pumice_test_macros::test]
fn certificates_are_read_anew_when_they_are_set() {
    let scratch = Scratch::new("tls-again");
    let papers = Papers::make(scratch.path());
    let running = start_tls(scratch.path(), &papers, "no", &[]);
    let of = |authority| papers.of_client(authority, None, &[&TLS13]);
    let to = |authority| TlsCaller::to(address(&running), &of(authority));
    let mut first = to("ca");
    assert_eq!(first.line("PING"), "+PONG");
    let (cert, key) = (papers.certificate("stranger"), papers.key("stranger"));
    let set = format!("CONFIG SET tls-cert-file {cert} tls-key-file {key}");
    // The certificate of one and the key of another, and a file that is not there.
    for (pair, why) in [
        (format!("tls-cert-file {cert}"), "tls-key-file"),
        (format!("timeout 5 tls-key-file {cert}.none"), "No such file"),
        ("tls-ca-cert-file /none tls-auth-clients yes".to_string(), "No such file"),
    ] {
        let reply = first.line(&format!("CONFIG SET {pair}"));
        assert!(reply.starts_with("-ERR CONFIG SET failed (possibly related to"), "{reply}");
        assert!(reply.contains("Unable to update TLS configuration: "), "{reply}");
        assert!(reply.contains(why), "{reply}");
        let config = &running.shared().config;
        assert_eq!(config.get("tls-cert-file"), papers.certificate("server"));
        assert_eq!(
            (config.get("timeout"), config.get("tls-auth-clients")),
            ("0".into(), "no".into())
        );
        assert_eq!(to("ca").line("PING"), "+PONG");
    }
    assert_eq!(first.line(&set), "+OK");
    let why = to("ca").refusal();
    assert!(why.contains("invalid peer certificate"), "{why}");
    assert_eq!(to("other").line("PING"), "+PONG");
    assert_eq!(first.line("PING"), "+PONG", "a connection keeps its keys");
    // The same names, other files: a renewal.
    std::fs::copy(papers.certificate("server"), &cert).unwrap();
    std::fs::copy(papers.key("server"), &key).unwrap();
    assert_eq!(to("other").line("PING"), "+PONG", "the files are not reloaded unasked");
    assert_eq!(first.line(&set), "+OK");
    assert_eq!(to("ca").line("PING"), "+PONG");
    // The set of clients that may connect changes too.
    let ca = papers.certificate("ca");
    assert_eq!(
        first.line(&format!("CONFIG SET tls-auth-clients yes tls-ca-cert-file {ca}")),
        "+OK"
    );
    assert!(to("ca").refusal().contains("fatal alert"));
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn plain_bytes_get_no_plain_bytes() {
    let scratch = Scratch::new("tls-plain");
    let papers = Papers::make(scratch.path());
    let running = start_tls(scratch.path(), &papers, "no", &[]);
    for bytes in [&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1\r\n\r\n", &[0; 100]] {
        let stream = Stream::connect_tcp(address(&running), PATIENCE_NANOS).unwrap();
        stream.set_receive_timeout(Some(PATIENCE_NANOS));
        stream.send_all(bytes).unwrap();
        let mut buf = [0; 1024];
        let n = stream.receive(&mut buf).unwrap();
        // An alert of 2 bytes, and nothing else.
        assert_eq!((n, buf[0], buf[3], buf[4]), (7, ALERT, 0, 2), "{:?}", &buf[..n]);
        assert_eq!(stream.receive(&mut buf).unwrap_or(0), 0);
    }
    wait_until("their places are free", || running.shared().clients.is_empty());
    running.stop().unwrap();
}

/// Clients whose handshake does not end: one sends nothing, one begins and stops, one keeps
/// sending.
fn endless(running: &Running) -> [Stream; 3] {
    let new = || Stream::connect_tcp(address(running), PATIENCE_NANOS).unwrap();
    let (silent, half, drips) = (new(), new(), new());
    // It may have been ended already.
    half.send_all(&[22, 3, 1, 2, 0, 1]).ok();
    // The head of a handshake message of 16 KiB.
    drips.send_all(&[22, 3, 1, 64, 0, 1, 0, 63, 252]).ok();
    [silent, half, drips]
}

#[pumice_test_macros::test]
fn a_handshake_takes_a_place() {
    let scratch = Scratch::new("tls-places");
    let papers = Papers::make(scratch.path());
    let running = start_tls(scratch.path(), &papers, "no", &[("maxclients", "3")]);
    let clients = &running.shared().clients;
    let begun = endless(&running);
    wait_until("all have a place", || clients.len() == 3);
    wait_until("they are charged", || clients.memory.used() >= 3 << 16);
    let refused = Stream::connect_tcp(address(&running), PATIENCE_NANOS).unwrap();
    refused.set_receive_timeout(Some(PATIENCE_NANOS));
    assert_eq!(refused.receive(&mut [0; 100]).unwrap(), 0, "no place, no words");
    drop(begun);
    wait_until("their places are free", || clients.is_empty() && clients.memory.used() == 0);
    let config = papers.of_client("ca", None, &[&TLS13]);
    assert_eq!(TlsCaller::to(address(&running), &config).line("PING"), "+PONG");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn a_handshake_has_to_end_in_time() {
    let scratch = Scratch::new("tls-slow");
    let papers = Papers::make(scratch.path());
    let running = start_tls(scratch.path(), &papers, "no", &[("auth-timeout", "1")]);
    let shared = running.shared();
    let [silent, half, drips] = endless(&running);
    wait_until("all were disconnected", || {
        // The server may have disconnected it.
        drips.send_all(&[0]).ok();
        thread::sleep(Duration::from_millis(20));
        let came = shared.stats.connections.load(Ordering::Relaxed) == 3;
        came && shared.clients.is_empty() && shared.clients.memory.used() == 0
    });
    for stream in [silent, half] {
        stream.set_receive_timeout(Some(PATIENCE_NANOS));
        // If it gets anything, it is an alert.
        let mut buf = [ALERT; 100];
        stream.receive(&mut buf).unwrap_or(0);
        assert_eq!(buf[0], ALERT);
    }
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn handshakes_count_as_memory_of_clients() {
    let scratch = Scratch::new("tls-memory");
    let papers = Papers::make(scratch.path());
    let settings = [("maxmemory-clients", "1mb"), ("auth-timeout", "3600")];
    let running = start_tls(scratch.path(), &papers, "no", &settings);
    let clients = &running.shared().clients;
    let begun: Vec<_> =
        (0..40).map(|_| Stream::connect_tcp(address(&running), PATIENCE_NANOS).unwrap()).collect();
    wait_until("some are disconnected", || clients.evicted.load(Ordering::Relaxed) > 0);
    drop(begun);
    wait_until("all have gone", || clients.is_empty() && clients.memory.used() == 0);
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn a_record_that_does_not_come_whole_is_a_request_that_does_not() {
    let scratch = Scratch::new("tls-record");
    let papers = Papers::make(scratch.path());
    let settings = [("request-timeout", "1"), ("auth-timeout", "3600")];
    let running = start_tls(scratch.path(), &papers, "no", &settings);
    let clients = &running.shared().clients;
    let config = papers.of_client("ca", None, &[&TLS13]);
    let mut caller = TlsCaller::to(address(&running), &config);
    assert_eq!(caller.line("PING"), "+PONG");
    let stream = &caller.tls.sock.stream;
    // The head of a record of 16 KiB.
    stream.send_all(&[23, 3, 3, 64, 0]).unwrap();
    wait_until("it was disconnected", || {
        // The server may have disconnected it.
        stream.send_all(&[0]).ok();
        thread::sleep(Duration::from_millis(20));
        clients.is_empty()
    });
    // A client that is idle between records stays.
    let mut silent = TlsCaller::to(address(&running), &config);
    assert_eq!(silent.line("PING"), "+PONG");
    thread::sleep(Duration::from_millis(1200));
    assert_eq!(silent.line("PING"), "+PONG");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn a_client_that_never_reads_is_not_read_from() {
    let scratch = Scratch::new("tls-reader");
    let papers = Papers::make(scratch.path());
    let running = start_tls(scratch.path(), &papers, "no", &[]);
    let config = papers.of_client("ca", None, &[&TLS13]);
    let mut lazy = TlsCaller::to(address(&running), &config);
    assert_eq!(lazy.line(&format!("SET big {}", "v".repeat(60_000))), "+OK");
    lazy.tls.sock.stream.set_send_timeout(Some(2_000_000_000));
    let gets = "GET big\r\n".repeat(1000);
    let mut sent = 0;
    while sent < 1000 && lazy.tls.write_all(gets.as_bytes()).is_ok() {
        sent += 1;
    }
    assert!(sent < 1000, "the server went on reading");
    let made = running.shared().stats.commands.load(Ordering::Relaxed);
    assert!(made < 10_000, "{made} commands");
    let mut other = TlsCaller::to(address(&running), &config);
    assert_eq!(other.line("PING"), "+PONG");
    drop(lazy);
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn what_is_missing_or_wrong_is_said_at_the_start() {
    let scratch = Scratch::new("tls-settings");
    let papers = Papers::make(scratch.path());
    let (server, key, ca) =
        (papers.certificate("server"), papers.key("server"), papers.certificate("ca"));
    let (other, none) = (papers.key("client"), scratch.path().join("none"));
    let (cert_file, key_file, ca_file) = ("tls-cert-file", "tls-key-file", "tls-ca-cert-file");
    let none = none.to_str().unwrap();
    for (settings, why) in [
        (vec![], "no tls-cert-file is set"),
        (vec![(cert_file, &*server)], "no tls-key-file is set"),
        (vec![(cert_file, &*server), (key_file, &*key)], "no tls-ca-cert-file is set"),
        (vec![(cert_file, none)], "tls-cert-file: "),
        (vec![(cert_file, &*key)], "no certificate in PEM"),
        (vec![(cert_file, &*server), (key_file, &*server)], "no private key in PEM"),
        (
            vec![(cert_file, &*server), (key_file, &*other), (ca_file, &*ca)],
            "tls-cert-file, tls-key-file: ",
        ),
        (vec![(cert_file, &*server), (key_file, &*key), (ca_file, &*key)], "tls-ca-cert-file: "),
    ] {
        let mut settings = settings;
        settings.push(("tls-port", "1"));
        let error = try_start(scratch.path(), &settings).err().unwrap();
        assert!(error.contains(why), "{error}, not {why}");
    }
    // Nothing of it was kept open.
    let running = try_start(scratch.path(), &[]).unwrap();
    assert_eq!(Caller::to(&running).line("PING"), "+PONG");
    assert!(!running.wait(PATIENCE / 120_000));
    running.stop().unwrap();
}
