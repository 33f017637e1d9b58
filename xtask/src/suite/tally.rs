//! Counts tests from the output of test programs, and extracts their failures.
//!
//! Thread safety: plain values. It trusts libtest's text (`test result: ...`, `failures:`); a
//! program that ends without such a line is judged by its exit status, in `program`.

use std::ops::AddAssign;

/// Tests that passed and failed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// How many lines of the failures of one test program are repeated at the end of the run.
const LINES_OF_FAILURES: usize = 60;

/// Adds up the `test result:` lines of `text`; the second value is the output of failed tests.
pub fn count(text: &str) -> (Tally, Vec<String>) {
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    let mut reporting = 0;
    for line in text.lines() {
        if let Some(result) = parse_result(line) {
            tally += result;
            reporting = 0;
        } else if line == "failures:" {
            reporting = LINES_OF_FAILURES;
        } else if reporting > 0 {
            reporting -= 1;
            failures.push(line.to_string());
        }
    }
    (tally, failures)
}

/// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
fn parse_result(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut tally = Tally::default();
    for part in counts.split("; ") {
        let (number, what) = part.split_once(' ')?;
        match what {
            "passed" => tally.passed = number.parse().ok()?,
            "failed" => tally.failed = number.parse().ok()?,
            _ => break,
        }
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_read_and_other_lines_are_not() {
        let line = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out";
        assert_eq!(parse_result(line), Some(Tally { passed: 12, failed: 0 }));
        let line = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured";
        assert_eq!(parse_result(line), Some(Tally { passed: 3, failed: 2 }));
        assert_eq!(parse_result("test wal::replay ... ok"), None);
        assert_eq!(parse_result("running 3 tests"), None);
    }

    #[test]
    fn results_are_added_and_failures_kept() {
        let text = "running 2 tests\n\nfailures:\n\n---- a ----\nboom\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored\nnot this\n\
                    test result: ok. 4 passed; 0 failed; 0 ignored\n";
        let (tally, failures) = count(text);
        assert_eq!(tally, Tally { passed: 5, failed: 1 });
        assert_eq!(failures, ["", "---- a ----", "boom"]);
    }
}
