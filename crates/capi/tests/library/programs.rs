//! Programs in C, run with our library and with RocksDB 11.8.1's: they print the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{out_dir, shared_library};

/// RocksDB 11.8.1's library, by the variable or where `cargo xtask peers` puts it.
fn peer() -> PathBuf {
    if let Some(path) = std::env::var_os("PUMICE_ROCKSDB_11_SO") {
        return PathBuf::from(path);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(".peers/librocksdbjni-11.8.1.so");
    assert!(path.is_file(), "{} is not there: cargo xtask peers brings it", path.display());
    path
}

fn folder_with(library: &Path, folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder is made");
    for name in ["librocksdb.so", "librocksdb.so.11"] {
        std::os::unix::fs::symlink(library, folder.join(name)).expect("a link is made");
    }
    folder.to_path_buf()
}

fn printed(program: &Path, libraries: &Path, data: &Path, env: &[(&str, &Path)]) -> String {
    std::fs::create_dir_all(data).expect("a folder is made");
    let output = Command::new(program)
        .env("LD_LIBRARY_PATH", libraries)
        .env("SHOW_DIR", data)
        .envs(env.iter().copied())
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).replace(&*data.to_string_lossy(), "DIR");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}\n{text}\n{errors}", program.display(), output.status);
    text
}

/// A program, compiled, and the folders with our library and with RocksDB's.
struct Built {
    scratch: tempfile::TempDir,
    program: PathBuf,
    ours: PathBuf,
    theirs: PathBuf,
}

fn build(name: &str) -> Built {
    let folder = tempfile::tempdir().expect("a folder is made");
    let scratch = folder.path();
    let library = shared_library();
    let ours = folder_with(&library, &scratch.join("ours"));
    let theirs = folder_with(&peer(), &scratch.join("theirs"));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let program = scratch.join(name);
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-g", "-o"])
        .arg(&program)
        .arg(sources.join(format!("{name}.c")))
        .arg("-I")
        .arg(out_dir())
        .arg("-I")
        .arg(&sources)
        .arg("-L")
        .arg(&ours)
        .arg("-lrocksdb")
        .status();
    assert!(compiled.expect("a compiler is installed").success(), "{name}.c does not compile");
    Built { program, ours, theirs, scratch: folder }
}

/// Compares what the program prints, line by line.
fn same_on_both(name: &str) {
    let Built { scratch, program, ours, theirs } = build(name);
    let data = |whose: &str| scratch.path().join(whose);
    let (own, other) = (
        printed(&program, &ours, &data("data-ours"), &[]),
        printed(&program, &theirs, &data("data-theirs"), &[]),
    );
    let lines = own.lines().zip(other.lines()).enumerate();
    for (at, (own, other)) in lines {
        assert_eq!(own, other, "line {} of what {name} prints", at + 1);
    }
    assert_eq!(own.lines().count(), other.lines().count(), "{name}: {own}");
    assert!(own.lines().count() > 40);
}

#[test]
fn data() {
    same_on_both("data");
}

#[test]
fn operators() {
    same_on_both("operators");
}

#[test]
fn options() {
    same_on_both("options");
}

#[test]
fn transactions() {
    same_on_both("transactions");
}

#[test]
fn files() {
    same_on_both("files");
}

#[test]
fn copies() {
    same_on_both("copies");
}

#[test]
fn backups() {
    same_on_both("backups");
}

#[test]
fn recovery() {
    same_on_both("recovery");
}

/// What one library exports the other imports: all four ways give the same.
#[test]
fn exports_are_exchanged() {
    let Built { scratch, program, ours, theirs } = build("exchange");
    let mut exported = Vec::new();
    let mut imported = Vec::new();
    for (at, (from, to)) in
        [(&theirs, &theirs), (&ours, &theirs), (&theirs, &ours), (&ours, &ours)].iter().enumerate()
    {
        let exchange = scratch.path().join(format!("exchange-{at}"));
        std::fs::create_dir(&exchange).expect("a folder is made");
        let run = |mode: &str, libraries: &Path| {
            let env = [("MODE", Path::new(mode)), ("EXCHANGE", &exchange)];
            printed(&program, libraries, &scratch.path().join(format!("{mode}-{at}")), &env)
        };
        exported.push(run("export", from));
        imported.push(run("import", to));
    }
    assert!(imported[0].contains("ingested") && imported[0].contains("written"), "{}", imported[0]);
    assert!(exported.iter().all(|text| *text == exported[0]), "{exported:#?}");
    assert!(imported.iter().all(|text| *text == imported[0]), "{imported:#?}");
}
