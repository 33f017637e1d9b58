//! Which tests of a client pass: a committed list of those that pass on RocksDB 11.8.1.
//!
//! A line names a test. One that begins with `- ` needs what the engine does not have yet, and says
//! what: it must fail, so that its mark goes when the feature comes.
//!
//! Thread safety: plain data.

use std::collections::BTreeMap;

/// Compares what passed with `list`.
///
/// # Errors
/// The tests that differ, one in a line.
pub fn compare(list: &str, results: &BTreeMap<String, bool>) -> Result<Summary, String> {
    let mut summary = Summary::default();
    let mut wrong = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, lacks) = match line.strip_prefix("- ") {
            Some(rest) => rest.split_once(": ").map_or((rest, None), |(n, why)| (n, Some(why))),
            None => (line, None),
        };
        match (results.get(name), lacks) {
            (Some(true), None) => summary.passed += 1,
            (Some(true), Some(_)) => wrong.push(format!("{name} passes now: take its mark away")),
            (Some(false), None) => wrong.push(format!("{name} fails")),
            (None, None) => wrong.push(format!("{name} was not run")),
            (_, Some(_)) => summary.lacking += 1,
        }
    }
    if wrong.is_empty() { Ok(summary) } else { Err(wrong.join("\n")) }
}

/// Counts of a comparison without a difference.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Summary {
    pub passed: usize,
    /// Fail as the list says.
    pub lacking: usize,
}

/// Tests of Rust programs in the output of `cargo test`, as `PROGRAM::TEST`.
pub fn of_cargo(output: &str) -> BTreeMap<String, bool> {
    let mut program = String::new();
    let mut results = BTreeMap::new();
    for line in output.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("Running ") {
            let file = rest.split(" (").next().unwrap_or_default();
            let stem = file.rsplit('/').next().unwrap_or_default();
            program = stem.trim_end_matches(".rs").to_string();
        } else if line.starts_with("Doc-tests ") {
            program = "doc".to_string();
        } else if let Some((name, result)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
            && result != "ignored"
        {
            // A doc test's line number says nothing.
            let name = name.split(" (line").next().unwrap_or(name).trim_end();
            let passed = results.entry(format!("{program}::{name}")).or_insert(true);
            *passed &= result == "ok";
        }
    }
    results
}

/// Tests in the output of `go test -v`, without subtests.
pub fn of_go(output: &str) -> BTreeMap<String, bool> {
    let mut results = BTreeMap::new();
    for line in output.lines() {
        let ended = line.strip_prefix("--- ").and_then(|rest| rest.split_once(": "));
        if let Some((result @ ("PASS" | "FAIL"), rest)) = ended {
            let name = rest.split(' ').next().unwrap_or(rest);
            results.insert(name.to_string(), result == "PASS");
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let results: BTreeMap<String, bool> =
            [("a", true), ("b", false), ("c", true), ("d", false)]
                .map(|(name, passed)| (name.to_string(), passed))
                .into();
        assert_eq!(
            compare("# head\na\n- b: blob files\n", &results),
            Ok(Summary { passed: 1, lacking: 1 })
        );
        let wrong = "c passes now: take its mark away\nd fails\ne was not run".to_string();
        assert_eq!(compare("a\n- c: traces\nd\ne\n", &results), Err(wrong));
    }

    #[test]
    fn results_are_read() {
        let cargo = "     Running tests/test_db.rs (target/debug/x)\ntest one ... ok\n\
                     test two ... FAILED\ntest three ... ignored\n   Doc-tests rocksdb\n\
                     test src/db.rs - db::DB (line 3) ... ok\n";
        let found = of_cargo(cargo);
        let wanted = [("doc::src/db.rs - db::DB", true), ("test_db::one", true)];
        assert!(wanted.iter().all(|(name, passed)| found.get(*name) == Some(passed)));
        assert_eq!(found.len(), 3);
        let go = "=== RUN   TestA\n    --- FAIL: TestA/sub (0.00s)\n--- PASS: TestA (0.02s)\n\
                  --- FAIL: TestB (1.00s)\n";
        assert_eq!(of_go(go), [("TestA".into(), true), ("TestB".into(), false)].into());
    }
}
