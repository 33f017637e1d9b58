//! `cargo xtask clients c_test`: RocksDB's own test program of its C interface, on our library.
//!
//! The sources come with crates from crates.io and are never committed: those of 11.8.1 and of
//! 11.12. A copy without the phases that need a missing feature is compiled against `target/capi`
//! and run; it must pass to its end. RocksDB's headers and ours must compile together, whichever
//! comes first.
//!
//! `--valgrind` runs the same programs under valgrind: an invalid access, a use of what was never
//! written, or memory that nothing points to at the end fails the command. Takes minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::library::{self, Library};

/// A program: of which version of RocksDB, the crate with its sources, and the crate's version.
struct Source {
    release: &'static str,
    package: &'static str,
    version: &'static str,
    /// Phases that are left out besides those of [`LEFT_OUT`]; may only become fewer.
    left_out: &'static [&'static str],
}

const SOURCES: [Source; 2] = [
    Source {
        release: "11.8.1",
        package: "librocksdb-sys",
        version: "0.19.0+11.8.1",
        left_out: &[],
    },
    Source {
        release: "11.12.0",
        package: "rust-librocksdb-sys",
        version: "0.49.0+11.12.0",
        left_out: &[],
    },
];

/// Phases that need what the engine does not have; may only become fewer.
const LEFT_OUT: &[&str] = &[
    // A memtable of 100,000 bytes takes some entries less here, so that there are two tables, and
    // other false positives than the 188 of one.
    "filter",
    // Listeners hear of files that are moved.
    "table_filter_listener_metadata",
    "snapshot_with_memtable_inplace_update",
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
        let left_out = [LEFT_OUT, source.left_out].concat();
        let program = compile(&library, &folder, &sources, &left_out)?;
        let data = folder.join("data");
        library::scratch(&data)?;
        let mut test = match under_valgrind {
            false => Command::new(&program),
            true => valgrind(&program),
        };
        test.env("LD_LIBRARY_PATH", &library.lib).env("TEST_TMPDIR", &data);
        library::check(&mut test).map_err(|e| format!("{release}: {e}"))?;
        println!("c_test of {release}: passes without {} phases", left_out.len());
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

/// Compiles the program without the phases that are left out.
fn compile(
    library: &Library,
    folder: &Path,
    sources: &Path,
    left_out: &[&str],
) -> Result<PathBuf, String> {
    let original = sources.join("db/c_test.c");
    let text = fs::read_to_string(&original).map_err(|e| format!("{}: {e}", original.display()))?;
    if let Some(name) = left_out.iter().find(|name| !text.contains(&start_of(name))) {
        return Err(format!("{} has no phase {name}", original.display()));
    }
    let (source, program) = (folder.join("c_test.c"), folder.join("c_test"));
    library::write(&source, &without_phases(&text, left_out))?;
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-g", "-w", "-o"]).arg(&program).arg(&source);
    compile.arg("-I").arg(sources.join("include")).arg("-I").arg(sources);
    compile.arg("-L").arg(&library.lib).args(["-lrocksdb", "-lpthread"]);
    library::check(&mut compile)?;
    Ok(program)
}

/// The line of a program with which a phase begins.
fn start_of(phase: &str) -> String {
    format!("  StartPhase(\"{phase}\")")
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

/// The program without these phases: a phase ends where the next begins.
fn without_phases(text: &str, left_out: &[&str]) -> String {
    let (mut out, mut is_left_out) = (String::new(), false);
    for line in text.lines() {
        let name = line.strip_prefix("  StartPhase(\"").and_then(|rest| rest.split('"').next());
        if let Some(name) = name {
            is_left_out = left_out.contains(&name);
        }
        if !is_left_out {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
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

    #[test]
    fn phases_are_left_out_whole() {
        let text = "head\n  StartPhase(\"a\");\n  one\n  StartPhase(\"trace\");\n  two\n  \
                    StartPhase(\"b\");\n  three\n";
        let left = without_phases(text, &["trace"]);
        assert_eq!(left, "head\n  StartPhase(\"a\");\n  one\n  StartPhase(\"b\");\n  three\n");
    }
}
