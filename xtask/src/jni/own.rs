//! `--test own`: the programs in `crates/jni/tests/java`, with RocksDB's library and with ours,
//! which must print the same; with ours the virtual machine checks every call (`-Xcheck:jni`) and
//! must have nothing to say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{execute, jars, output};
use crate::suite::target;

/// Where programs are, and the classes that they run with: some methods only older jars have.
const GROUPS: [(&str, jars::Jar); 2] =
    [("", jars::NEWEST), ("older", ("org.rocksdb", "rocksdbjni", "9.8.4"))];

/// Compiles and runs the programs.
pub fn run(root: &Path, library: &Path) -> Result<(), String> {
    let mut failed = Vec::new();
    for (folder, jar) in GROUPS {
        let jar = jars::find(root, jar)?;
        let classes = target(root).join("jni/own").join(folder);
        let sources = root.join("crates/jni/tests/java").join(folder);
        let names = programs(&sources)?;
        fs::create_dir_all(&classes).map_err(|e| format!("{}: {e}", classes.display()))?;
        let mut compile = Command::new("javac");
        compile.args(["-nowarn", "-Xlint:none", "-d"]).arg(&classes).arg("-cp").arg(&jar);
        for name in &names {
            compile.arg(sources.join(format!("{name}.java")));
        }
        execute(&mut compile)?;
        for name in names {
            let theirs = java(&jar, &classes, &name, None)?;
            let ours = java(&jar, &classes, &name, Some(library))?;
            match difference(&theirs, &ours) {
                None => println!("jni: {name}: {} lines, the same", theirs.lines().count()),
                Some(text) => {
                    println!("jni: {name}: DIFFERENT\n{text}");
                    failed.push(name);
                }
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("different: {failed:?}")) }
}

fn programs(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
        if path.extension().is_some_and(|end| end == "java") {
            names.extend(name);
        }
    }
    names.sort();
    Ok(names)
}

/// What a program prints, with our library or the one in the jar.
fn java(jar: &Path, classes: &Path, name: &str, ours: Option<&Path>) -> Result<String, String> {
    // The same for both: it is in texts of errors.
    let work = classes.join(format!("db-{name}"));
    if work.exists() {
        fs::remove_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    }
    fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    let path: Vec<PathBuf> = vec![classes.to_path_buf(), jar.to_path_buf()];
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-ea"]);
    if let Some(library) = ours {
        let folder = library.parent().unwrap_or(Path::new("."));
        command.arg("-Xcheck:jni").arg(format!("-Djava.library.path={}", folder.display()));
    }
    let path = std::env::join_paths(path).map_err(|e| e.to_string())?;
    let printed = output(command.arg("-cp").arg(path).arg(name).arg(&work))?;
    fs::remove_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    Ok(printed)
}

/// The first lines that differ.
pub fn difference(theirs: &str, ours: &str) -> Option<String> {
    if theirs == ours {
        return None;
    }
    let (theirs, ours): (Vec<&str>, Vec<&str>) = (theirs.lines().collect(), ours.lines().collect());
    let count = theirs.len().max(ours.len());
    let line =
        |lines: &[&str], at: usize| lines.get(at).map_or("(nothing)", |line| *line).to_string();
    let lines = (0..count).filter(|at| theirs.get(*at) != ours.get(*at)).take(20);
    let lines = lines.map(|at| {
        format!(
            "{}: RocksDB {}\n{}: ours    {}",
            at + 1,
            line(&theirs, at),
            at + 1,
            line(&ours, at)
        )
    });
    Some(lines.collect::<Vec<_>>().join("\n"))
}
