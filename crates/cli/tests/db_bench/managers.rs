//! `--compression_manager`: what is printed, and what is in the tables.

use std::path::Path;
use std::process::Command;

use crate::db_bench;

const FILL: &str = "--num=5000 --seed=7 --benchmarks=fillseq,flush,readrandom --threads=1";

/// Runs db_bench in `dir`, and what it prints after its header's first line about compression.
fn printed(dir: &Path, flags: &str) -> String {
    let out = db_bench(dir, &format!("{FILL} {flags}")).good();
    assert!(out.contains("(5000 of 5000 found)"), "{out}");
    out[out.find("Compression").unwrap()..].to_string()
}

/// The properties of the tables in `dir`.
fn properties(dir: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.args(["sst_dump", "--command=none", "--show_properties"]).arg(dir.join("dbbench"));
    let out = command.output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn managers_choose_codecs() {
    for (manager, types, how) in [
        ("mixed", "01020304", "_compression_manager=RoundRobinManager; "),
        ("MIXED", "01020304", "_compressor=RoundRobinCompressor; "),
        ("autoskip", "04;", "_compressor=AutoSkipCompressorWrapper; "),
        ("costpredictor", "07;", "_compressor=CostAwareCompressor; "),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let flags = format!("--compression_type=lz4 --compression_manager={manager}");
        let out = printed(dir.path(), &flags);
        let header = format!("Compression manager: {manager}\nCompression: zstd\n");
        assert!(out.starts_with(&header), "{out}");
        let found = properties(dir.path());
        assert!(found.contains(&format!(": BuiltinV2;{types}")) && found.contains(how), "{found}");
    }
    let dir = tempfile::tempdir().unwrap();
    let out = printed(dir.path(), "--compression_type=lz4 --compression_manager=None");
    assert!(out.starts_with("Compression: LZ4\n"), "{out}");
    let found = properties(dir.path());
    assert!(found.contains(": BuiltinV2;04;") && !found.contains("_compressor"), "{found}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn other_managers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |flags: &str| db_bench(dir.path(), &format!("{FILL} {flags}")).bad();
    let error = refused("--compression_manager=BuiltinV2");
    assert!(error.contains("Requested compression manager not supported"), "{error}");
    let error = refused("--compression_manager=mixed --compression_type=none");
    let words = "Compression type must not be no Compression when using compression manager";
    assert!(error.contains(words), "{error}");
}
