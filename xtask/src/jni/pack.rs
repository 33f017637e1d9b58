//! Jars with the library, and how large it is.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::harness::{self, Way};
use super::{copy, execute, jars, output, size};
use crate::suite::target;

/// Nothing but the library: before RocksDB's on the class path it is found first.
pub const NATIVE_JAR: &str = "pumice-rocksdbjni-native.jar";
/// RocksDB's classes and the library.
pub const FULL_JAR: &str = "pumice-rocksdbjni.jar";
/// The name of the library inside of the jars.
const IN_JAR: &str = "librocksdbjni-linux64.so";
/// Group of the full jar.
const GROUP: &str = "pumice";

/// The most bytes of the library as it is shipped.
const BYTES_MAX: u64 = 8 << 20;
/// Starts of a virtual machine of which the median is told.
const STARTS: usize = 5;

/// Makes both jars. Without a JDK there are none, which is said.
pub fn run(root: &Path, library: &Path) -> Result<(), String> {
    if crate::peers::find_program("jar").is_none() {
        println!("jni: NO JAR IS MADE, there is no JDK");
        return Ok(());
    }
    let native = harness::work(root, "native")?;
    copy(library, &native.join(IN_JAR))?;
    make(root, &native, NATIVE_JAR)?;
    full(root, library)
}

/// The classes as they were published, our library, and whose all of it is.
fn full(root: &Path, library: &Path) -> Result<(), String> {
    let folder = harness::work(root, "full")?;
    let jar = jars::find(root, jars::NEWEST)?;
    execute(Command::new("unzip").args(["-q"]).arg(&jar).arg("org/*").arg("-d").arg(&folder))?;
    copy(library, &folder.join(IN_JAR))?;
    let about = folder.join("META-INF");
    let (group, artifact, version) = jars::NEWEST;
    let own = format!("{version}-pumice-{}", env!("CARGO_PKG_VERSION"));
    let pom = about.join("maven").join(GROUP).join("pumice-rocksdbjni");
    fs::create_dir_all(&pom).map_err(|e| format!("{}: {e}", pom.display()))?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.md"] {
        copy(&root.join(name), &about.join(name))?;
    }
    let notice = format!(
        "The classes below org/rocksdb are those of {group}:{artifact}:{version}, unmodified.\n\
         Copyright (c) Meta Platforms, Inc. and affiliates; used under the Apache License 2.0\n\
         (LICENSE-APACHE).\n\n\
         {IN_JAR} is Pumice, under the MIT licence (LICENSE-MIT) or the Apache License\n\
         2.0; what it is made of besides is in THIRD-PARTY.md. It is no work of Meta's.\n"
    );
    let texts = [
        (about.join("NOTICE"), notice),
        (
            pom.join("pom.properties"),
            format!("groupId={GROUP}\nartifactId=pumice-rocksdbjni\nversion={own}\n"),
        ),
    ];
    for (path, text) in texts {
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    make(root, &folder, FULL_JAR)
}

fn make(root: &Path, folder: &Path, name: &str) -> Result<(), String> {
    let jar = target(root).join("jni").join(name);
    let mut command = Command::new("jar");
    execute(command.arg("--create").arg("--file").arg(&jar).arg("-C").arg(folder).arg("."))?;
    println!("jni: {} ({} bytes)", jar.display(), size(&jar)?);
    Ok(())
}

/// `--test size`: the library's bytes, the C library that it needs, and how long it takes to load
/// beside RocksDB's. Only the bytes are judged.
pub fn sizes(root: &Path, library: &Path) -> Result<(), String> {
    let bytes = size(library)?;
    let symbols = output(Command::new("nm").args(["-D", "--undefined-only"]).arg(library))?;
    println!("jni: {bytes} bytes, of at most {BYTES_MAX}; needs glibc {}", glibc(&symbols));
    let (jar, _) = (jars::find(root, jars::NEWEST)?, harness::compile(root)?);
    for way in [Way::Theirs, Way::NativeJar, Way::Property] {
        let starts = (0..STARTS)
            .map(|_| harness::check_library(root, way, std::slice::from_ref(&jar), None));
        let mut micros = starts.collect::<Result<Vec<u64>, String>>()?;
        micros.sort_unstable();
        println!("jni: loaded in {} us, median of {STARTS} ({way:?})", micros[STARTS / 2]);
    }
    if bytes > BYTES_MAX {
        return Err(format!("the library has {bytes} bytes, over {BYTES_MAX}"));
    }
    Ok(())
}

/// The newest version of glibc that a symbol is of.
fn glibc(symbols: &str) -> String {
    let versions = symbols.lines().filter_map(|line| line.split_once("@GLIBC_"));
    let numbers = versions.map(|(_, version)| {
        version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>()
    });
    let newest = numbers.max().unwrap_or_default();
    newest.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts_by_its_numbers() {
        let symbols =
            "   U malloc@GLIBC_2.2.5\n   U stat@GLIBC_2.33\n   w __cxa_finalize\n   U a@GLIBC_2.4";
        assert_eq!(glibc(symbols), "2.33");
        assert_eq!(glibc(""), "");
    }
}
