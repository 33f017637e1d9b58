//! TLS: a build without it says so; one with it serves, and shuts down cleanly.

use std::process::{Command, Stdio};

use super::{Scratch, command};

#[cfg(not(feature = "tls"))]
// Plain #[test]: it only waits for other processes.
#[test]
fn a_build_without_tls_refuses_its_settings() {
    let scratch = Scratch::new("no-tls");
    for name in
        ["tls-port", "tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-auth-clients"]
    {
        let output = command(&scratch.0, &[(name, "1")]).stderr(Stdio::piped()).output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(printed.contains("this build has no TLS"), "{printed}");
        assert!(printed.contains("cargo build --release --features tls"), "{printed}");
    }
    let help = Command::new(env!("CARGO_BIN_EXE_pumice")).args(["serve", "--help"]).output();
    assert!(!String::from_utf8(help.unwrap().stdout).unwrap().contains("--tls-"));
}

#[cfg(feature = "tls")]
mod with {
    use std::io::{BufRead, BufReader, Read};
    use std::net::TcpListener;
    use std::process::Child;

    use super::super::Server;
    use super::*;

    /// A self-signed certificate, and its key.
    fn certificate(scratch: &Scratch) {
        let config = "[req]\ndistinguished_name = dn\n[dn]\n";
        std::fs::write(scratch.0.join("openssl.cnf"), config).unwrap();
        let mut command = Command::new("openssl");
        command.current_dir(&scratch.0).args(["req", "-x509", "-config", "openssl.cnf", "-nodes"]);
        command.args(["-newkey", "rsa:2048", "-days", "30", "-subj", "/CN=localhost"]);
        command.args(["-addext", "subjectAltName = DNS:localhost"]);
        let made = command.args(["-keyout", "own.key", "-out", "own.crt"]).output();
        let made = made.expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// redis-cli with the given arguments.
    fn redis_cli(scratch: &Scratch, (host, port): (&str, &str), words: &[&str]) -> Child {
        let mut command = Command::new("timeout");
        command.args(["120", "redis-cli", "-h", host, "-p", port, "--tls", "--cacert", "own.crt"]);
        command.args(words).current_dir(&scratch.0).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("redis-cli is installed (cargo xtask peers)")
    }

    // Plain #[test]: it only waits for other processes.
    #[test]
    fn tls_serves_and_ends_with_clients_there() {
        let scratch = Scratch::new("tls");
        certificate(&scratch);
        // A loopback address for this process alone, so no other listens there. The system picks a
        // free port.
        let [_, a, b, c] = std::process::id().to_be_bytes();
        let host = format!("127.{}.{b}.{c}", 64 + a % 128);
        let free = TcpListener::bind((host.as_str(), 0)).unwrap().local_addr().unwrap().port();
        let port = free.to_string();
        let place = (host.as_str(), port.as_str());
        for (life, signal) in ["-TERM", "-INT"].into_iter().enumerate() {
            let settings = [
                ("bind", host.as_str()),
                ("tls-port", port.as_str()),
                ("tls-cert-file", "own.crt"),
                ("tls-key-file", "own.key"),
                ("tls-auth-clients", "no"),
                ("auth-timeout", "3600"),
            ];
            let mut child = command(&scratch.0, &settings).spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            while !line.starts_with("listening on") {
                line.clear();
                assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
            }
            // There is no plain port before it.
            let wanted = format!("listening on {host}:{port} for TLS: redis-cli --tls -h {host}");
            assert!(line.starts_with(&wanted), "{line}");
            let server = Server { child, lines, port: free };
            let mut listens = redis_cli(&scratch, place, &["SUBSCRIBE", "c"]);
            let mut printed = BufReader::new(listens.stdout.take().unwrap());
            let mut line = String::new();
            assert!(printed.read_line(&mut line).unwrap() > 0 && line == "subscribe\n", "{line}");
            let one = redis_cli(&scratch, place, &["INCR", "lives"]).wait_with_output().unwrap();
            assert_eq!(String::from_utf8(one.stdout).unwrap(), format!("{}\n", life + 1));
            server.signal(signal);
            let (status, text) = server.end();
            assert!(status.success(), "{signal}: {status}");
            assert!(text.contains("everything is on disk"), "{text}");
            // It sees the end.
            printed.read_to_string(&mut line).unwrap();
            listens.wait().unwrap();
        }
    }
}
