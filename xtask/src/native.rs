//! `cargo xtask peers --native`: RocksDB optimized for this machine, built from source.
//!
//! The sources are those in the crate librocksdb-sys, fetched by cargo like any crate. CMake builds
//! a shared library without assertions, for this processor (`-O3 -march=native`, CRC32C by its
//! instruction), with lz4, zstd, snappy and io_uring of Debian's packages, which apt-get installs
//! as root when they are missing. About 40 minutes on 2 cores, so CI does without it.
//!
//! The library gets its name in `.peers/` last; when it is there, nothing is done. An interrupted
//! build continues where it stopped. `pumice report` compares with it rather than with Maven's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::peers::{apt_install, find_program, run_quietly};

/// The library's name in `.peers/`.
pub const LIBRARY: &str = "librocksdb-native.so";
const CRATE: &str = "librocksdb-sys";
/// Carries RocksDB 11.8.1.
const CRATE_VERSION: &str = "0.19.0";

/// (a file that shows that it is installed, Debian's package)
const NEEDED: [(&str, &str); 4] = [
    ("/usr/include/lz4.h", "liblz4-dev"),
    ("/usr/include/zstd.h", "libzstd-dev"),
    ("/usr/include/snappy.h", "libsnappy-dev"),
    ("/usr/include/liburing.h", "liburing-dev"),
];

const PROGRAMS: [(&str, &str); 3] = [("cmake", "cmake"), ("g++", "g++"), ("make", "make")];

const FLAGS: [&str; 12] = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DPORTABLE=0",
    "-DROCKSDB_BUILD_SHARED=ON",
    "-DWITH_LZ4=ON",
    "-DWITH_ZSTD=ON",
    "-DWITH_SNAPPY=ON",
    "-DWITH_TESTS=OFF",
    "-DWITH_TOOLS=OFF",
    "-DWITH_CORE_TOOLS=OFF",
    "-DWITH_BENCHMARK_TOOLS=OFF",
    "-DWITH_GFLAGS=OFF",
    // Debian 12's g++ warns of its own string::assign (-Wrestrict), which is not an error in
    // RocksDB.
    "-DFAIL_ON_WARNINGS=OFF",
];

/// Builds the library unless it is there; returns its path. `only_configure` stops before
/// compiling.
pub fn install(root: &Path, only_configure: bool) -> Result<PathBuf, String> {
    let library = root.join(".peers").join(LIBRARY);
    if library.is_file() && !only_configure {
        return Ok(library);
    }
    for (program, package) in PROGRAMS {
        if find_program(program).is_none() {
            println!("peers: installing Debian's {package}");
            apt_install(package)?;
        }
    }
    for (file, package) in NEEDED {
        if !Path::new(file).is_file() {
            println!("peers: installing Debian's {package}");
            apt_install(package)?;
        }
    }
    let folder = root.join(".peers/native");
    let sources = fetch(&folder.join("package"))?;
    let build = folder.join("build");
    configure(&sources, &build)?;
    if only_configure {
        return Ok(build);
    }
    compile(&build)?;
    let made =
        fs::canonicalize(build.join("librocksdb.so")).map_err(|e| format!("the build: {e}"))?;
    fs::rename(&made, &library).map_err(|e| format!("{}: {e}", library.display()))?;
    // The object files are a hundred times as large as the library.
    fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(library)
}

/// Has cargo fetch the crate, for a dummy package that is never built; returns the folder of
/// RocksDB's sources.
fn fetch(package: &Path) -> Result<PathBuf, String> {
    println!("peers: fetching {CRATE} {CRATE_VERSION}");
    let with_path = |e: std::io::Error| format!("{}: {e}", package.display());
    fs::create_dir_all(package.join("src")).map_err(with_path)?;
    fs::write(package.join("src/lib.rs"), "").map_err(with_path)?;
    let manifest = package.join("Cargo.toml");
    fs::write(&manifest, manifest_text()).map_err(with_path)?;
    let path = manifest.display().to_string();
    run_quietly("cargo", &["fetch", "--manifest-path", &path])?;
    let output = Command::new("cargo")
        .args(["metadata", "--format-version=1", "--offline", "--manifest-path", &path])
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = sources_in(&text).ok_or("cargo metadata names no folder of the sources")?;
    if found.join("CMakeLists.txt").is_file() {
        return Ok(found);
    }
    Err(format!("{} has no CMakeLists.txt", found.display()))
}

fn manifest_text() -> String {
    format!(
        "[package]\nname = \"native-peer\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n[dependencies]\n{CRATE} = {{ version = \"={CRATE_VERSION}\", \
         default-features = false }}\n"
    )
}

/// The sources next to the crate's manifest, of which `cargo metadata` has the path.
fn sources_in(metadata: &str) -> Option<PathBuf> {
    let paths = metadata.split("\"manifest_path\":\"").skip(1);
    let mut paths = paths.filter_map(|rest| rest.split('"').next());
    let mark = format!("/{CRATE}-{CRATE_VERSION}");
    let manifest = paths.find(|path| path.contains(&mark))?;
    Some(Path::new(manifest).parent()?.join("rocksdb"))
}

fn configure(sources: &Path, build: &Path) -> Result<(), String> {
    println!("peers: configuring RocksDB");
    let (sources, build) = (sources.display().to_string(), build.display().to_string());
    let mut args = vec!["-S", &sources, "-B", &build];
    args.extend(FLAGS);
    run_quietly("cmake", &args)
}

fn compile(build: &Path) -> Result<(), String> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    println!("peers: compiling RocksDB with {jobs} jobs; about 80 minutes of processor time");
    let build = build.display().to_string();
    let status = Command::new("cmake")
        .args(["--build", &build, "--target", "rocksdb-shared", "--parallel", &jobs])
        .stdin(Stdio::null())
        .status()
        .map_err(|e| format!("cmake: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("cmake --build: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_lie_beside_the_crates_manifest() {
        let text = "{\"manifest_path\":\"/r/libc-0.2/Cargo.toml\"},{\"manifest_path\":\
                    \"/r/librocksdb-sys-0.19.0+11.8.1/Cargo.toml\"}";
        let expected = Path::new("/r/librocksdb-sys-0.19.0+11.8.1/rocksdb");
        assert_eq!(sources_in(text).as_deref(), Some(expected));
        assert_eq!(sources_in("{}"), None);
    }

    #[test]
    fn the_package_pins_the_crate() {
        assert!(manifest_text().contains("version = \"=0.19.0\""));
    }
}
