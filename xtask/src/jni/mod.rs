//! `cargo xtask jni`: the library that RocksDB's Java classes load, and its tests with the jars of
//! Maven Central.
//!
//! | argument | does |
//! |---|---|
//! | none | builds `target/jni/librocksdbjni.so`, a jar with it alone, and one with the classes |
//! | `--table` | reads the native methods of the jars into `crates/jni/tables/natives.tsv` |
//! | `--test exports` | the library exports the methods of the table and nothing else |
//! | `--test own` | the programs in `crates/jni/tests/java` on RocksDB's library and on ours |
//! | `--test switch` | every way to switch, with the classes of every jar |
//! | `--test size` | bytes of the library, and how long it takes to load |
//! | `--test leaks` | opens, iterators and batches without end leave no memory and no thread |
//! | `--test fuzz`, `.. --seed N` | sequences of calls print the same with both libraries |
//! | `--bench`, `--bench crossing` | what calls cost with both, in turns; it does not judge |
//! | `--bench stores [MEGABYTES]` | memory of small stores, and a restore |
//! | `--example streams`, `flink`, `spark` | own programs on these engines, every mix |
//! | `--kill N` | a virtual machine that writes is killed N times, without and with a WAL |
//! | `--suite kafka`, `flink`, `bookkeeper` | the tests of their stores, on both |
//! | `--suite spark`, `.. --only TEXT`, `.. --resume` | the same, in as many runs as it takes |
//! | `--suite rheakv`, `.. --quick` | stores of RheaKV are killed, moved, replaced under load |
//! | `--suite rheakv ours`, `rocksdb`, `mixed` | all of it with one mix of the libraries |
//! | `--quick` | short forms of the tests and of RheaKV, with a library that is not optimised |
//!
//! `--profile NAME` builds with another profile than `dist`, `--no-build` takes the library that
//! is in `target/jni`.
//!
//! Needs a JDK 17, which is installed if there is none, and for the suites Maven.
//!
//! Thread safety: one caller, one process.

mod bench;
mod classes;
mod example;
mod fuzz;
mod harness;
mod history;
mod jars;
mod kill;
mod leaks;
mod own;
mod pack;
mod rheakv;
mod scalatest;
mod suites;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::peers::{apt_install, find_program};
use crate::suite::target;

const USAGE: &str = "usage: cargo xtask jni [--table | --quick | --kill N | \
    --test (exports | own | switch | size | leaks | \
    fuzz [--seed N]) | --bench [crossing | stores [MEGABYTES]] | --suite (kafka | flink | \
    bookkeeper | spark [--only TEXT] [--resume] | rheakv [--quick | \
    ours | rocksdb | mixed]) | --example (streams | flink | spark)] [--profile NAME | --no-build]";

/// The table of native methods.
const TABLE: &str = "crates/jni/tables/natives.tsv";
/// The name by which Java looks for the library first.
const LIBRARY: &str = "librocksdbjni.so";
/// Kills of `--quick`, in each mode.
const KILLS: u64 = 3;

/// Runs it with the words after `jni`.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let (words, made_by) = match words {
        [rest @ .., "--profile", profile] => (rest, Made::Now(profile)),
        [rest @ .., "--no-build"] => (rest, Made::Before),
        ["--quick"] => (words, Made::Now("plain")),
        _ => (words, Made::Now("dist")),
    };
    let done = match words {
        ["--table"] => table(root),
        ["--quick"] => quick(root, made_by),
        ["--test" | "--bench" | "--suite" | "--example" | "--kill", ..] | [] => {
            // Without a JDK the library can still be built; what needs one says so.
            if let Err(message) = find_jdk() {
                println!("jni: NO JDK HERE: {message}");
            }
            library(root, made_by).and_then(|library| with_library(root, &library, words))
        }
        _ => Err(USAGE.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask jni: {message}");
            ExitCode::FAILURE
        }
    }
}

/// What needs nothing but the library.
fn with_library(root: &Path, library: &Path, words: &[&str]) -> Result<(), String> {
    match words {
        [] => pack::run(root, library),
        ["--test", "exports"] => exports(root, library),
        ["--test", "own"] => own::run(root, library),
        ["--test", "switch"] => {
            pack::run(root, library)?;
            harness::switch(root, &jars::ALL.map(|(jar, _)| jar))
        }
        ["--test", "size"] => {
            pack::run(root, library)?;
            pack::sizes(root, library)
        }
        ["--test", "leaks"] => leaks::run(root, leaks::FULL),
        ["--test", "fuzz"] => fuzz::run(root, fuzz::SEEDS),
        ["--test", "fuzz", "--seed", seed] => {
            let seed: u64 = seed.parse().map_err(|_| USAGE.to_string())?;
            fuzz::run(root, seed..seed + 1)
        }
        ["--bench"] => bench::run(root),
        ["--bench", "stores"] => bench::stores(root, bench::RESTORE_MB),
        ["--bench", "stores", megabytes] => {
            bench::stores(root, megabytes.parse().map_err(|_| USAGE.to_string())?)
        }
        ["--bench", "crossing"] => bench::crossing(root),
        ["--kill", kills] => kill::run(root, kills.parse().map_err(|_| USAGE.to_string())?),
        ["--example", name] => example::run(root, name),
        ["--suite", "rheakv"] => rheakv::run(root, rheakv::FULL),
        ["--suite", "rheakv", "--quick"] => rheakv::run(root, rheakv::QUICK),
        ["--suite", "rheakv", mix] => {
            rheakv::run(root, rheakv::part(mix).ok_or_else(|| USAGE.to_string())?)
        }
        ["--suite", "spark", rest @ ..] => {
            let pick = scalatest::Pick::new(rest).ok_or_else(|| USAGE.to_string())?;
            scalatest::run(root, library, &pick)
        }
        ["--suite", name] => suites::run(root, name),
        _ => Err(USAGE.to_string()),
    }
}

/// What the tests of the project run. A machine that gets no JDK is told so, and builds the
/// library.
fn quick(root: &Path, made_by: Made<'_>) -> Result<(), String> {
    let library = library(root, made_by)?;
    exports(root, &library)?;
    if let Err(message) = find_jdk() {
        println!("jni: NO JDK HERE, the library is not run: {message}");
        return Ok(());
    }
    own::run(root, &library)?;
    pack::run(root, &library)?;
    harness::switch(root, &[jars::NEWEST])?;
    kill::run(root, KILLS)?;
    fuzz::run(root, fuzz::QUICK_SEEDS)?;
    leaks::run(root, leaks::QUICK)?;
    rheakv::run(root, rheakv::QUICK)
}

/// Installs Debian's JDK, and what unpacks jars, if they are missing.
fn find_jdk() -> Result<(), String> {
    for (program, package) in [("javac", "openjdk-17-jdk-headless"), ("unzip", "unzip")] {
        if find_program(program).is_none() {
            println!("jni: installing Debian's {package}");
            apt_install(package)?;
        }
    }
    Ok(())
}

/// Where the library comes from.
#[derive(Clone, Copy)]
enum Made<'a> {
    /// A build with this profile.
    Now(&'a str),
    /// It is there: a long run does not wait for a build, nor see what changes meanwhile.
    Before,
}

fn library(root: &Path, made_by: Made<'_>) -> Result<PathBuf, String> {
    let Made::Now(profile) = made_by else {
        let library = target(root).join("jni").join(LIBRARY);
        println!("jni: {} ({} bytes), as it is", library.display(), size(&library)?);
        return Ok(library);
    };
    build(root, profile)
}

/// The library, in `target/jni`, without its symbols if it is optimised.
fn build(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    // Cargo optimises over crates only where nothing but final kinds is made.
    command.current_dir(root).args(["rustc", "--quiet", "--package", "pumice-jni", "--lib"]);
    command.args(["--crate-type", "cdylib"]);
    if profile == "dist" {
        command.env("PUMICE_FOLD_CODE", "1");
    }
    execute(command.args(["--profile", profile]))?;
    let made = target(root).join(profile).join(LIBRARY);
    let folder = target(root).join("jni");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let library = folder.join(LIBRARY);
    copy(&made, &library)?;
    if profile != "plain" {
        execute(Command::new("strip").arg(&library))?;
    }
    println!("jni: {} ({} bytes)", library.display(), size(&library)?);
    Ok(library)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    // A virtual machine may have the old one mapped.
    fs::remove_file(to).ok();
    fs::copy(from, to).map(drop).map_err(|e| format!("{}: {e}", from.display()))
}

fn size(path: &Path) -> Result<u64, String> {
    fs::metadata(path).map(|file| file.len()).map_err(|e| format!("{}: {e}", path.display()))
}

/// Runs a command, which must succeed.
fn execute(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}

/// What a command prints, which must succeed.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}\n{text}{errors}", output.status))
}

/// Writes the table of the native methods of all jars.
fn table(root: &Path) -> Result<(), String> {
    let mut found: classes::Natives = classes::Natives::new();
    for (jar, mark) in jars::ALL {
        for class in jars::classes(root, jar)? {
            let bytes = fs::read(&class).map_err(|e| format!("{}: {e}", class.display()))?;
            let natives = classes::natives(&bytes)
                .ok_or_else(|| format!("{}: not a class file", class.display()))?;
            for native in natives {
                found.entry(native).or_default().push(mark);
            }
        }
    }
    let mut text = String::from(
        "# The native methods of the jars: class below org.rocksdb, name, signature, jars \
         (f: frocksdbjni). Made by `cargo xtask jni --table`.\n",
    );
    for ((class, name, signature), marks) in &found {
        text.push_str(&format!("{class}\t{name}\t{signature}\t{}\n", marks.join(",")));
    }
    let path = root.join(TABLE);
    let same = fs::read_to_string(&path).is_ok_and(|old| old == text);
    fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("{} methods, {}", found.len(), if same { "as before" } else { "CHANGED" });
    Ok(())
}

/// The library exports a function for each method of the table, what the virtual machine calls at
/// load and unload, and nothing else.
fn exports(root: &Path, library: &Path) -> Result<(), String> {
    let path = root.join(TABLE);
    let table = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut wanted: Vec<String> = ["JNI_OnLoad", "JNI_OnUnload"].map(String::from).into();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[class, name, signature, _] = columns.as_slice() else {
            return Err(format!("{TABLE}: {line}"));
        };
        wanted.push(classes::export_name(class, name, signature));
    }
    let symbols = output(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?;
    let mut found: Vec<String> =
        symbols.lines().filter_map(|line| line.split(' ').next_back()).map(String::from).collect();
    wanted.sort();
    found.sort();
    let missing = wanted.iter().filter(|name| found.binary_search(name).is_err());
    let missing: Vec<&String> = missing.collect();
    let others: Vec<&String> =
        found.iter().filter(|name| wanted.binary_search(name).is_err()).collect();
    if !missing.is_empty() || !others.is_empty() {
        return Err(format!("not exported: {missing:?}\nnot in the table: {others:?}"));
    }
    println!("jni: exports = table: {} functions", found.len());
    Ok(())
}
