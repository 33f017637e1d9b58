//! Cuts a large program of tests into parts: one run of it for each of its top modules.
//!
//! A test binary with many suites would otherwise be one long job with one time limit and one line
//! in the report. The parts are made from the program's own list, so each test is in exactly one; a
//! part names its tests in full, since libtest's filters match substrings.
//!
//! Thread safety: plain functions. It trusts libtest's terse list (`NAME: test`).

use std::collections::BTreeMap;

use super::build::Program;
use super::tally::Tally;

/// Some tests of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// `PACKAGE::TARGET MODULE`.
    pub name: String,
    /// The words after the program's name.
    pub arguments: Vec<String>,
    /// How many tests must have run in the end; None if that is not known.
    pub tests: Option<u64>,
}

impl Part {
    /// All of `program`.
    pub fn whole(program: &Program) -> Part {
        Part { name: program.name.clone(), arguments: Vec::new(), tests: None }
    }
}

impl Part {
    /// What is wrong with a run without failures that counted `tally`, if tests are missing in it.
    pub fn left_out(&self, tally: Tally) -> Option<String> {
        let wanted = self.tests.filter(|tests| tally.failed == 0 && *tests != tally.passed)?;
        Some(format!("{} of {wanted} tests ran", tally.passed))
    }
}

/// Asks `program` for its tests. The part of a test outside modules has the name of the test.
///
/// # Errors
/// When the program cannot be started or fails, or has no tests.
pub fn of(program: &Program) -> Result<Vec<Part>, String> {
    let output = program.command().args(["--list", "--format=terse"]).output();
    let output = output.map_err(|error| format!("{}: {error}", program.name))?;
    let parts = cut(&program.name, &String::from_utf8_lossy(&output.stdout));
    match output.status.success() && !parts.is_empty() {
        true => Ok(parts),
        false => Err(format!("{} --list: {}, {} parts", program.name, output.status, parts.len())),
    }
}

fn cut(program: &str, list: &str) -> Vec<Part> {
    let mut modules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for test in list.lines().filter_map(|line| line.strip_suffix(": test")) {
        let (module, _) = test.split_once("::").unwrap_or((test, ""));
        let arguments = modules.entry(module).or_insert_with(|| vec!["--exact".to_string()]);
        arguments.push(test.to_string());
    }
    let part = |(module, arguments): (&str, Vec<String>)| Part {
        name: format!("{program} {module}"),
        tests: Some(arguments.len() as u64 - 1),
        arguments,
    };
    modules.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_is_in_the_part_of_its_module() {
        let list = "write::x::a: test\nread::b: test\nwrite::c: test\nwriter::c: test\nd: test\n";
        let parts = cut("p::all", list);
        let words = |part: &Part| format!("{}: {}", part.name, part.arguments.join(" "));
        let wanted = [
            "p::all d: --exact d",
            "p::all read: --exact read::b",
            "p::all write: --exact write::x::a write::c",
            "p::all writer: --exact writer::c",
        ];
        assert_eq!(parts.iter().map(words).collect::<Vec<_>>(), wanted);
        assert!(cut("p::all", "\n0 tests, 0 benchmarks\n").is_empty());
    }

    #[test]
    fn a_part_that_leaves_a_test_out_is_reported() {
        let parts = cut("p::all", "write::a: test\nwrite::b: test\n");
        let left_out = |passed, failed| parts[0].left_out(Tally { passed, failed });
        assert_eq!(left_out(2, 0), None);
        assert_eq!(left_out(1, 0).as_deref(), Some("1 of 2 tests ran"));
        assert_eq!(left_out(1, 1), None, "it is reported as a failure");
    }

    #[test]
    fn a_program_without_a_list_is_an_error() {
        let program = |path: &str| Program {
            package: "p".to_string(),
            name: "p::all".to_string(),
            path: path.into(),
            folder: "/".into(),
        };
        assert!(of(&program("/bin/true")).is_err());
        assert!(of(&program("/bin/false")).is_err());
        assert!(of(&program("/no/such/program")).is_err());
    }
}
