//! `cargo xtask clients rust-rocksdb`: the tests of the crate `rocksdb` on the C library.
//!
//! The crate's own tests are in its package. They are built against our header and linked to our
//! library, without a line changed; `tests/clients/rust-rocksdb.txt` lists those that pass on
//! RocksDB 11.8.1. bindgen needs libclang, which comes as a Python wheel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::expected;
use super::library::{self, Library};
use crate::suite;

const CRATE: &str = "rocksdb";
const VERSION: &str = "0.25.0";
const LIBCLANG: &str = "libclang==18.1.1";

/// Builds and runs them.
pub fn run(root: &Path, library: &Library) -> Result<(), String> {
    let folder = suite::target(root).join("clients/rust-rocksdb");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let unpacked = library::fetch_crate(&folder, CRATE, VERSION)?;
    let sources = folder.join("sources");
    library::copy_sources(&unpacked, &sources)?;
    let manifest = sources.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(|e| format!("{}: {e}", manifest.display()))?;
    library::write(&manifest, &format!("{text}\n[workspace]\n"))?;
    // It names the toolchain that it is developed with.
    fs::remove_file(sources.join("rust-toolchain.toml")).ok();
    // The build script of its part in C does not look whether the header is another one.
    let mut clean = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    clean.args(["clean", "--quiet", "-p", "librocksdb-sys"]).current_dir(&sources);
    library::check(clean.env("CARGO_TARGET_DIR", folder.join("target")))?;
    let log = folder.join("output.txt");
    let output = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let errors = output.try_clone().map_err(|e| format!("{}: {e}", log.display()))?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(["test", "--no-default-features", "--features", "bindgen-runtime"]);
    command.arg("--no-fail-fast").current_dir(&sources);
    command.env("CARGO_TARGET_DIR", folder.join("target")).env("ROCKSDB_LIB_DIR", &library.lib);
    command.env("LD_LIBRARY_PATH", &library.lib).env("LIBCLANG_PATH", libclang(&folder)?);
    command.env("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{}", compiler_headers()?.display()));
    command.env("ROCKSDB_INCLUDE_DIR", &library.include);
    // The compiler's warnings would stand among the results of the tests.
    command.env("RUSTFLAGS", "-A warnings").stdout(output).stderr(errors);
    // Failed tests make it fail too; the list says which of them count.
    command.status().map_err(|e| format!("cargo test: {e}"))?;
    let text = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let results = expected::of_cargo(&String::from_utf8_lossy(&text));
    if results.is_empty() {
        return Err(format!("no test was run: {}", log.display()));
    }
    let list = fs::read_to_string(root.join("tests/clients/rust-rocksdb.txt"))
        .map_err(|e| format!("tests/clients/rust-rocksdb.txt: {e}"))?;
    let summary = expected::compare(&list, &results)
        .map_err(|wrong| format!("{wrong}\nall output: {}", log.display()))?;
    println!("rust-rocksdb: {} tests pass, {} lack a feature", summary.passed, summary.lacking);
    Ok(())
}

/// The folder of libclang.so.
fn libclang(folder: &Path) -> Result<PathBuf, String> {
    let wheel = folder.join("libclang");
    let native = wheel.join("clang/native");
    if !native.join("libclang.so").is_file() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "-q", "--no-deps", "--target"]).arg(&wheel).arg(LIBCLANG);
        library::check(&mut pip)?;
    }
    Ok(native)
}

/// Where gcc has its own headers, which the wheel lacks.
fn compiler_headers() -> Result<PathBuf, String> {
    let output = Command::new("cc").arg("-print-file-name=include").output();
    let output = output.map_err(|e| format!("cc: {e}"))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}
