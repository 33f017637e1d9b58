//! The peers: RocksDB's own programs and library, which the tests compare with.
//!
//! The peers, all from package registries, all installed only when missing:
//! 1. Debian's `rocksdb-tools` (7.8.3: `ldb`, `sst_dump`, `db_bench`), by apt-get, as root.
//! 2. RocksDB 10.10.1's C library, which the Maven artifact `org.rocksdb:rocksdbjni` carries as
//!    `librocksdbjni-linux64.so` (about 1,000 functions of the C API besides the Java ones). Also
//!    the one of 9.8.4, with which the tests of OPTIONS files open databases; if it cannot be
//!    fetched, a message says so, and the tests run without it.
//!    And the one of 11.8.1, which exports the whole C interface of its version: the tests of our C
//!    library run programs with both.
//! 3. Debian's `redis-server` (7.0), by apt-get, as root: our server's replies are compared with
//!    its.
//! 4. A browser, Debian's `chromium-headless-shell`, by apt-get, as root: it opens the server's
//!    status page. If it cannot be installed, a message says so, and the tests run without it.
//! 5. redis-py, from PyPI: see `clients`.
//! 6. MariaDB with MyRocks, Debian's `mariadb-plugin-rocksdb`, by apt-get, as root: its directory
//!    is opened after a kill. If it cannot be installed, a message says so, and the test is
//!    skipped.
//! 7. RocksDB 11.8.1's test program of its C interface, from the crate `librocksdb-sys`, into
//!    `.peers/c_test`: the tests of our C library compile and run it.
//!
//! The library is looked for in `$PUMICE_ROCKSDB_SO`, `.peers/` of this checkout and
//! `/opt/pumice-peers`; when it is missing, it is fetched from Maven into `.peers/`. Running this
//! twice does nothing the second time. An extracted library gets its name last, so that an
//! interrupted run leaves no partial library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::clients::library;

const LIBRARY: &str = "librocksdbjni-linux64.so";
const VERSION: &str = "10.10.1";
const ELDER_LIBRARY: &str = "librocksdbjni-linux64-9.8.4.so";
const ELDER_VERSION: &str = "9.8.4";
pub const NEWER_LIBRARY: &str = "librocksdbjni-11.8.1.so";
const NEWER_VERSION: &str = "11.8.1";
const SHARED_LIBRARY: &str = "/opt/pumice-peers/librocksdbjni-linux64.so";
/// The variable with the library to use instead of any installed one.
pub const LIBRARY_VARIABLE: &str = "PUMICE_ROCKSDB_SO";
/// The variable with the folder of redis-py for tests.
pub const PYTHON_VARIABLE: &str = "PUMICE_REDIS_PY";

/// The variable with the browser, which then has to work.
pub const BROWSER_VARIABLE: &str = "PUMICE_BROWSER";

/// Where the peers are.
pub struct Peers {
    /// Debian's `ldb`; `sst_dump` and `db_bench` are next to it.
    pub ldb: PathBuf,
    /// RocksDB 10.10.1's C library.
    pub rocksdb_so: PathBuf,
    /// The folder of redis-py.
    pub redis_py: PathBuf,
    /// A headless browser, where there is one.
    pub browser: Option<PathBuf>,
}

/// Finds the peers, installing what is missing.
pub fn install(root: &Path) -> Result<Peers, String> {
    let ldb = install_tools()?;
    install_redis()?;
    let rocksdb_so = install_library(root)?;
    install_elder(root, &rocksdb_so);
    install_newer(root)?;
    install_c_test(root)?;
    let redis_py = install_redis_py(root)?;
    install_myrocks();
    Ok(Peers { ldb, rocksdb_so, redis_py, browser: install_browser() })
}

/// Installs redis-py into `.peers/redis-py`, unless it is there; returns the folder.
pub fn install_redis_py(root: &Path) -> Result<PathBuf, String> {
    let wanted = root.join("tests/clients/python/requirements.txt");
    let text = fs::read_to_string(&wanted).map_err(|e| format!("{}: {e}", wanted.display()))?;
    let folder = root.join(".peers/redis-py");
    // Written last, so that an interrupted run leaves nothing that looks complete.
    let mark = folder.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == text) {
        return Ok(folder);
    }
    println!("peers: installing redis-py");
    let (target, list) = (folder.display().to_string(), wanted.display().to_string());
    let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--upgrade"];
    run_quietly("python3", &[&pip[..], &["--target", &target, "-r", &list]].concat())?;
    fs::write(&mark, text).map_err(|e| format!("{}: {e}", mark.display()))?;
    Ok(folder)
}

fn install_myrocks() {
    const NAME: &str = "mariadb-plugin-rocksdb";
    if Path::new("/usr/lib/mysql/plugin/ha_rocksdb.so").is_file() {
        return;
    }
    println!("peers: installing Debian's {NAME}");
    if let Err(message) = apt_install(NAME) {
        println!("peers: NO MYROCKS, its test is skipped: {message}");
    }
}

fn install_browser() -> Option<PathBuf> {
    const NAME: &str = "chromium-headless-shell";
    let find = || find_program(NAME).or_else(|| find_program("chromium"));
    if find().is_none() {
        println!("peers: installing Debian's {NAME}");
        if let Err(message) = apt_install(NAME) {
            println!("peers: NO BROWSER, the status page is tested without: {message}");
        }
    }
    let found = find()?;
    if !shows_a_page(&found) {
        println!("peers: THE BROWSER SHOWS NOTHING HERE, the status page is tested without it");
        return None;
    }
    Some(found)
}

/// Not every machine lets a browser run.
fn shows_a_page(browser: &Path) -> bool {
    let mut command = Command::new("timeout");
    command.arg("120").arg(browser).args(["--headless", "--no-sandbox", "--disable-gpu"]);
    command.args(["--disable-dev-shm-usage", "--dump-dom", "data:text/html,<p>it works</p>"]);
    let output = command.output();
    output.is_ok_and(|o| o.status.success() && String::from_utf8_lossy(&o.stdout).contains("works"))
}

fn install_tools() -> Result<PathBuf, String> {
    if let Some(path) = find_program("ldb") {
        return Ok(path);
    }
    println!("peers: installing Debian's rocksdb-tools");
    apt_install("rocksdb-tools")?;
    find_program("ldb").ok_or("apt-get installed rocksdb-tools, yet there is no ldb".to_string())
}

fn install_redis() -> Result<(), String> {
    if find_program("redis-server").is_some() {
        return Ok(());
    }
    println!("peers: installing Debian's redis-server");
    apt_install("redis-server")?;
    let missing = "apt-get installed redis-server, yet it is not there".to_string();
    find_program("redis-server").map(drop).ok_or(missing)
}

fn install_library(root: &Path) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE) {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(path);
        }
        return Err(format!("{LIBRARY_VARIABLE} names no file: {}", path.display()));
    }
    let folder = root.join(".peers");
    let own = folder.join(LIBRARY);
    for candidate in [own.clone(), PathBuf::from(SHARED_LIBRARY)] {
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    fetch_library(&folder, VERSION, &own)?;
    Ok(own)
}

/// RocksDB 9.8.4, next to the library of 10.10.1 or in `.peers/`.
fn install_elder(root: &Path, newest: &Path) {
    let folder = root.join(".peers");
    let own = folder.join(ELDER_LIBRARY);
    if own.is_file() || newest.with_file_name(ELDER_LIBRARY).is_file() {
        return;
    }
    if let Err(message) = fetch_library(&folder, ELDER_VERSION, &own) {
        println!("peers: NO ROCKSDB {ELDER_VERSION}, OPTIONS files are tested without: {message}");
    }
}

/// RocksDB 11.8.1, in `.peers/`, unless the variable of the tests names one.
fn install_newer(root: &Path) -> Result<(), String> {
    let folder = root.join(".peers");
    let own = folder.join(NEWER_LIBRARY);
    if own.is_file() || std::env::var_os("PUMICE_ROCKSDB_11_SO").is_some() {
        return Ok(());
    }
    fetch_library(&folder, NEWER_VERSION, &own)
}

/// The crate with RocksDB 11.8.1's sources.
pub const NEWER_SOURCES: (&str, &str) = ("librocksdb-sys", "0.19.0+11.8.1");

/// RocksDB's test program of its C interface with what it includes, unless it is there.
fn install_c_test(root: &Path) -> Result<(), String> {
    let folder = root.join(".peers/c_test");
    if folder.is_dir() {
        return Ok(());
    }
    println!("peers: fetching {} {}", NEWER_SOURCES.0, NEWER_SOURCES.1);
    // Gets its name last, so that an interrupted run leaves nothing that looks complete.
    let partial = root.join(".peers/c_test.part");
    library::scratch(&partial)?;
    let sources = library::fetch_crate(&partial, NEWER_SOURCES.0, NEWER_SOURCES.1)?;
    for part in ["db/c_test.c", "c_api_gen", "include"] {
        let from = sources.join("rocksdb").join(part);
        library::check(Command::new("cp").arg("-r").arg(from).arg(&partial))?;
    }
    let fetched = partial.join("fetch");
    fs::remove_dir_all(&fetched).map_err(|e| format!("{}: {e}", fetched.display()))?;
    fs::rename(&partial, &folder).map_err(|e| format!("{}: {e}", folder.display()))
}

/// Fetches the library of `version` from Maven to `own`, in `folder`.
fn fetch_library(folder: &Path, version: &str, own: &Path) -> Result<(), String> {
    println!("peers: fetching org.rocksdb:rocksdbjni:{version} (70 to 84 MB)");
    let jar = fetch_jar(&folder.join("m2"), version)?;
    let unpacked = folder.join("unpacked");
    extract(&jar, &unpacked)?;
    fs::rename(unpacked.join(LIBRARY), own).map_err(|e| format!("{}: {e}", own.display()))?;
    // The jar is five times as large as the library; nothing else needs it.
    for done in [unpacked, folder.join("m2")] {
        fs::remove_dir_all(&done).map_err(|e| format!("{}: {e}", done.display()))?;
    }
    Ok(())
}

/// Fetches the jar into a separate Maven repository.
fn fetch_jar(repository: &Path, version: &str) -> Result<PathBuf, String> {
    if find_program("mvn").is_none() {
        apt_install("maven")?;
    }
    let local = format!("-Dmaven.repo.local={}", repository.display());
    let artifact = format!("-Dartifact=org.rocksdb:rocksdbjni:{version}");
    run_quietly("mvn", &["-q", "-B", "dependency:get", &artifact, "-Dtransitive=false", &local])?;
    let jar = repository
        .join("org/rocksdb/rocksdbjni")
        .join(version)
        .join(format!("rocksdbjni-{version}.jar"));
    if jar.is_file() { Ok(jar) } else { Err(format!("Maven left no {}", jar.display())) }
}

/// Unpacks the library from the jar (a zip file) with whichever program is installed.
fn extract(jar: &Path, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let (jar, folder) = (jar.display().to_string(), folder.display().to_string());
    if find_program("unzip").is_none() && find_program("python3").is_none() {
        apt_install("unzip")?;
    }
    if find_program("unzip").is_some() {
        return run_quietly("unzip", &["-q", "-o", &jar, LIBRARY, "-d", &folder]);
    }
    const SCRIPT: &str = "import sys,zipfile; zipfile.ZipFile(sys.argv[1]).extract(*sys.argv[2:])";
    run_quietly("python3", &["-c", SCRIPT, &jar, LIBRARY, &folder])
}

/// Installs a package of Debian's; needs root. Stages run beside each other, also in processes of
/// their own, and apt-get fails where another one runs.
pub fn apt_install(package: &str) -> Result<(), String> {
    let path = std::env::temp_dir().join("pumice-xtask-apt.lock");
    let turn = fs::File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    turn.lock().map_err(|e| format!("{}: {e}", path.display()))?;
    run_quietly("apt-get", &["-q", "update"])?;
    run_quietly("apt-get", &["-q", "-y", "--no-install-recommends", "install", package])
}

/// Runs a program without input; its output is shown only when it fails.
pub fn run_quietly(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{program} {}: {}\n{}{}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// The program of that name in `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
