//! The programs in `crates/jni/tests/java/harness`: each is started in a virtual machine of its own
//! that finds a library in one of the ways people use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{execute, jars, output};
use crate::suite::target;

/// How a virtual machine finds the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// RocksDB's, in its jar.
    Theirs,
    /// `-Djava.library.path`.
    Property,
    /// The variable `LD_LIBRARY_PATH`.
    Variable,
    /// The jar with nothing but the library, before RocksDB's on the class path.
    NativeJar,
    /// The jar with the classes and the library, alone.
    FullJar,
}

impl Way {
    /// A command for a virtual machine that finds the library in this way, and starts quickly;
    /// `path` is the class path without it.
    pub fn java(self, root: &Path, path: &[PathBuf]) -> Result<Command, String> {
        let mut command = self.optimised(root, path)?;
        command.args(["-XX:TieredStopAtLevel=1", "-ea"]);
        Ok(command)
    }

    /// Checks of calls, of our library: RocksDB's they would slow for nothing.
    pub fn checks(self) -> &'static [&'static str] {
        if self == Way::Theirs { &[] } else { &["-Xcheck:jni"] }
    }

    /// The same of one that compiles as well as it can, and checks no assertions.
    pub fn optimised(self, root: &Path, path: &[PathBuf]) -> Result<Command, String> {
        let folder = target(root).join("jni");
        let mut command = Command::new("java");
        command.env_remove("LD_LIBRARY_PATH");
        let mut path = path.to_vec();
        match self {
            Way::Theirs => {}
            Way::Property => {
                command.arg(format!("-Djava.library.path={}", folder.display()));
            }
            Way::Variable => {
                command.env("LD_LIBRARY_PATH", &folder);
            }
            Way::NativeJar => path.insert(0, folder.join(super::pack::NATIVE_JAR)),
            Way::FullJar => path.insert(0, folder.join(super::pack::FULL_JAR)),
        }
        let path = std::env::join_paths(path).map_err(|e| e.to_string())?;
        command.arg("-cp").arg(path);
        Ok(command)
    }
}

/// What Flink and Spark reach into, in words for the virtual machine.
pub fn opened() -> impl Iterator<Item = String> {
    let packages = [
        "java.lang",
        "java.lang.invoke",
        "java.lang.reflect",
        "java.io",
        "java.net",
        "java.nio",
        "java.util",
        "java.util.concurrent",
        "sun.nio.ch",
        "sun.util.calendar",
    ];
    packages.into_iter().map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED"))
}

/// What the virtual machine has to say of a call (`-Xcheck:jni`).
pub fn warnings(printed: &str) -> impl Iterator<Item = &str> {
    printed.lines().filter(|line| line.contains(" in native method"))
}

/// The programs' classes, compiled.
pub fn compile(root: &Path) -> Result<PathBuf, String> {
    let folder = target(root).join("jni/harness");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let sources = root.join("crates/jni/tests/java/harness");
    let jar = jars::find(root, jars::NEWEST)?;
    let mut command = Command::new("javac");
    command.args(["-nowarn", "-Xlint:none", "-d"]).arg(&folder).arg("-cp").arg(jar);
    for name in ["Switch", "Kill", "Leaks", "Fuzz", "Bench"] {
        command.arg(sources.join(format!("{name}.java")));
    }
    execute(&mut command)?;
    Ok(folder)
}

/// An empty folder for databases.
pub fn work(root: &Path, name: &str) -> Result<PathBuf, String> {
    let folder = target(root).join("jni/work").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

/// What `Switch` prints of a virtual machine: the value behind `name=`.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// Runs `Switch`, and requires that it loads our library, or theirs.
pub fn check_library(
    root: &Path,
    way: Way,
    path: &[PathBuf],
    database: Option<(&Path, usize)>,
) -> Result<u64, String> {
    let mut path = path.to_vec();
    path.push(target(root).join("jni/harness"));
    let mut command = way.java(root, &path)?;
    command.arg("Switch");
    if let Some((database, runs)) = database {
        command.arg(database).arg(runs.to_string());
    }
    let line = output(&mut command)?;
    let folder = target(root).join("jni");
    let file = PathBuf::from(value(&line, "file").unwrap_or_default());
    // A library from a jar is unpacked to a temporary file, which only a database tells apart.
    let from_folder = matches!(way, Way::Property | Way::Variable);
    let wanted = if way == Way::Theirs { ("none", "false") } else { (VERSION, "true") };
    let is_right = from_folder == (file == folder.join(super::LIBRARY))
        && (database.is_none()
            || (value(&line, "pumice"), value(&line, "log")) == (Some(wanted.0), Some(wanted.1)));
    if !is_right {
        return Err(format!("{way:?} loads another library: {line}"));
    }
    value(&line, "micros").and_then(|micros| micros.parse().ok()).ok_or(line)
}

/// What the property `pumice.version` gives: all crates have one version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `--test switch`: every way with the classes of every jar; each opens what those before it wrote.
pub fn switch(root: &Path, all: &[jars::Jar]) -> Result<(), String> {
    compile(root)?;
    for jar in all {
        let classes = [jars::find(root, *jar)?];
        let database = work(root, "switch")?;
        let ways =
            [Way::Theirs, Way::Property, Way::Theirs, Way::Variable, Way::NativeJar, Way::Theirs];
        for (run, way) in ways.into_iter().enumerate() {
            check_library(root, way, &classes, Some((&database, run)))?;
        }
        if *jar == jars::NEWEST {
            check_library(root, Way::FullJar, &[], Some((&database, ways.len())))?;
        }
        println!("jni: {} {}: every way loads its library", jar.1, jar.2);
    }
    Ok(())
}
