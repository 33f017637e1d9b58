//! `cargo xtask examples`: builds and runs every program in `crates/pumice/examples`, each in its
//! own directory, and checks what it prints.
//!
//! Each counts as one test of `cargo xtask test`. A program that is in the folder but not in the
//! list, or vice versa, is a failure. What the one for Prometheus prints is also checked by
//! `promtool`, of Debian's package prometheus, where that is installed.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::suite::{cargo, target};

/// Where they are.
const FOLDER: &str = "crates/pumice/examples";
/// A database that RocksDB wrote, for the example that opens one.
const OF_ROCKSDB: &str = "tests/testdata/rocksdb-11.9/default.tar.gz";

/// Name and lines that the output must contain, complete and in this order.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("bulk_load", &["100000 entries in a file", "row 7 is Some(\"row 7\")", "100000 rows"]),
    ("checkpoint", &["the database: 112 keys", "the backup: 1000 keys"]),
    ("counter", &["/ 3", "/about 11", "/prices 1"]),
    ("fibers", &["2000 clients on 2 loops read 10000 bytes", "2000 keys"]),
    ("from_rocksdb", &["column families: default", "default: 631 keys", "moved: Some(3)"]),
    (
        "prometheus",
        &[
            "rocksdb_number_keys_written_total 1000",
            "rocksdb_number_keys_read_total 500",
            "rocksdb_estimate_num_keys 1000",
        ],
    ),
    (
        "secondary_index",
        &[
            "ada@example.org: None",
            "grace@example.org: Some(2)",
            "lovelace@example.org: Some(1)",
            "1 address begins with l",
        ],
    ),
    (
        "time_series",
        &[
            "attic: 11 measurements, 20.08 on average",
            "before: 360 measurements",
            "after: 122 measurements",
        ],
    ),
    (
        "tuning",
        &["write_buffer_size = 16777216", "10000 keys", "memtables may take 67108864 bytes"],
    ),
    ("web", &["201 ", "200 hello", "404 no such key"]),
];

/// The names, each with a run of it.
pub fn all() -> impl Iterator<Item = (&'static str, impl Fn(&Path) -> bool)> {
    EXAMPLES.iter().map(|(name, wanted)| (*name, |root: &Path| run_one(root, name, wanted)))
}

/// Builds them all; also false if the list does not match the folder.
fn build(root: &Path) -> bool {
    let mut command = cargo(root, &["build", "--quiet", "-p", "pumice", "--examples"]);
    is_complete(root) && command.status().is_ok_and(|status| status.success())
}

/// `cargo xtask examples`.
pub fn run(root: &Path) -> ExitCode {
    let mut failed = !build(root);
    for (name, run) in all() {
        println!("== {name}");
        if !run(root) {
            println!("== {name}: FAILED");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether the list matches the folder.
pub fn is_complete(root: &Path) -> bool {
    let Ok(folder) = std::fs::read_dir(root.join(FOLDER)) else { return false };
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let found: BTreeSet<String> = names.collect();
    let listed = EXAMPLES.iter().map(|(name, _)| format!("{name}.rs")).collect();
    if found != listed {
        eprintln!("{FOLDER} has {found:?}, the list has {listed:?}");
    }
    found == listed
}

fn run_one(root: &Path, name: &str, wanted: &[&str]) -> bool {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = parent.join(format!("pumice-example-{}-{name}", std::process::id()));
    let ran = run_in(root, &folder, name);
    let removed = std::fs::remove_dir_all(&folder);
    match (ran, removed) {
        (Ok(text), Ok(())) => {
            let mut lines = text.lines();
            let missing = wanted.iter().find(|want| !lines.any(|line| line == **want));
            if let Some(line) = missing {
                eprintln!("{name}: `{line}` is missing in its place in:\n{text}");
            }
            missing.is_none() && (name != "prometheus" || prometheus_takes(&text))
        }
        (ran, removed) => {
            eprintln!("{name}: {:?} {removed:?}", ran.err());
            false
        }
    }
}

/// `promtool check metrics` has nothing to say about the page; true without that program.
fn prometheus_takes(page: &str) -> bool {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = promtool.spawn() else {
        println!("prometheus: skipped promtool, which is not installed");
        return true;
    };
    let written = child.stdin.take().map(|mut pipe| pipe.write_all(page.as_bytes()));
    let said = child.wait_with_output().map(|output| (output.status.success(), output.stderr));
    match said {
        Ok((true, said)) if said.is_empty() && matches!(written, Some(Ok(()))) => true,
        said => {
            let said = said.map(|(_, said)| String::from_utf8_lossy(&said).into_owned());
            eprintln!("prometheus: promtool says {said:?}");
            false
        }
    }
}

/// Returns what the program prints; its database is below `folder`.
fn run_in(root: &Path, folder: &Path, name: &str) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(folder).map_err(text)?;
    let mut database = folder.join("db");
    if name == "from_rocksdb" {
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(root.join(OF_ROCKSDB)).arg("-C").arg(folder);
        if !tar.status().map_err(text)?.success() {
            return Err(format!("{OF_ROCKSDB} cannot be unpacked"));
        }
        database = folder.join("default").join("db");
    }
    let mut program = Command::new(target(root).join("debug/examples").join(name));
    program.arg(database).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = program.output().map_err(text)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{}:\n{text}", output.status)) }
}
