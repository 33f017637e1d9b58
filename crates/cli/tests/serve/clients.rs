//! Redis clients of other languages: here redis-py, with `cargo xtask clients` all of them.

use std::path::Path;
use std::process::Command;

use super::{Scratch, Server};

/// `PUMICE_REDIS_PY` names the folder of redis-py, which `cargo xtask peers` brings.
// Plain #[test]: it only waits for other processes.
#[test]
fn redis_py_finds_what_it_finds_with_redis() {
    let Some(modules) = std::env::var_os("PUMICE_REDIS_PY") else {
        println!("SKIPPED: PUMICE_REDIS_PY does not say where redis-py is (cargo xtask peers)");
        return;
    };
    let scratch = Scratch::new("python");
    let server = Server::start(&scratch.0, &[]);
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/python/client.py");
    let mut command = Command::new("timeout");
    command.arg("120").arg("python3").arg(program).arg(server.port.to_string());
    let output = command.env("PYTHONPATH", modules).output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("checks, no difference"), "{said}");
    server.end_well();
}
