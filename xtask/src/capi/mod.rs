//! `cargo xtask capi`: the C library, `librocksdb.so` and `librocksdb.a`, with its header and its
//! pkg-config file, in `target/capi` and, with `--install PREFIX`, below a prefix. Built with the
//! profile `dist`, or another by `--profile NAME`.
//!
//! `--bench` measures calls from C instead: [`bench`]. `--deb` makes Debian packages: [`deb`].
//!
//! The static library is one object in which only the interface's names are visible: Rust's
//! standard library and the C codecs in it can meet others in the same program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod bench;
mod deb;

/// The version of RocksDB whose interface this is.
const VERSION: &str = "11.12.0";
/// What is shipped is no larger, without its symbols.
const SHARED_BYTES_MAX: u64 = 8 << 20;
/// Names of the shared library that programs look for, besides its own.
const LINKS: [&str; 3] = ["librocksdb.so", "librocksdb.so.11", "librocksdb.so.11.12.0"];

pub fn run(root: &Path, args: &[&str]) -> ExitCode {
    let done = match args {
        ["--bench", rest @ ..] => bench::run(root, rest),
        ["--deb", "--try", rest @ ..] => deb::attempt(root, rest),
        ["--deb", rest @ ..] => deb::packages(root, "", rest).map(drop),
        _ => build(root, args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask capi: {message}");
            ExitCode::FAILURE
        }
    }
}

struct Wanted {
    prefix: Option<PathBuf>,
    soname: Option<String>,
    profile: String,
}

fn parse(args: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted { prefix: None, soname: None, profile: "dist".to_string() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().map(|v| v.to_string()).ok_or(format!("{arg} has no value"));
        match *arg {
            "--install" => wanted.prefix = Some(PathBuf::from(value()?)),
            "--soname" => wanted.soname = Some(value()?),
            "--profile" => wanted.profile = value()?,
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    Ok(wanted)
}

fn build(root: &Path, args: &[&str]) -> Result<(), String> {
    let wanted = parse(args)?;
    let made = compile(root, &wanted)?;
    let folder = root.join("target/capi");
    let (lib, include) = (folder.join("lib"), folder.join("include/rocksdb"));
    for dir in [&lib, &include] {
        fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    copy(&made.shared, &lib.join("librocksdb.so"))?;
    hide(&made, &lib)?;
    let bytes = stripped_bytes(&lib)?;
    if bytes > SHARED_BYTES_MAX && wanted.profile == "dist" {
        return Err(format!("librocksdb.so has {bytes} bytes stripped, over {SHARED_BYTES_MAX}"));
    }
    copy(&made.out_dir.join("c.h"), &include.join("c.h"))?;
    let state = fs::read_to_string(made.out_dir.join("capi_state.txt"));
    print!("{}", state.map_err(|e| e.to_string())?);
    println!("librocksdb.so: {bytes} bytes stripped\nmade {}", folder.display());
    if let Some(prefix) = &wanted.prefix {
        install(&folder, prefix, wanted.soname.as_deref())?;
        println!("installed below {}", prefix.display());
    }
    Ok(())
}

/// The size of the shared library without the symbols that nobody links to.
fn stripped_bytes(lib: &Path) -> Result<u64, String> {
    let (shared, stripped) = (lib.join("librocksdb.so"), lib.join("stripped"));
    call("strip", &["-o", &stripped.display().to_string(), &shared.display().to_string()])?;
    let bytes = stripped.metadata().map_err(|e| format!("{}: {e}", stripped.display()))?.len();
    fs::remove_file(&stripped).map_err(|e| format!("{}: {e}", stripped.display()))?;
    Ok(bytes)
}

/// What cargo made.
struct Made {
    shared: PathBuf,
    archive: PathBuf,
    out_dir: PathBuf,
}

fn compile(root: &Path, wanted: &Wanted) -> Result<Made, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    // Cargo optimises over crates only where nothing but final kinds is made.
    command.current_dir(root).args(["rustc", "--package", "pumice-capi", "--lib"]);
    command.args(["--crate-type", "cdylib,staticlib", "--profile"]);
    command.args([&wanted.profile, "--message-format=json-render-diagnostics"]);
    if let Some(soname) = &wanted.soname {
        command.env("PUMICE_CAPI_SONAME", soname);
    }
    if wanted.profile == "dist" {
        command.env("PUMICE_FOLD_CODE", "1");
    }
    command.stderr(std::process::Stdio::inherit());
    let output = command.output().map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err("cargo build failed".to_string());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let own = || text.lines().filter(|line| line.contains("/crates/capi#"));
    let ends = |suffix: &str| {
        let paths = own().flat_map(|line| line.split('"'));
        paths.filter(|path| path.ends_with(suffix)).map(PathBuf::from).next()
    };
    let out_dir = own().find_map(|line| line.split("\"out_dir\":\"").nth(1));
    let out_dir = out_dir.and_then(|rest| rest.split('"').next()).map(PathBuf::from);
    Ok(Made {
        shared: ends("/librocksdb.so").ok_or("cargo named no librocksdb.so")?,
        archive: ends("/librocksdb.a").ok_or("cargo named no librocksdb.a")?,
        out_dir: out_dir.ok_or("cargo named no folder of the build script")?,
    })
}

/// Makes one object of the archive, and hides all names in it but those of the interface.
fn hide(made: &Made, lib: &Path) -> Result<(), String> {
    let object = lib.join("librocksdb.o");
    let (archive, target) = (made.archive.display(), object.display().to_string());
    let exports = format!("--keep-global-symbols={}", made.out_dir.join("exports.txt").display());
    call("ld", &["-r", "--whole-archive", &archive.to_string(), "-o", &target])?;
    // Bitcode of Rust's standard library, in which LLVM's plugin of ar finds an error.
    let bitcode = ["--remove-section=.llvmbc", "--remove-section=.llvmcmd"];
    call("objcopy", &[&exports, bitcode[0], bitcode[1], &target])?;
    let result = lib.join("librocksdb.a");
    if result.exists() {
        fs::remove_file(&result).map_err(|e| format!("{}: {e}", result.display()))?;
    }
    call("ar", &["rcs", &result.display().to_string(), &target])?;
    fs::remove_file(&object).map_err(|e| format!("{target}: {e}"))?;
    let wanted = made.out_dir.join("exports.txt");
    let wanted = fs::read_to_string(&wanted).map_err(|e| format!("{}: {e}", wanted.display()))?;
    compare_names(&visible(&result)?, &wanted.lines().map(str::to_string).collect())
}

/// The names that an archive gives to other objects of a program.
fn visible(archive: &Path) -> Result<BTreeSet<String>, String> {
    let output = Command::new("nm").args(["--extern-only", "--defined-only"]).arg(archive).output();
    let output = output.map_err(|e| format!("nm: {e}"))?;
    if !output.status.success() {
        return Err(format!("nm {}: {}", archive.display(), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Lines of one word name the members.
    let names = text.lines().filter_map(|line| line.rsplit_once(' '));
    Ok(names.map(|(_, name)| name.to_string()).collect())
}

fn compare_names(found: &BTreeSet<String>, wanted: &BTreeSet<String>) -> Result<(), String> {
    let more: Vec<_> = found.difference(wanted).take(10).collect();
    let fewer: Vec<_> = wanted.difference(found).take(10).collect();
    match more.is_empty() && fewer.is_empty() {
        true => Ok(()),
        false => Err(format!("librocksdb.a shows too much {more:?}, lacks {fewer:?}")),
    }
}

fn call(program: &str, args: &[&str]) -> Result<(), String> {
    let status = Command::new(program).args(args).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {args:?}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Copies a file. One that is there is removed first: programs that use it keep the old one.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if to.exists() {
        fs::remove_file(to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    fs::copy(from, to).map(drop).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

fn install(folder: &Path, prefix: &Path, soname: Option<&str>) -> Result<(), String> {
    let (lib, include) = (prefix.join("lib"), prefix.join("include/rocksdb"));
    let pkgconfig = lib.join("pkgconfig");
    for dir in [&lib, &include, &pkgconfig] {
        fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    let real = lib.join("librocksdb-pumice.so");
    copy(&folder.join("lib/librocksdb.so"), &real)?;
    copy(&folder.join("lib/librocksdb.a"), &lib.join("librocksdb.a"))?;
    copy(&folder.join("include/rocksdb/c.h"), &include.join("c.h"))?;
    for link in LINKS.iter().copied().chain(soname) {
        let link = lib.join(link);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link).map_err(|e| format!("{}: {e}", link.display()))?;
        }
        std::os::unix::fs::symlink("librocksdb-pumice.so", &link)
            .map_err(|e| format!("{}: {e}", link.display()))?;
    }
    let text = format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\nName: rocksdb\n\
         Description: The C interface of RocksDB, by Pumice\nVersion: {VERSION}\n\
         Cflags: -I\"${{includedir}}\"\nLibs: -L\"${{libdir}}\" -lrocksdb\n",
        prefix.display()
    );
    let file = pkgconfig.join("rocksdb.pc");
    fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_shows_what_is_exported_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("pumice-capi-hide-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder is made");
        let source = folder.join("a.c");
        let text = "int LZ4_inside(void) { return 1; }\nint rocksdb_a(void) { return \
                    LZ4_inside(); }\n";
        fs::write(&source, text).expect("a file is written");
        let path = |name: &str| folder.join(name).display().to_string();
        call("cc", &["-c", &path("a.c"), "-o", &path("a.o")]).expect("it compiles");
        call("ar", &["rcs", &path("made.a"), &path("a.o")]).expect("an archive is made");
        let made = Made {
            shared: PathBuf::new(),
            archive: folder.join("made.a"),
            out_dir: folder.clone(),
        };
        let before = visible(&made.archive).expect("nm reads it");
        assert!(before.contains("LZ4_inside"));
        fs::write(folder.join("exports.txt"), "rocksdb_a\n").expect("a file is written");
        hide(&made, &folder).expect("the names fit");
        let after = visible(&folder.join("librocksdb.a")).expect("nm reads it");
        assert_eq!(after, ["rocksdb_a".to_string()].into());
        fs::write(folder.join("exports.txt"), "rocksdb_a\nrocksdb_b\n").expect("it is written");
        let missing = hide(&made, &folder).expect_err("one is missing");
        assert!(missing.contains("rocksdb_b"), "{missing}");
        fs::remove_dir_all(&folder).expect("the folder was made");
    }
}
