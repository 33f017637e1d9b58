//! The client against a real server in this process, and against one that makes it wait.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::Duration;

use pumice_port::net::Listener;
use pumice_port::thread;
use pumice_server::{Config, IoMode, Running};

use super::flags::Place;
use super::*;

fn serve(dir: &Path, settings: &[(&str, &str)]) -> Running {
    let config = Config::new();
    config.set("dir", dir.join("db").to_str().unwrap()).unwrap();
    config.set("port", "0").unwrap();
    settings.iter().for_each(|(name, value)| config.set(name, value).unwrap());
    Running::start(config, IoMode::Auto).unwrap()
}

fn load_of(place: Place, test: &str) -> Load {
    Load {
        place,
        password: None,
        clients: 5,
        pipeline: 1,
        request: Request::of_test(test, 10).unwrap(),
        keys: 100,
        is_fill: test == "fill",
        requests: Some(300),
        seconds: None,
        rate: None,
        seed: 1,
    }
}

fn runtime() -> Runtime {
    Runtime::builder().loops(2).stack_bytes(STACK_BYTES).build().unwrap()
}

#[pumice_test_macros::test]
fn every_test_asks_as_often_as_it_says() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let socket = other.path().join("s");
    let by_port = serve(one.path(), &[("requirepass", "secret")]);
    let settings = [("unixsocket", socket.to_str().unwrap()), ("requirepass", "secret")];
    let by_name = serve(other.path(), &settings);
    let (tcp, unix) = (Place::Tcp(by_port.addresses()[0]), Place::Unix(socket));
    let runtime = runtime();
    for (index, test) in requests::TESTS.iter().enumerate() {
        let (running, place) = [(&by_port, &tcp), (&by_name, &unix)][index % 2];
        let stats = &running.shared().stats;
        let commands = || stats.commands.load(std::sync::atomic::Ordering::Relaxed);
        let mut load = load_of(place.clone(), test);
        load.password = Some("secret".to_string());
        load.pipeline = [1, 7][index % 2];
        load.rate = (index % 3 == 2).then_some(1e6);
        load.requests = Some(if *test == "fill" { 100 } else { 300 });
        let (wanted, before, mut calls) = (load.requests.unwrap(), commands(), 0);
        let tally = load::run(load, &runtime, || calls += 1).unwrap();
        assert_eq!((tally.latencies.count, tally.errors, tally.unsent), (wanted, 0, 0), "{test}");
        assert_eq!((commands() - before, calls), (wanted + 5, 1), "{test}");
        assert!(tally.latencies.max > 0);
    }
    // Each key of the first one once.
    assert!(by_port.shared().keyspace.keys_in(0).keys >= 100);
    let refused = load::run(load_of(tcp, "get"), &runtime, || ()).unwrap();
    assert_eq!((refused.latencies.count, refused.errors), (300, 300));
    assert_eq!(refused.first_error.unwrap(), "-NOAUTH Authentication required.");
    by_port.stop().unwrap();
    by_name.stop().unwrap();
    let nobody = load::run(load_of(unix, "ping"), &runtime, || ()).err().unwrap();
    assert!(nobody.starts_with("connecting: "), "{nobody}");
}

#[pumice_test_macros::test]
fn a_latency_counts_from_the_arrival() {
    const HELD: Duration = Duration::from_millis(300);
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind_tcp(any).unwrap();
    let place = Place::Tcp(listener.address().unwrap());
    let server = thread::spawn("server", move || {
        let stream = listener.accept().unwrap();
        let mut buf = [0; 1000];
        stream.receive(&mut buf).unwrap();
        // The server does not answer for a while; the other requests arrive meanwhile.
        thread::sleep(HELD);
        for _ in 0..10 {
            stream.send_all(b"+PONG\r\n").unwrap();
            if stream.receive(&mut buf).unwrap_or(0) == 0 {
                return;
            }
        }
    });
    let mut load = load_of(place, "ping");
    (load.clients, load.requests, load.rate) = (1, Some(10), Some(1000.0));
    let tally = load::run(load, &runtime(), || ()).unwrap();
    server.join().unwrap();
    assert_eq!(tally.latencies.count, 10);
    // All ten were due within some ten milliseconds, by the seed.
    let least = tally.latencies.percentile(10.0);
    assert!(least >= 200_000_000, "{least}");
}

#[pumice_test_macros::test]
fn what_it_says_has_all_figures() {
    let mut tally = Tally::default();
    tally.latencies.add(1_500_000, 200);
    tally.errors = 2;
    tally.first_error = Some("-ERR no".to_string());
    tally.unsent = 3;
    let words = ["--rate", "100", "--csv"].map(std::ffi::OsString::from);
    let flags = Flags::parse(&words).unwrap();
    let measured = Measured {
        flags: &flags,
        name: "set",
        tally,
        seconds: 2.0,
        client_cpu: 0.1,
        server_cpu: Some(0.02),
    };
    let line = measured.line().unwrap();
    assert_eq!(line.split(',').count(), CSV_HEAD.split(',').count());
    assert!(line.starts_with("\"set\",50,1,3,100,200,100.0,1.5000,"), "{line}");
    assert!(line.ends_with(",2,3,0.0000,0.100,500.000,0.020,100.000"), "{line}");
    let page = measured.page().unwrap();
    for part in [
        "200 requests in 2.00 s: 100 requests per second",
        "2 error replies, the first: -ERR no",
        "3 requests were never sent",
        "mean 1.500, p50 1.500",
        "0.02 s of CPU, 100.00 us a request",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(cpu_seconds(os::pid()).unwrap() >= 0.0);
    assert!(cpu_seconds(u32::MAX).unwrap_err().starts_with("/proc/4294967295/stat: "));
}
