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

use crate::clients::library;
use crate::peers::{NEWER_SOURCES, apt_install, find_program, run_quietly};

/// The library's name in `.peers/`.
pub const LIBRARY: &str = "librocksdb-native.so";

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
    let sources = fetch(&folder)?;
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

/// RocksDB's sources in the crate that has them.
fn fetch(folder: &Path) -> Result<PathBuf, String> {
    let (name, version) = NEWER_SOURCES;
    println!("peers: fetching {name} {version}");
    let found = library::fetch_crate(folder, name, version)?.join("rocksdb");
    if found.join("CMakeLists.txt").is_file() {
        return Ok(found);
    }
    Err(format!("{} has no CMakeLists.txt", found.display()))
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
