//! The jars that the library serves, from Maven Central, kept in `.peers/jars`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// (group, artifact, version)
pub type Jar = (&'static str, &'static str, &'static str);

/// The jars and their marks in the table of natives.
pub const ALL: [(Jar, &str); 5] = [
    (("org.rocksdb", "rocksdbjni", "9.7.3"), "9.7.3"),
    (("org.rocksdb", "rocksdbjni", "9.8.4"), "9.8.4"),
    (("org.rocksdb", "rocksdbjni", "10.1.3"), "10.1.3"),
    (NEWEST, "11.8.1"),
    (("com.ververica", "frocksdbjni", "8.10.0-ververica-1.0"), "f8.10.0"),
];

/// The one whose version the library says it is.
pub const NEWEST: Jar = ("org.rocksdb", "rocksdbjni", "11.8.1");

/// The jar, fetched if it is not there.
pub fn find(root: &Path, (group, artifact, version): Jar) -> Result<PathBuf, String> {
    let folder = root.join(".peers/jars");
    let jar = folder.join(format!("{artifact}-{version}.jar"));
    if jar.is_file() {
        return Ok(jar);
    }
    println!("jni: fetching {group}:{artifact}:{version} (50 to 90 MB)");
    if crate::peers::find_program("mvn").is_none() {
        crate::peers::apt_install("maven")?;
    }
    let repository = folder.join(format!("m2-{version}"));
    let local = format!("-Dmaven.repo.local={}", repository.display());
    let named = format!("-Dartifact={group}:{artifact}:{version}");
    let arguments = ["-q", "-B", "dependency:get", &named, "-Dtransitive=false", &local];
    crate::peers::run_quietly("mvn", &arguments)?;
    let made = repository
        .join(group.replace('.', "/"))
        .join(artifact)
        .join(version)
        .join(format!("{artifact}-{version}.jar"));
    fs::rename(&made, &jar).map_err(|e| format!("{}: {e}", made.display()))?;
    fs::remove_dir_all(&repository).map_err(|e| format!("{}: {e}", repository.display()))?;
    Ok(jar)
}

/// The class files of a jar, unpacked.
pub fn classes(root: &Path, jar: Jar) -> Result<Vec<PathBuf>, String> {
    let file = find(root, jar)?;
    let folder = crate::suite::target(root).join("jni/classes").join(jar.1).join(jar.2);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    super::execute(
        Command::new("unzip").args(["-q", "-o"]).arg(&file).arg("org/*").arg("-d").arg(&folder),
    )?;
    let mut found = Vec::new();
    collect(&folder, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "class") {
            found.push(path);
        }
    }
    Ok(())
}
