//! RocksDB 11.8.1's own test program of its C interface, unmodified, on our library.
//!
//! Plain test: the program is a process.

use std::path::Path;
use std::process::Command;

use super::programs::folder_with;
use super::shared_library;

#[test]
fn rocksdbs_own_test_of_its_c_interface_passes() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.peers/c_test");
    let source = sources.join("c_test.c");
    assert!(source.is_file(), "{} is not there: cargo xtask peers brings it", source.display());
    let scratch = tempfile::tempdir().expect("a folder is made");
    let libraries = folder_with(&shared_library(), &scratch.path().join("library"));
    let program = scratch.path().join("c_test");
    let mut compiler = Command::new("cc");
    compiler.args(["-w", "-o"]).arg(&program).arg(source);
    compiler.arg("-I").arg(sources.join("include")).arg("-I").arg(&sources);
    compiler.arg("-L").arg(&libraries).args(["-lrocksdb", "-lpthread"]);
    assert!(compiler.status().expect("a compiler is installed").success());
    let data = scratch.path().join("data");
    std::fs::create_dir(&data).expect("a folder is made");
    let output = Command::new(&program)
        .env("LD_LIBRARY_PATH", &libraries)
        .env("TEST_TMPDIR", &data)
        .output()
        .expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    assert!(errors.ends_with("PASS\n"), "{errors}");
}
