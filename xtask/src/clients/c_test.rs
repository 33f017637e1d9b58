//! `cargo xtask clients c_test`: RocksDB's own test program of its C interface, on our library.
//!
//! The sources come with crates from crates.io and are never committed: those of 11.8.1 and of
//! 11.12. Each is compiled as it is against `target/capi` and must pass to its end. RocksDB's
//! headers and ours must compile together, whichever comes first.
//!
//! `--valgrind` runs the same programs under valgrind: an invalid access, a use of what was never
//! written, or memory that nothing points to at the end fails the command. Takes minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::library::{self, Library};
use crate::peers::NEWER_SOURCES;

/// A program: of which version of RocksDB, the crate with its sources, and the crate's version.
struct Source {
    release: &'static str,
    package: &'static str,
    version: &'static str,
}

const SOURCES: [Source; 2] = [
    Source { release: "11.8.1", package: NEWER_SOURCES.0, version: NEWER_SOURCES.1 },
    Source { release: "11.12.0", package: "rust-librocksdb-sys", version: "0.49.0+11.12.0" },
];

/// Builds and runs the programs with the library in `target/capi`.
pub fn run(root: &Path, under_valgrind: bool) -> Result<(), String> {
    let library = library::find(root, None)?;
    for source in SOURCES {
        let release = source.release;
        let folder = crate::suite::target(root).join("c_test").join(release);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let sources = library::fetch_crate(&folder, source.package, source.version)?;
        let sources = sources.join("rocksdb");
        redeclare(&library, &folder, &sources)?;
        let program = compile(&library, &folder, &sources)?;
        let data = folder.join("data");
        library::scratch(&data)?;
        let mut test = match under_valgrind {
            false => Command::new(&program),
            true => valgrind(&program),
        };
        test.env("LD_LIBRARY_PATH", &library.lib).env("TEST_TMPDIR", &data);
        library::check(&mut test).map_err(|e| format!("{release}: {e}"))?;
        println!("c_test of {release}: passes");
    }
    Ok(())
}

/// The program under valgrind, which knows no io_uring.
fn valgrind(program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--num-callers=30"]);
    command.args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]);
    command.arg(program).env("PUMICE_IO", "threads");
    command
}

/// Compiles the program as it is.
fn compile(library: &Library, folder: &Path, sources: &Path) -> Result<PathBuf, String> {
    let (source, program) = (sources.join("db/c_test.c"), folder.join("c_test"));
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-g", "-w", "-o"]).arg(&program).arg(&source);
    compile.arg("-I").arg(sources.join("include")).arg("-I").arg(sources);
    compile.arg("-L").arg(&library.lib).args(["-lrocksdb", "-lpthread"]);
    library::check(&mut compile)?;
    Ok(program)
}

/// Compiles RocksDB's header with all declarations of ours behind it, and the reverse: a conflict
/// does not compile.
fn redeclare(library: &Library, folder: &Path, sources: &Path) -> Result<(), String> {
    let (ours, theirs) = (library.include.join("rocksdb/c.h"), sources.join("include/rocksdb/c.h"));
    let read =
        |file: &Path| fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()));
    let (text, known) = (read(&ours)?, read(&theirs)?);
    let (mut equal, mut own) = (String::new(), String::new());
    for line in text.lines() {
        let is_declaration = line.starts_with("typedef ") || line.starts_with("extern ");
        if is_declaration && !line.contains("extern \"C\"") && !line.ends_with('{') {
            own.push_str(&format!("{line}\n"));
        }
        // RocksDB's header of 11.8 has fewer constants than ours of 11.12.
        let equation = line.trim().trim_end_matches(',');
        let name = equation.split(' ').next().unwrap_or_default();
        if line.starts_with("  rocksdb_") && line.contains(" = ") && known.contains(name) {
            let equation = equation.replace(" = ", " == ");
            equal.push_str(&format!("_Static_assert({equation}, \"{name}\");\n"));
        }
    }
    // Behind ours go the functions alone: the names of constants and types are there already.
    let declared = declarations(&known);
    if declared.len() < 1700 {
        return Err(format!("{} declares {} functions", theirs.display(), declared.len()));
    }
    let behind = format!("#include \"rocksdb/c.h\"\n{own}{equal}");
    let before = format!("#include \"{}\"\n{}\n", ours.display(), declared.join("\n"));
    for (name, program) in [("ours_behind.c", behind), ("ours_before.c", before)] {
        let file = folder.join(name);
        library::write(&file, &program)?;
        let mut compile = Command::new("cc");
        compile.args(["-fsyntax-only", "-std=c11", "-Wall", "-Werror"]).arg(&file);
        library::check(compile.arg("-I").arg(sources.join("include")))?;
    }
    Ok(())
}

/// The declarations of functions in a header of RocksDB, without its macro of exports.
fn declarations(header: &str) -> Vec<String> {
    let parts = header.split("ROCKSDB_LIBRARY_API").skip(1);
    let whole = parts.filter_map(|part| part.split_once(';')).map(|(text, _)| text);
    let plain = whole.filter(|text| text.contains("rocksdb_") && !text.contains('#'));
    plain.map(|text| format!("{};", text.trim().trim_start_matches("extern "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found() {
        let header = "#define ROCKSDB_LIBRARY_API\nextern ROCKSDB_LIBRARY_API void rocksdb_a(\n    \
                      int);\n/* a note; */\nextern ROCKSDB_LIBRARY_API int\nrocksdb_b(void);\n";
        assert_eq!(declarations(header), ["void rocksdb_a(\n    int);", "int\nrocksdb_b(void);"]);
    }
}
