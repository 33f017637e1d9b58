//! `cargo xtask clients grocksdb`: the tests of the Go package grocksdb on the C library.
//!
//! Its sources come from the Go module proxy and are built by cgo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::expected;
use super::library::{self, Library};
use crate::suite;

const MODULE: &str = "github.com/linxGnu/grocksdb@v1.11.1";

/// Builds and runs them.
pub fn run(root: &Path, library: &Library) -> Result<(), String> {
    let folder = suite::target(root).join("clients/grocksdb");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let sources = folder.join("sources");
    library::copy_sources(&fetch(&folder)?, &sources)?;
    let log = folder.join("output.txt");
    let output = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let errors = output.try_clone().map_err(|e| format!("{}: {e}", log.display()))?;
    let lib = library.lib.display();
    let mut command = Command::new("go");
    command.args(["test", "-v", "-count=1", "-tags", "grocksdb_no_link", "."]);
    command.current_dir(&sources);
    command.env("CGO_CFLAGS", format!("-O1 -w -I{}", library.include.display()));
    command.env("LD_LIBRARY_PATH", &library.lib);
    command.env("CGO_LDFLAGS", format!("-L{lib} -lrocksdb -Wl,-rpath,{lib}"));
    command.stdout(output).stderr(errors);
    command.status().map_err(|e| format!("go test: {e}"))?;
    let text = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let results = expected::of_go(&String::from_utf8_lossy(&text));
    if results.is_empty() {
        return Err(format!("no test was run: {}", log.display()));
    }
    let list = fs::read_to_string(root.join("tests/clients/grocksdb.txt"))
        .map_err(|e| format!("tests/clients/grocksdb.txt: {e}"))?;
    let summary = expected::compare(&list, &results)
        .map_err(|wrong| format!("{wrong}\nall output: {}", log.display()))?;
    println!("grocksdb: {} tests pass, {} lack a feature", summary.passed, summary.lacking);
    Ok(())
}

/// Fetches the module, and finds where Go has unpacked it.
fn fetch(folder: &Path) -> Result<PathBuf, String> {
    let package = folder.join("fetch");
    fs::create_dir_all(&package).map_err(|e| format!("{}: {e}", package.display()))?;
    library::write(&package.join("go.mod"), "module fetch\n")?;
    let mut command = Command::new("go");
    command.args(["mod", "download", "-json", MODULE]).current_dir(&package);
    let output = command.output().map_err(|e| format!("go: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let dir = text.split_once("\"Dir\": \"").and_then(|(_, rest)| rest.split_once('"'));
    let (dir, _) = dir.ok_or(format!("go mod download {MODULE}: {text}"))?;
    Ok(PathBuf::from(dir))
}
