//! Clients of other languages, from their registries, against `pumice serve`.
//!
//! | client | from | program | what pins it |
//! |---|---|---|---|
//! | redis-py | PyPI | `tests/clients/python` | versions and hashes |
//! | ioredis, node-redis | npm | `tests/clients/node` | package-lock.json |
//! | go-redis | the Go proxy | `tests/clients/go` | go.sum |
//! | Jedis | Maven Central | `tests/clients/java` | versions, Maven's checksums |
//!
//! A program gets a port, checks every answer, and fails at the first that differs from
//! redis-server's. `cargo xtask test` runs redis-py's, `cargo xtask clients` all of them. Programs
//! are copied into `.peers/clients` and run there, so that nothing is written next to them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use crate::peers;

/// A server on its own port, which is ended on drop.
struct Server {
    child: Child,
    port: String,
    folder: PathBuf,
}

impl Server {
    fn start(program: &Path) -> Result<Server, String> {
        let folder = std::env::temp_dir().join(format!("pumice-clients-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut command = Command::new(program);
        command.args(["serve", "--port", "0"]).current_dir(&folder).stdout(Stdio::piped());
        let child = command.spawn().map_err(|e| format!("{}: {e}", program.display()))?;
        let mut server = Server { child, port: String::new(), folder };
        let output = server.child.stdout.take().expect("stdout was set to a pipe");
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(rest) = line.strip_prefix("listening on 127.0.0.1:") {
                server.port = rest.split(':').next().unwrap_or_default().to_string();
                return Ok(server);
            }
        }
        Err("the server has ended".to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; leftovers in the folder do no harm.
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Words of a command, `PORT` among them.
type Words = &'static [&'static str];

/// (folder below `tests/clients`, what prepares it, what runs it)
const PROGRAMS: &[(&str, Words, Words)] = &[
    (
        "node",
        &["npm", "ci", "--silent", "--no-audit", "--no-fund"],
        &["node", "client.mjs", "PORT"],
    ),
    ("go", &["go", "mod", "verify"], &["go", "run", ".", "PORT"]),
    (
        "java",
        &["mvn", "-q", "-B", "-C", "dependency:copy-dependencies", "-DoutputDirectory=jars"],
        &["java", "-cp", "jars/*", "Client.java", "PORT"],
    ),
];

/// `cargo xtask clients`: all of them against the released binary.
pub fn run(root: &Path) -> ExitCode {
    let mut failed = 0;
    let mut report = |name: &str, result: Result<String, String>| match result {
        Ok(output) => print!("{output}"),
        Err(why) => {
            failed += 1;
            eprintln!("{name}: {why}");
        }
    };
    let built = peers::run_quietly("cargo", &["build", "--release", "-p", "pumice-cli"]);
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    match built.and_then(|()| Server::start(&target.join("release/pumice"))) {
        Ok(server) => {
            report("python", python(root, &server.port));
            for (folder, prepare, run) in PROGRAMS {
                report(folder, program(root, folder, prepare, run, &server.port));
            }
        }
        Err(why) => report("server", Err(why)),
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn python(root: &Path, port: &str) -> Result<String, String> {
    let modules = peers::install_redis_py(root)?;
    let mut command = Command::new("python3");
    command.arg("client.py").arg(port).current_dir(root.join("tests/clients/python"));
    output_of(command.env("PYTHONPATH", modules))
}

fn program(
    root: &Path,
    name: &str,
    prepare: &[&str],
    run: &[&str],
    port: &str,
) -> Result<String, String> {
    let (from, to) =
        (root.join("tests/clients").join(name), root.join(".peers/clients").join(name));
    let failed = |e: std::io::Error| format!("{}: {e}", from.display());
    fs::create_dir_all(&to).map_err(failed)?;
    for file in fs::read_dir(&from).map_err(failed)? {
        let file = file.map_err(failed)?;
        fs::copy(file.path(), to.join(file.file_name())).map_err(failed)?;
    }
    for words in [prepare, run] {
        let words: Vec<_> = words.iter().map(|w| if *w == "PORT" { port } else { *w }).collect();
        let mut command = Command::new(words[0]);
        let text = output_of(command.args(&words[1..]).current_dir(&to))?;
        if words.last() == Some(&port) {
            return Ok(text);
        }
    }
    Err("it has no port".to_string())
}

/// The output of a program that succeeds.
fn output_of(command: &mut Command) -> Result<String, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    let mut text = String::new();
    let mut output = child.stdout.take().expect("stdout was set to a pipe");
    let read = output.read_to_string(&mut text).map_err(|e| e.to_string())?;
    let status = child.wait().map_err(|e| e.to_string())?;
    if status.success() && read < 1 << 20 { Ok(text) } else { Err(format!("{status}\n{text}")) }
}
