//! The page for Prometheus, also as its own `promtool` sees it, where that is installed.

use std::io::Write;
use std::process::{Command, Stdio};

use pumice_port::net::Stream;

use super::Scratch;
use super::connections::{Caller, PATIENCE};
use super::status::start_with;

/// What `promtool check metrics` says of a page: nothing if it is as Prometheus wants it. None
/// without that program.
fn promtool(page: &str) -> Option<String> {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().ok()?;
    child.stdin.take()?.write_all(page.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { said } else { format!("{}: {said}", output.status) })
}

#[pumice_test_macros::test]
fn prometheus_is_told_what_happens() {
    let scratch = Scratch::new("metrics");
    let running = start_with(&scratch, "metrics-port");
    let address = running.metrics().unwrap();
    let ask = |request: &str| {
        let stream = Stream::connect_tcp(address, PATIENCE.as_nanos() as u64).unwrap();
        stream.send_all(request.as_bytes()).unwrap();
        Caller::new(stream).until_closed()
    };
    let mut caller = Caller::to(&running);
    for i in 0..5 {
        assert_eq!(caller.line(&format!("SET k{i} v")), "+OK");
    }
    assert_eq!(caller.line("EXPIRE k1 1000"), ":1");
    assert!(caller.line("NOSUCH").starts_with("-ERR"));
    let page = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK|Content-Type: text/plain; version=0.0.4"), "{page}");
    let (head, body) = page.split_once("||").unwrap();
    let value = |name: &str| {
        let line = body.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let length = head.rsplit("Content-Length: ").next().unwrap().split('|').next().unwrap();
    // The text above has lost its last line end.
    assert!(length.parse::<usize>().unwrap().abs_diff(body.len()) <= 1, "{length}");
    assert_eq!(value("pumice_commands_total"), 7);
    assert_eq!(value("pumice_error_replies_total"), 1);
    assert_eq!(value("pumice_clients"), 1);
    assert_eq!(value("pumice_keys{db=\"0\"}"), 5);
    assert_eq!(value("pumice_keys_expiring{db=\"0\"}"), 1);
    assert_eq!(value("pumice_command_duration_seconds_count"), 6);
    assert_eq!(value("pumice_command_duration_seconds_bucket{le=\"+Inf\"}"), 6);
    assert!(value("pumice_received_bytes_total") > 50);
    assert!(value("pumice_engine_cur_size_all_mem_tables") > 0);
    // Each name is declared before its values.
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let known = |name: &str| body.contains(&format!("# TYPE {name} "));
        assert!(known(name) || family.is_some_and(known), "{line}");
    }
    match promtool(&format!("{body}\n")) {
        Some(said) => assert_eq!(said, ""),
        None => eprintln!("skipped: promtool, of Debian's package prometheus, is not installed"),
    }
    assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert_eq!(ask(&"x".repeat(9000)), "");
    running.stop().unwrap();
}
