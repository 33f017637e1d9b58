//! Programs in C, run with our library and with RocksDB 11.8.1's: they print the same. And run
//! with ours under AddressSanitizer, whose malloc and memcpy the library then uses: memory that is
//! used after it was freed, freed twice or not at all ends the program.

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

/// The seeds of a program with drawn work, from `first` on: `usual` of them, or `PUMICE_SEEDS`.
fn seeds(first: u32, usual: u32) -> String {
    let count = std::env::var("PUMICE_SEEDS").unwrap_or_else(|_| usual.to_string());
    format!("{first} {count}")
}

pub fn folder_with(library: &Path, folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder is made");
    for name in ["librocksdb.so", "librocksdb.so.11"] {
        std::os::unix::fs::symlink(library, folder.join(name)).expect("a link is made");
    }
    folder.to_path_buf()
}

/// What the program prints with the library in `libraries`.
pub fn printed(program: &Path, libraries: &Path, data: &Path, set: &[(&str, &str)]) -> String {
    std::fs::create_dir_all(data).expect("a folder is made");
    let output = Command::new(program)
        .env("LD_LIBRARY_PATH", libraries)
        .env("SHOW_DIR", data)
        .envs(set.iter().copied())
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).replace(&*data.to_string_lossy(), "DIR");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}\n{text}\n{errors}", program.display(), output.status);
    text
}

/// Compiles a program of `tests/c` against the library in `libraries`.
pub fn compiled(name: &str, scratch: &Path, libraries: &Path, flags: &[&str]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let program = scratch.join(name);
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-g", "-rdynamic", "-o"])
        .arg(&program)
        .args(flags)
        .arg(sources.join(format!("{name}.c")))
        .arg("-I")
        .arg(out_dir())
        .arg("-I")
        .arg(&sources)
        .arg("-L")
        .arg(libraries)
        .args(["-Wl,--no-as-needed", "-lrocksdb", "-lpthread"])
        .status();
    assert!(compiled.expect("a compiler is installed").success(), "{name}.c does not compile");
    program
}

/// Compares what the program prints, line by line.
fn same_on_both(name: &str, set: &[(&str, &str)]) {
    let scratch = tempfile::tempdir().expect("a folder is made");
    let scratch = scratch.path();
    let ours = folder_with(&shared_library(), &scratch.join("ours"));
    let theirs = folder_with(&peer(), &scratch.join("theirs"));
    let program = compiled(name, scratch, &ours, &[]);
    let (own, other) = (
        printed(&program, &ours, &scratch.join("data-ours"), set),
        printed(&program, &theirs, &scratch.join("data-theirs"), set),
    );
    let mut heading = "";
    let lines = own.lines().zip(other.lines()).enumerate();
    for (at, (own, other)) in lines {
        if own.starts_with("seed ") {
            heading = own;
        }
        assert_eq!(own, other, "line {} of what {name} prints {heading}", at + 1);
    }
    assert_eq!(own.lines().count(), other.lines().count(), "{name}: {own}");
    assert!(own.lines().count() > 40);
}

/// Runs the program with ours under AddressSanitizer.
fn sound(name: &str) {
    let scratch = tempfile::tempdir().expect("a folder is made");
    let scratch = scratch.path();
    let ours = folder_with(&shared_library(), &scratch.join("ours"));
    let program = compiled(name, scratch, &ours, &["-O1", "-fsanitize=address"]);
    let set = [("ASAN_OPTIONS", "leak_check_at_exit=0:exitcode=9"), ("SHOW_SEEDS", "1001 3")];
    let text = printed(&program, &ours, &scratch.join("data-ours"), &set);
    assert!(text.lines().count() > 40);
}

#[test]
fn data() {
    same_on_both("data", &[]);
}

/// Bits that flip in batches and memtables.
#[test]
fn protected() {
    same_on_both("protected", &[]);
}

#[test]
fn operators() {
    same_on_both("operators", &[]);
}

#[test]
fn options() {
    same_on_both("options", &[]);
}

/// Drawn batches and schedules; `cargo xtask transactions` compares a thousand of them.
#[test]
fn drawn_transactions() {
    same_on_both("drawn_transactions", &[("SHOW_SEEDS", &seeds(0, 40))]);
}

#[test]
fn timestamps() {
    same_on_both("timestamps", &[]);
}

/// Traces, and compactions by a service whose worker is another process.
#[test]
fn elsewhere() {
    same_on_both("elsewhere", &[]);
}

/// A worker of RocksDB's compacts for a database of ours, and one of ours for RocksDB's.
#[test]
fn workers_are_exchanged() {
    let scratch = tempfile::tempdir().expect("a folder is made");
    let scratch = scratch.path();
    let ours = folder_with(&shared_library(), &scratch.join("ours"));
    let theirs = folder_with(&peer(), &scratch.join("theirs"));
    let program = compiled("elsewhere", scratch, &ours, &[]);
    let run = |primary: &Path, worker: &Path, name: &str| {
        let set = [("SHOW_WORKER", worker.to_str().expect("a path that is text"))];
        printed(&program, primary, &scratch.join(name), &set)
    };
    let expected = run(&theirs, &theirs, "one");
    assert_eq!(run(&ours, &theirs, "two"), expected);
    assert_eq!(run(&theirs, &ours, "three"), expected);
}

#[test]
fn elsewhere_is_sound() {
    sound("elsewhere");
}

#[test]
fn transactions() {
    same_on_both("transactions", &[]);
}

#[test]
fn files() {
    same_on_both("files", &[]);
}

/// `PUMICE_SEEDS=COUNT` draws more.
#[test]
fn drawn_calls() {
    same_on_both("drawn", &[("SHOW_SEEDS", &seeds(1, 12))]);
}

#[test]
fn data_is_sound() {
    sound("data");
}

#[test]
fn operators_are_sound() {
    sound("operators");
}

#[test]
fn options_are_sound() {
    sound("options");
}

#[test]
fn transactions_are_sound() {
    sound("transactions");
}

#[test]
fn files_are_sound() {
    sound("files");
}

#[test]
fn drawn_calls_are_sound() {
    sound("drawn");
}

#[test]
fn copies() {
    same_on_both("copies", &[]);
}

#[test]
fn backups() {
    same_on_both("backups", &[]);
}

#[test]
fn recovery() {
    same_on_both("recovery", &[]);
}

/// Runs a program in two modes, each with one of the libraries, in all four ways: what was printed.
fn exchanged(name: &str, modes: [&str; 2]) -> Vec<[String; 2]> {
    let scratch = tempfile::tempdir().expect("a folder is made");
    let ours = folder_with(&shared_library(), &scratch.path().join("ours"));
    let theirs = folder_with(&peer(), &scratch.path().join("theirs"));
    let program = compiled(name, scratch.path(), &ours, &[]);
    let ways = [(&theirs, &theirs), (&ours, &theirs), (&theirs, &ours), (&ours, &ours)];
    let run = |(at, (first, second)): (usize, &(&PathBuf, &PathBuf))| {
        let exchange = scratch.path().join(format!("exchange-{at}"));
        std::fs::create_dir(&exchange).expect("a folder is made");
        let printed = |mode: &str, libraries: &Path| {
            let set = [("MODE", mode), ("EXCHANGE", &*exchange.to_string_lossy())];
            printed(&program, libraries, &scratch.path().join(format!("{mode}-{at}")), &set)
        };
        [printed(modes[0], first), printed(modes[1], second)]
    };
    ways.iter().enumerate().map(run).collect()
}

/// What one library exports the other imports: all four ways give the same.
#[test]
fn exports_are_exchanged() {
    let printed = exchanged("exchange", ["export", "import"]);
    let imported = &printed[0][1];
    assert!(imported.contains("ingested") && imported.contains("written"), "{imported}");
    assert!(printed.iter().all(|way| *way == printed[0]), "{printed:#?}");
}

/// What one library prepared and committed at times, the other goes on with.
#[test]
fn timed_transactions_are_exchanged() {
    let printed = exchanged("timed_transactions", ["write", "read"]);
    for way in &printed {
        for (own, theirs) in way.iter().zip(&printed[0]) {
            for (own, theirs) in own.lines().zip(theirs.lines()) {
                assert_eq!(own, theirs, "{way:#?}");
            }
        }
    }
    assert!(printed[0][1].contains("prepared 1"), "{printed:#?}");
    assert!(printed.iter().all(|way| *way == printed[0]), "{printed:#?}");
}

/// Plain and cuckoo tables: each library reads what the other wrote, and goes on.
#[test]
fn other_formats_are_exchanged() {
    let printed = exchanged("other_formats", ["write", "again"]);
    let [_, again] = &printed[0];
    assert!(again.matches("258 keys").count() >= 6, "{again}");
    assert!(again.contains("reports it does not support DeleteRange"), "{again}");
    assert!(printed.iter().all(|way| *way == printed[0]), "{printed:#?}");
}

/// Each library places tables as the other does, and goes on with what the other wrote.
#[test]
fn paths_are_exchanged() {
    let printed = exchanged("paths", ["write", "again"]);
    let [first, second] = &printed[0];
    assert!(first.contains("in /fast") && first.contains("in /large"), "{first}");
    assert!(first.contains("in /rest") && second.contains("keys 160"), "{printed:#?}");
    assert!(printed.iter().all(|way| *way == printed[0]), "{printed:#?}");
}
