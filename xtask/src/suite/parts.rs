//! Cuts a large program of tests into parts: one run of it for each of its top modules.
//!
//! A test binary with many suites would otherwise be one long job with one time limit and one line
//! in the report. The parts are made from the program's own list, so each test is in exactly one; a
//! part names its tests in full, since libtest's filters match substrings. Ignored tests are in no
//! part.
//!
//! Thread safety: plain functions. It trusts libtest's terse list (`NAME: test`).

use std::collections::BTreeMap;

use super::build::Program;
use super::tally::Tally;

/// Some tests of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// `PACKAGE::TARGET`, with ` MODULE` where a program is cut.
    pub name: String,
    /// Full names, all of which must have run in the end; empty is the whole program.
    pub tests: Vec<String>,
}

impl Part {
    /// All of `program`.
    pub fn whole(program: &Program) -> Part {
        Part { name: program.name.clone(), tests: Vec::new() }
    }

    /// The words after the program's name.
    pub fn arguments(&self) -> Vec<&str> {
        let exact = (!self.tests.is_empty()).then_some("--exact");
        exact.into_iter().chain(self.tests.iter().map(String::as_str)).collect()
    }

    /// What is wrong with a run without failures that counted `tally`, if tests are missing in it.
    pub fn left_out(&self, tally: Tally) -> Option<String> {
        let wanted = self.tests.len() as u64;
        let missing = wanted > 0 && tally.failed == 0 && wanted != tally.passed;
        missing.then(|| format!("{} of {wanted} tests ran", tally.passed))
    }
}

/// Cuts `program` by `tests`. The part of a test outside modules has the name of the test.
pub fn of(program: &Program, tests: &[String]) -> Vec<Part> {
    let mut modules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for test in tests {
        let (module, _) = test.split_once("::").unwrap_or((test, ""));
        modules.entry(module).or_default().push(test.clone());
    }
    let name = |module| format!("{} {module}", program.name);
    modules.into_iter().map(|(module, tests)| Part { name: name(module), tests }).collect()
}

/// Asks `program` for its tests, without those that are ignored.
///
/// # Errors
/// When the program cannot be started or fails.
pub fn list(program: &Program) -> Result<Vec<String>, String> {
    let mut tests = ask(program, &["--list", "--format=terse"])?;
    let ignored = ask(program, &["--list", "--format=terse", "--ignored"])?;
    tests.retain(|test| !ignored.contains(test));
    Ok(tests)
}

fn ask(program: &Program, words: &[&str]) -> Result<Vec<String>, String> {
    let output = program.command().args(words).output();
    let output = output.map_err(|error| format!("{}: {error}", program.name))?;
    match output.status.success() {
        true => Ok(names(&String::from_utf8_lossy(&output.stdout))),
        false => Err(format!("{} {}: {}", program.name, words.join(" "), output.status)),
    }
}

fn names(list: &str) -> Vec<String> {
    list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &str) -> Program {
        Program {
            package: "p".to_string(),
            name: "p::all".to_string(),
            path: path.into(),
            folder: "/".into(),
        }
    }

    fn cut(list: &str) -> Vec<Part> {
        of(&program("/bin/true"), &names(list))
    }

    #[test]
    fn each_test_is_in_the_part_of_its_module() {
        let list = "write::x::a: test\nread::b: test\nwrite::c: test\nwriter::c: test\nd: test\n";
        let parts = cut(list);
        let words = |part: &Part| format!("{}: {}", part.name, part.arguments().join(" "));
        let wanted = [
            "p::all d: --exact d",
            "p::all read: --exact read::b",
            "p::all write: --exact write::x::a write::c",
            "p::all writer: --exact writer::c",
        ];
        assert_eq!(parts.iter().map(words).collect::<Vec<_>>(), wanted);
        assert!(cut("\n0 tests, 0 benchmarks\n").is_empty());
        assert!(Part::whole(&program("/bin/true")).arguments().is_empty());
    }

    #[test]
    fn a_part_that_leaves_a_test_out_is_reported() {
        let parts = cut("write::a: test\nwrite::b: test\n");
        let left_out = |passed, failed| parts[0].left_out(Tally { passed, failed });
        assert_eq!(left_out(2, 0), None);
        assert_eq!(left_out(1, 0).as_deref(), Some("1 of 2 tests ran"));
        assert_eq!(left_out(1, 1), None, "it is reported as a failure");
        let whole = Part::whole(&program("/bin/true"));
        assert_eq!(whole.left_out(Tally { passed: 1, failed: 0 }), None);
    }

    #[test]
    fn a_program_without_a_list_is_an_error() {
        assert_eq!(list(&program("/bin/true")), Ok(Vec::new()));
        assert!(list(&program("/bin/false")).is_err());
        assert!(list(&program("/no/such/program")).is_err());
    }
}
