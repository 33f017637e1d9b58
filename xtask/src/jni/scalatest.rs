//! `--suite spark`: Spark's own tests of its state store on RocksDB, unmodified, test by test, on
//! RocksDB's library and on ours.
//!
//! They are many, and each of them starts a process for every file of a checkpoint (Hadoop's
//! `chmod` and `readlink`): hours on a busy machine. So what has run is kept. A virtual machine
//! runs at most [`TESTS_MAX`] tests, one on RocksDB's library and one on ours at a time, and
//! `Told.java` writes down each outcome when it is had: a run that was ended goes on with
//! `--resume`, and `--only TEXT` runs the tests that have the text in `SUITE: NAME`. The sum at the
//! end is over all that was kept, of this library.
//!
//! Thread safety: one caller.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use super::harness::{self, Way};
use super::{execute, output, suites};
use crate::suite::target;

/// The suite's name, and that of its list of jars.
const NAME: &str = "spark";
const PACKAGE: &str = "org.apache.spark.sql.execution.streaming.state";
/// Spark's state store of streams: changelogs, checkpoints, failures of either. The shorter ones
/// are first.
const CLASSES: [&str; 9] = [
    "RocksDBStateEncoderSuite",
    "RocksDBLineageSuite",
    "RocksDBTimestampEncoderOperationsSuite",
    "RocksDBStateStoreRowChecksumSuite",
    "RocksDBStateStoreLockHardeningSuite",
    "RocksDBCheckpointFailureInjectionSuite",
    "RocksDBStateStoreIntegrationSuite",
    "RocksDBSuite",
    "RocksDBStateStoreSuite",
];
/// Tests that one virtual machine runs. They leave iterators open, and with them files, each of
/// which makes every later start of a process longer.
const TESTS_MAX: usize = 25;
/// A process without the helper that the virtual machine else starts before it: half the time.
const QUICK_PROCESSES: &str = "-Djdk.lang.Process.launchMechanism=VFORK";
/// The outcome under which warnings of the virtual machine are kept.
const WARNED: &str = "warned";

/// Which tests are run.
pub struct Pick<'a> {
    /// Those that have this in `SUITE: NAME`.
    only: Option<&'a str>,
    /// Those that have not run, too: others run again.
    resume: bool,
}

impl<'a> Pick<'a> {
    /// Of the words behind the name of the suite.
    pub fn new(words: &[&'a str]) -> Option<Pick<'a>> {
        match *words {
            [] => Some(Pick { only: None, resume: false }),
            ["--resume"] => Some(Pick { only: None, resume: true }),
            ["--only", text] => Some(Pick { only: Some(text), resume: false }),
            ["--only", text, "--resume"] => Some(Pick { only: Some(text), resume: true }),
            _ => None,
        }
    }

    fn has(&self, test: &Test) -> bool {
        self.only.is_none_or(|text| format!("{}: {}", test.0, test.1).contains(text))
    }
}

/// The suite's class below the package, and the test's name.
type Test = (String, String);

/// What is known of the tests on one library, kept in a file.
struct Record {
    file: PathBuf,
    /// Outcome and reason.
    ended: BTreeMap<Test, (String, String)>,
}

impl Record {
    /// What is in the file, if that was of the same library and jars.
    fn open(file: PathBuf, of: u64) -> Result<Record, String> {
        let head = format!("# {of:016x}\n");
        let mut record = Record { file, ended: BTreeMap::new() };
        match fs::read_to_string(&record.file) {
            Ok(text) if text.starts_with(&head) => record.read(&text)?,
            _ => record.write(&head)?,
        }
        Ok(record)
    }

    fn write(&self, text: &str) -> Result<(), String> {
        fs::write(&self.file, text).map_err(|e| format!("{}: {e}", self.file.display()))
    }

    fn text(&self) -> Result<String, String> {
        fs::read_to_string(&self.file).map_err(|e| format!("{}: {e}", self.file.display()))
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        self.ended.clear();
        // A line that was being written when the run was ended is none.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            let &[outcome, class, name, why] = columns.as_slice() else {
                return Err(format!("{}: {line}", self.file.display()));
            };
            let class = class.rsplit('.').next().unwrap_or(class);
            let test = (class.to_string(), name.to_string());
            self.ended.insert(test, (outcome.to_string(), why.to_string()));
        }
        Ok(())
    }

    /// Reads what was added.
    fn refresh(&mut self) -> Result<(), String> {
        let text = self.text()?;
        self.read(&text)
    }

    /// Leaves out the tests for which it holds, to run them again.
    fn forget(&mut self, gone: impl Fn(&Test) -> bool) -> Result<(), String> {
        let head = self.text()?.lines().next().unwrap_or_default().to_string();
        self.ended.retain(|test, _| !gone(test));
        let mut text = format!("{head}\n");
        for ((class, name), (outcome, why)) in &self.ended {
            writeln!(text, "{outcome}\t{class}\t{name}\t{why}").map_err(|e| e.to_string())?;
        }
        self.write(&text)
    }

    /// Of these tests: how many have run, and those that failed.
    fn sum<'a>(&self, tests: impl IntoIterator<Item = &'a Test>) -> (usize, BTreeSet<&'a Test>) {
        let mut run = 0;
        let mut failed = BTreeSet::new();
        for test in tests {
            let outcome = self.ended.get(test).map(|(outcome, _)| outcome.as_str());
            run += usize::from(matches!(outcome, Some("passed" | "failed" | "canceled")));
            if outcome == Some("failed") {
                failed.insert(test);
            }
        }
        (run, failed)
    }
}

/// What a run needs.
struct Runner<'a> {
    root: &'a Path,
    folder: PathBuf,
    path: Vec<PathBuf>,
}

/// Runs the tests that are picked.
pub fn run(root: &Path, library: &Path, pick: &Pick<'_>) -> Result<(), String> {
    let folder = target(root).join("jni").join(NAME);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let classes = harness::compile(root)?;
    let jars = suites::class_path(root, NAME, &folder)?;
    let mut path: Vec<PathBuf> = std::env::split_paths(&jars).collect();
    path.insert(0, classes);
    let runner = Runner { root, folder, path };
    runner.compile()?;
    let tests = runner.names()?;
    let bytes = fs::read(library).map_err(|e| format!("{}: {e}", library.display()))?;
    let open =
        |way: Way, of: &[&[u8]]| Record::open(runner.folder.join(format!("{way:?}.tsv")), hash(of));
    let theirs = open(Way::Theirs, &[jars.as_bytes()])?;
    let ours = open(Way::Property, &[jars.as_bytes(), &bytes])?;
    let mut records = [theirs, ours];
    let picked: Vec<&Test> = tests.iter().filter(|test| pick.has(test)).collect();
    for record in &mut records {
        record.forget(|test| test.1 == WARNED && !pick.resume)?;
        if !pick.resume {
            record.forget(|test| pick.has(test))?;
        }
    }
    runner.run(&picked, &mut records)?;
    sum(&tests, &picked, &records)
}

/// FNV-1a, to tell one library from another.
fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Runner<'_> {
    fn compile(&self) -> Result<(), String> {
        let mut command = Command::new("javac");
        command.args(["-nowarn", "-Xlint:none", "-d"]).arg(&self.path[0]).arg("-cp");
        command.arg(std::env::join_paths(&self.path).map_err(|e| e.to_string())?);
        execute(command.arg(self.root.join("crates/jni/tests/java/spark/Told.java")))
    }

    fn java(&self, way: Way, scratch: &Path) -> Result<Command, String> {
        fs::create_dir_all(scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
        let mut command = way.java(self.root, &self.path)?;
        command.arg(format!("-Djava.io.tmpdir={}", scratch.display()));
        command.args(["-Xmx2g", "-Dlog4j2.level=INFO", QUICK_PROCESSES]);
        command.args(harness::opened()).stdin(Stdio::null());
        Ok(command)
    }

    /// All tests, in the order in which their suites have them.
    fn names(&self) -> Result<Vec<Test>, String> {
        let scratch = self.folder.join("tmp");
        let mut command = self.java(Way::Theirs, &scratch)?;
        command.arg("Told").args(CLASSES.map(|class| format!("{PACKAGE}.{class}")));
        let printed = output(&mut command)?;
        let names = printed.lines().filter_map(|line| {
            let (class, name) = line.strip_prefix(PACKAGE)?.strip_prefix('.')?.split_once('\t')?;
            Some((class.to_string(), name.to_string()))
        });
        Ok(names.collect())
    }

    /// Runs those that have no outcome.
    fn run(&self, picked: &[&Test], records: &mut [Record; 2]) -> Result<(), String> {
        for class in CLASSES {
            let tests: Vec<&Test> = picked.iter().copied().filter(|test| test.0 == class).collect();
            for some in tests.chunks(TESTS_MAX) {
                if self.run_both(class, some, records)? {
                    println!("jni: {NAME}: {class}: {}", told(some.iter().copied(), records));
                }
            }
        }
        Ok(())
    }

    /// Runs those of some tests of one class that have no outcome, on both libraries at a time:
    /// a test mostly starts processes, one after the other. False if all have one.
    fn run_both(
        &self,
        class: &str,
        some: &[&Test],
        records: &mut [Record; 2],
    ) -> Result<bool, String> {
        let run = |way: Way, record: &mut Record| {
            let known = |test: &&Test| record.ended.contains_key(*test);
            let todo: Vec<&Test> = some.iter().copied().filter(|test| !known(test)).collect();
            if todo.is_empty() {
                return Ok(false);
            }
            self.run_some(way, class, &todo, record).map(|()| true)
        };
        let [theirs, ours] = records;
        thread::scope(|scope| {
            let theirs = scope.spawn(|| run(Way::Theirs, theirs));
            let ours = run(Way::Property, ours);
            let theirs = theirs.join().map_err(|_| "a run panicked".to_string())?;
            Ok(theirs? | ours?)
        })
    }

    /// Runs tests of one class in one virtual machine.
    fn run_some(
        &self,
        way: Way,
        class: &str,
        todo: &[&Test],
        record: &mut Record,
    ) -> Result<(), String> {
        let scratch = self.folder.join(format!("tmp-{way:?}"));
        let reports = self.folder.join(format!("{way:?}"));
        fs::create_dir_all(&reports).map_err(|e| format!("{}: {e}", reports.display()))?;
        let log = reports.join(format!("{class}-{}.txt", record.ended.len()));
        let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let errors = file.try_clone().map_err(|e| e.to_string())?;
        let mut command = self.java(way, &scratch)?;
        command.args(way.checks());
        command.arg(format!("-Dtold.file={}", record.file.display()));
        command.args(["org.scalatest.tools.Runner", "-oW", "-C", "Told"]);
        command.arg("-s").arg(format!("{PACKAGE}.{class}"));
        for (_, name) in todo {
            command.arg("-t").arg(name);
        }
        // Its exit code says that some failed, which the record says better.
        let status = command.current_dir(&reports).stdout(file).stderr(errors).status();
        status.map_err(|e| format!("java: {e}"))?;
        fs::remove_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
        let printed = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let printed = String::from_utf8_lossy(&printed);
        if let Some(line) = harness::warnings(&printed).next() {
            let text = format!("{}{WARNED}\t{class}\t{WARNED}\t{line}\n", record.text()?);
            record.write(&text)?;
        }
        record.refresh()?;
        match todo.iter().find(|test| !record.ended.contains_key(**test)) {
            Some(test) => Err(format!("{test:?} did not end: {}", log.display())),
            None => Ok(()),
        }
    }
}

/// What is known of some tests, in words.
fn told<'a>(tests: impl Iterator<Item = &'a Test> + Clone, records: &[Record; 2]) -> String {
    let all = tests.clone().count();
    let [(a, failed), (b, own_failed)] = [0, 1].map(|side: usize| records[side].sum(tests.clone()));
    let (failed, own_failed) = (failed.len(), own_failed.len());
    format!(
        "{all} tests; RocksDB's library: {a} run, {failed} fail; this: {b} run, {own_failed} fail"
    )
}

/// Tells and judges all that is kept; of the tests that are picked each must have run.
fn sum(tests: &[Test], picked: &[&Test], records: &[Record; 2]) -> Result<(), String> {
    println!("jni: {NAME}: all that has run:");
    for class in CLASSES {
        let of_class = tests.iter().filter(|test| test.0 == class);
        println!("jni: {NAME}: {class}: {}", told(of_class, records));
    }
    println!("jni: {NAME}: {}", told(tests.iter(), records));
    let [(_, failed), (_, own_failed)] = [0, 1].map(|side: usize| records[side].sum(tests.iter()));
    for test in &failed {
        println!("jni: {NAME}: fails with RocksDB's library: {}: {}", test.0, test.1);
    }
    let why = |test: &&&Test| format!("{}: {}: {}", test.0, test.1, records[1].ended[**test].1);
    let more: Vec<String> = own_failed.difference(&failed).map(|test| why(&test)).collect();
    if !more.is_empty() {
        return Err(format!("fail here alone: {more:#?}"));
    }
    let warnings = records[1].ended.iter().filter(|(_, (outcome, _))| outcome == WARNED);
    let warnings: Vec<&String> = warnings.map(|(_, (_, line))| line).collect();
    if !warnings.is_empty() {
        return Err(format!("the virtual machine warns: {warnings:#?}"));
    }
    let missing =
        |side: usize| picked.iter().filter(move |t| !records[side].ended.contains_key(**t));
    match missing(0).count().max(missing(1).count()) {
        0 => Ok(()),
        some => Err(format!("{some} tests have not run: go on with --resume")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str) -> Test {
        ("Suite".to_string(), name.to_string())
    }

    #[test]
    fn what_was_told_is_kept_for_the_same_library_alone() {
        let file = std::env::temp_dir().join(format!("pumice-told-{}.tsv", std::process::id()));
        fs::remove_file(&file).ok();
        let record = Record::open(file.clone(), 1).expect("made");
        assert!(record.ended.is_empty());
        let told = "passed\ta.b.Suite\tone\t\nfailed\ta.b.Suite\ttwo\twhy\nignored\ta.b.Suite\t\
                    three\t\npassed\ta.b.Suite\tfo";
        record.write(&format!("{}{told}", record.text().expect("head"))).expect("written");
        let mut record = Record::open(file.clone(), 1).expect("kept");
        let tests = ["one", "two", "three", "four"].map(test);
        let (run, failed) = record.sum(&tests);
        assert_eq!((run, failed.into_iter().collect::<Vec<_>>()), (2, vec![&tests[1]]));
        assert_eq!(record.ended[&tests[1]].1, "why");
        record.forget(|test| test.1 == "two").expect("written");
        let record = Record::open(file.clone(), 1).expect("kept");
        assert_eq!((record.sum(&tests).0, record.ended.len()), (1, 2));
        assert!(Record::open(file.clone(), 2).expect("made").ended.is_empty());
        fs::remove_file(&file).expect("there");
    }

    #[test]
    fn tests_are_picked_by_suite_and_name() {
        let pick = |words: &[&'static str]| Pick::new(words).expect("a pick");
        assert!(pick(&[]).has(&test("one")) && !pick(&[]).resume);
        assert!(pick(&["--only", "Suite: o", "--resume"]).has(&test("one")));
        assert!(!pick(&["--only", "two"]).has(&test("one")));
        assert!(Pick::new(&["--resume", "--only"]).is_none());
    }
}
