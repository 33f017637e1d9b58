//! `cargo xtask clients c_test`: RocksDB's own test program of its C interface, on our library.
//!
//! The source comes with a crate from crates.io and is never committed. A copy without the phases
//! that need a missing feature is compiled against `target/capi` and run; it must pass to its end.
//! RocksDB's header and ours must compile together.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::library;

/// The crate with the sources of RocksDB 11.8.1.
const CRATE: &str = "librocksdb-sys";
const VERSION: &str = "0.19.0+11.8.1";

/// Phases that need what the engine does not have; may only become fewer.
const LEFT_OUT: &[&str] = &[
    "backup_create_options",
    "checkpoint_export_column_family",
    "columnfamilies",
    // A memtable of 100,000 bytes takes some entries less here, so that there are two tables, and
    // other false positives than the 188 of one.
    "filter",
    "trace",
    "remote_compaction_service",
    "remote_compaction_options_override",
    "factory_options_on_regular_options",
    "remote_compaction_null_callback_handling",
    "remote_compaction_canceled_flag",
    "wal_filter",
    "livefiles_storage_info",
    "table_filter_listener_metadata",
    "snapshot_with_memtable_inplace_update",
    "open_db_paths",
];

/// Phases that leave the database closed and destroyed, which is done in their place.
const CLOSING: [&str; 2] = ["columnfamilies", "transactions"];
const CLOSE: &str = "  rocksdb_close(db);\n  \
    rocksdb_destroy_db(options, dbname, &err);\n  CheckNoError(err);\n";

/// Builds and runs the program with the library in `target/capi`.
pub fn run(root: &Path) -> Result<(), String> {
    let library = crate::suite::target(root).join("capi/lib");
    if !library.join("librocksdb.so").is_file() {
        return Err("there is no target/capi/lib/librocksdb.so: cargo xtask capi".to_string());
    }
    let folder = root.join("target/c_test");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let sources = library::fetch_crate(&folder, CRATE, VERSION)?.join("rocksdb");
    redeclare(root, &folder, &sources)?;
    let original = sources.join("db/c_test.c");
    let text = fs::read_to_string(&original).map_err(|e| format!("{}: {e}", original.display()))?;
    let (source, program) = (folder.join("c_test.c"), folder.join("c_test"));
    fs::write(&source, without_phases(&text)).map_err(|e| format!("{}: {e}", source.display()))?;
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-g", "-w", "-o"]).arg(&program).arg(&source);
    compile.arg("-I").arg(sources.join("include")).arg("-I").arg(&sources);
    compile.arg("-L").arg(&library).args(["-lrocksdb", "-lpthread"]);
    library::check(&mut compile)?;
    library::link(&library, "librocksdb.so.11")?;
    let data = folder.join("data");
    fs::remove_dir_all(&data).ok();
    fs::create_dir_all(&data).map_err(|e| format!("{}: {e}", data.display()))?;
    let mut test = Command::new(&program);
    test.env("LD_LIBRARY_PATH", &library).env("TEST_TMPDIR", &data);
    library::check(&mut test)?;
    println!("c_test: passes without {} phases", LEFT_OUT.len());
    Ok(())
}

/// Compiles RocksDB's header and, behind it, all declarations of ours: a conflict does not compile.
fn redeclare(root: &Path, folder: &Path, sources: &Path) -> Result<(), String> {
    let header = root.join("target/capi/include/rocksdb/c.h");
    let text = fs::read_to_string(&header).map_err(|e| format!("{}: {e}", header.display()))?;
    let mut program = "#include \"rocksdb/c.h\"\n".to_string();
    for line in text.lines() {
        let own = line.starts_with("typedef ") || line.starts_with("extern ");
        if own && !line.contains("extern \"C\"") && !line.ends_with('{') {
            program.push_str(line);
            program.push('\n');
        }
    }
    // RocksDB's header of 11.8 has fewer constants than ours of 11.12.
    let theirs = sources.join("include/rocksdb/c.h");
    let known = fs::read_to_string(&theirs).map_err(|e| format!("{}: {e}", theirs.display()))?;
    for line in text.lines().filter(|line| line.starts_with("  rocksdb_") && line.contains(" = ")) {
        let equation = line.trim().trim_end_matches(',').replace(" = ", " == ");
        let name = equation.split(' ').next().unwrap_or_default();
        if known.contains(name) {
            program.push_str(&format!("_Static_assert({equation}, \"{name}\");\n"));
        }
    }
    let file = folder.join("redeclare.c");
    fs::write(&file, program).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut compile = Command::new("cc");
    compile.args(["-fsyntax-only", "-std=c11", "-Wall", "-Werror"]).arg(&file);
    compile.arg("-I").arg(sources.join("include"));
    library::check(&mut compile)
}

/// The program without the phases of [`LEFT_OUT`]: a phase ends where the next begins.
fn without_phases(text: &str) -> String {
    let (mut out, mut is_left_out) = (String::new(), false);
    for line in text.lines() {
        let name = line.strip_prefix("  StartPhase(\"").and_then(|rest| rest.split('"').next());
        if let Some(name) = name {
            is_left_out = LEFT_OUT.contains(&name);
            if is_left_out && CLOSING.contains(&name) {
                out.push_str(CLOSE);
            }
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
    fn phases_are_left_out_whole() {
        let text = "head\n  StartPhase(\"a\");\n  one\n  StartPhase(\"writebatch_wi\");\n  two\n  \
                    StartPhase(\"b\");\n  three\n";
        let left = without_phases(text);
        assert_eq!(left, "head\n  StartPhase(\"a\");\n  one\n  StartPhase(\"b\");\n  three\n");
    }
}
