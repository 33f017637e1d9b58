//! Debian's redis-cli.

use std::process::{Command, Output};

use pumice_port::fiber::offload;
use pumice_port::net::SocketAddr;

use super::super::Scratch;
use super::{Papers, address, start_tls};

fn redis_cli(to: SocketAddr, args: &[&str]) -> Output {
    let (host, port) = (to.ip().to_string(), to.port().to_string());
    let mut command = Command::new("timeout");
    command.args(["120", "redis-cli", "-h", &host, "-p", &port]).args(args);
    offload(|| command.output()).expect("redis-cli is installed (cargo xtask peers)")
}

#[pumice_test_macros::test]
fn redis_cli_is_served_if_it_may_connect() {
    let scratch = Scratch::new("tls-cli");
    let papers = Papers::make(scratch.path());
    let running = start_tls(scratch.path(), &papers, "yes", &[]);
    let (ca, other) = (papers.certificate("ca"), papers.certificate("other"));
    let (client, key) = (papers.certificate("client"), papers.key("client"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ask = |words: &[&str]| {
        let mut args = vec!["--tls", "--cacert", &ca, "--cert", &client, "--key", &key];
        args.extend(words);
        let output = redis_cli(address(&running), &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim_end().to_string()
    };
    assert_eq!(ask(&["SET", "a", "1"]), "OK");
    assert_eq!(ask(&["INCR", "a"]), "2");
    assert_eq!(ask(&["-3", "CONFIG", "GET", "tls-auth-clients"]), "tls-auth-clients yes");
    for (what, args) in [
        ("another authority", &["--tls", "--cacert", &other, "PING"][..]),
        ("no certificate", &["--tls", "--cacert", &ca, "PING"]),
        ("plain bytes", &["PING"]),
    ] {
        let output = redis_cli(address(&running), args);
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && !printed.contains("PONG"), "{what}: {printed}");
    }
    assert_eq!(ask(&["GET", "a"]), "2");
    running.stop().unwrap();
}
