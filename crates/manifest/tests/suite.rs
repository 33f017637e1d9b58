//! Tests of the manifest crate through its public interface.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod builder;
mod edit;
mod real;
mod scores;
mod search;

/// Compares a text test with its expected outputs, or replaces them if `REWRITE` is set.
fn run_file(path: &str, run: impl FnMut(&pumice_manifest::testing::Command) -> String) {
    let text = std::fs::read_to_string(path).unwrap();
    let (rewritten, failures) = pumice_manifest::testing::run(&text, run);
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(path, rewritten).unwrap();
    } else {
        assert!(failures.is_empty(), "{path}{failures}");
    }
}
