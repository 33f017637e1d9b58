//! Makes the jobs of each stage. There are six chains of builds, each in a folder of its own,
//! since cargo lets one build at a time into a folder:
//!
//! | chain | folder | leaves |
//! |---|---|---|
//! | clippy, tests, at last TLS | `debug` | the programs of all passes, doc tests, simulation |
//! | release | `release` | the calls |
//! | planted bugs, then those inside tables | `planted` | their tests |
//! | loom | `loom` | the models |
//! | no C compiler | `no-c` | the tests of a crate without the codecs in C |
//! | Python | `python` | nothing: the wheel and its tests are one command |
//! | Java | `jni` | nothing: the library and its programs are one command |
//!
//! TLS is a feature of the binary that other programs call, and its build replaces that binary, so
//! it runs when nothing else does.
//!
//! Thread safety: jobs share a `Context` that does not change; the peers are found once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::build::{self, Program, cargo, target};
use super::parts::{self, Part};
use super::plain;
use super::plan::{self, CALLS, Choice, LIMIT, MODES, Mode};
use super::program::{self, Ended};
use super::queue::{Done, Job};
use super::tally::{self, Tally};
use crate::peers::{self, Peers};
use crate::{examples, sim, tidy};

/// What all jobs know.
pub struct Context {
    pub root: PathBuf,
    pub choice: Choice,
    peers: OnceLock<Result<Peers, String>>,
}

/// How much of a failed command's output is repeated at the end.
const LINES_OF_COMMANDS: usize = 40;

impl Context {
    pub fn new(root: &Path, choice: Choice) -> Arc<Context> {
        Arc::new(Context { root: root.to_path_buf(), choice, peers: OnceLock::new() })
    }

    fn peers(&self) -> Result<&Peers, &str> {
        self.peers.get_or_init(|| peers::install(&self.root)).as_ref().map_err(String::as_str)
    }

    fn run(&self, mut command: Command, limit: Option<Duration>) -> Result<Ended, String> {
        let scratch = target(&self.root).join("xtask-output");
        program::run(&mut command, limit, &scratch).map_err(|e| format!("{command:?}: {e}"))
    }

    /// A command that either succeeds or counts as one failure.
    fn check(&self, name: &str, command: Command, limit: Option<Duration>) -> Done {
        let ended = match self.run(command, limit) {
            Ok(ended) => ended,
            Err(message) => return failure(name, message, String::new()),
        };
        match ended.trouble(limit) {
            None => Done { text: ended.text, ..Done::default() },
            Some(trouble) => failure(name, trouble, ended.text),
        }
    }

    /// The same, where success counts as a test.
    fn test(&self, name: &str, command: Command) -> Done {
        let mut done = self.check(name, command, Some(LIMIT));
        done.tally.passed = 1 - done.tally.failed;
        done
    }

    /// A program whose tests are counted. One that fails without a failed test counts as one
    /// failure.
    fn tests(&self, name: &str, command: Command) -> Done {
        let ended = match self.run(command, Some(LIMIT)) {
            Ok(ended) => ended,
            Err(message) => return failure(name, message, String::new()),
        };
        let (mut tally, mut failures) = tally::count(&ended.text);
        if let Some(trouble) = ended.trouble(Some(LIMIT)) {
            if tally.failed == 0 || ended.status.is_none_or(|status| status.code().is_none()) {
                tally.failed += 1;
                failures.extend(last_lines(&ended.text));
            }
            failures.insert(0, format!("{name}: {trouble}"));
        }
        Done { tally, failures, text: ended.text, ..Done::default() }
    }

    /// Tells the tests where the peers are; `--quick` installs none, and its tests use those that
    /// they find.
    fn with_peers(&self, command: &mut Command) {
        if !self.choice.has("peers") {
            // In CI a missing peer is a failure of some tests.
            command.env_remove("CI");
            return;
        }
        if let Ok(peers) = self.peers() {
            command.env(peers::LIBRARY_VARIABLE, &peers.rocksdb_so);
            command.env(peers::PYTHON_VARIABLE, &peers.redis_py);
            command.envs(peers.browser.as_ref().map(|browser| (peers::BROWSER_VARIABLE, browser)));
        }
    }

    /// Builds tests and hands their programs to `then`.
    fn build(
        &self,
        name: &str,
        mut command: Command,
        then: impl FnOnce(Vec<Program>) -> Done,
    ) -> Done {
        build::only_build(&mut command);
        let mut done = self.check(name, command, None);
        let (programs, words) = build::programs(&done.text);
        done.text = words;
        if done.tally.failed == 0 {
            let left = then(programs);
            done.tally += left.tally;
            done.failures.extend(left.failures);
            done.next = left.next;
            done.later = left.later;
        }
        done
    }
}

fn failure(name: &str, trouble: String, text: String) -> Done {
    let mut failures = vec![format!("{name}: {trouble}")];
    failures.extend(last_lines(&text));
    Done { tally: Tally { passed: 0, failed: 1 }, failures, text, ..Done::default() }
}

fn last_lines(text: &str) -> impl Iterator<Item = String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("{\"reason\"")).collect();
    let from = lines.len().saturating_sub(LINES_OF_COMMANDS);
    lines[from..].iter().map(|line| line.to_string()).collect::<Vec<_>>().into_iter()
}

/// What a job of a stage does.
type Body = fn(&Arc<Context>) -> Done;

/// The initial jobs; they add the others.
pub fn first_jobs(context: &Arc<Context>) -> Vec<Job> {
    let known: [(&'static str, Body); 11] = [
        ("clippy", clippy),
        ("build", build_tests),
        ("peers", find_peers),
        ("fmt", |context| {
            context.check("fmt", cargo(&context.root, &["fmt", "--all", "--check"]), None)
        }),
        ("tidy", check_rules),
        ("release", build_release),
        ("planted", search_planted),
        ("loom", build_loom),
        ("no-c", build_without_c),
        ("python", test_python),
        ("jni", test_jni),
    ];
    let has = |stage: &str| context.choice.has(stage);
    let mut jobs: Vec<Job> = Vec::new();
    for (stage, body) in known {
        // Clippy adds the build of the tests, which would only wait for it.
        if has(stage) && !(stage == "build" && has("clippy")) {
            jobs.push(job(context, stage, stage, body));
        }
    }
    if has("mutation") && !has("planted") {
        jobs.push(job(context, "mutation", "build", build_mutation));
    }
    if has("tls") {
        jobs.push(job(context, "tls", "build", build_tls).alone());
    }
    jobs
}

fn job(
    context: &Arc<Context>,
    stage: &'static str,
    name: impl Into<String>,
    body: impl FnOnce(&Arc<Context>) -> Done + Send + 'static,
) -> Job {
    let context = context.clone();
    Job::new(stage, name, move || body(&context))
}

/// The job of one program's tests.
fn tests(
    context: &Arc<Context>,
    stage: &'static str,
    program: Program,
    prepare: impl FnOnce(&Context, &mut Command) + Send + 'static,
) -> Job {
    let part = Part::whole(&program);
    tests_of(context, stage, program, part, prepare)
}

/// The job of a part of them.
fn tests_of(
    context: &Arc<Context>,
    stage: &'static str,
    program: Program,
    part: Part,
    prepare: impl FnOnce(&Context, &mut Command) + Send + 'static,
) -> Job {
    let name = part.name.clone();
    let alone = plan::ALONE.iter().any(|(alone, _)| *alone == name);
    let made = job(context, stage, name, move |context| {
        let mut command = program.command();
        command.args(part.arguments());
        prepare(context, &mut command);
        let done = context.tests(&part.name, command);
        match part.left_out(done.tally) {
            Some(trouble) => failure(&part.name, trouble, done.text),
            None => done,
        }
    });
    if alone { made.alone() } else { made }
}

fn find_peers(context: &Arc<Context>) -> Done {
    match context.peers() {
        Ok(_) => Done::default(),
        Err(message) => failure("peers", message.to_string(), String::new()),
    }
}

fn check_rules(context: &Arc<Context>) -> Done {
    match tidy::run(&context.root) {
        0 => Done::default(),
        count => failure("tidy", format!("{count} violations"), String::new()),
    }
}

fn clippy(context: &Arc<Context>) -> Done {
    let flags = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    let mut done = context.check("clippy", cargo(&context.root, &flags), None);
    if context.choice.has("build") {
        done.next.push(job(context, "build", "tests", build_tests));
    }
    done
}

/// Builds the tests that all passes share.
fn build_tests(context: &Arc<Context>) -> Done {
    let mut command = cargo(&context.root, &["test"]);
    chosen_packages(context, &mut command);
    if context.choice.quick {
        command.arg("--lib").args(plan::QUICK.iter().flat_map(|name| ["--test", name]));
    }
    context.build("build of tests", command, |programs| {
        let runs = match runs(programs) {
            Ok(runs) => runs,
            Err(message) => return failure("build of tests", message, String::new()),
        };
        let mut later = Vec::new();
        for mode in MODES.iter().filter(|mode| context.choice.has(mode.name)) {
            let of_mode = runs.iter().filter_map(|run| Some((&run.program, run.part(mode)?)));
            let mut of_mode: Vec<(&Program, &Part)> = of_mode.collect();
            of_mode.sort_by_key(|(_, part)| plan::place(&part.name));
            let jobs = of_mode.into_iter();
            later.extend(jobs.map(|(program, part)| in_mode(context, mode, program, part)));
            if mode.is_whole() && context.choice.is_whole() {
                later.push(job(context, mode.name, "doc tests", doc_tests));
            }
        }
        if context.choice.has("sim") {
            later.push(job(context, "sim", "1500 seeds", simulate));
        }
        if context.choice.has("examples") {
            later.extend(run_examples(context));
        }
        Done { later, ..Done::default() }
    })
}

fn chosen_packages(context: &Context, command: &mut Command) {
    let packages = &context.choice.packages;
    if packages.is_empty() {
        command.arg("--workspace");
    }
    command.args(packages.iter().flat_map(|name| ["-p", name]));
}

/// A program, or a part of one, in the passes.
struct Run {
    program: Program,
    on_threads: Part,
    /// Without the tests that would be the same there; None when none is left.
    on_fibers: Option<Part>,
}

impl Run {
    /// What `mode` runs.
    fn part(&self, mode: &Mode) -> Option<&Part> {
        let name = self.program.name.as_str();
        let left_out =
            plan::LEFT_OUT.iter().any(|(pass, out, _)| (*pass, *out) == (mode.name, name));
        match mode.is_whole() {
            true => Some(&self.on_threads),
            false => self.on_fibers.as_ref().filter(|_| !left_out),
        }
    }
}

/// What is run of the programs: those that are cut into parts, part by part.
fn runs(programs: Vec<Program>) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    let mut plain: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for program in programs {
        let tests = parts::list(&program)?;
        let parts = match plan::IN_PARTS.contains(&program.name.as_str()) {
            true => parts::of(&program, &tests),
            false => vec![Part::whole(&program)],
        };
        let folder = &program.folder;
        if !plain.contains_key(folder) {
            let names = plain::names(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            plain.insert(folder.clone(), names);
        }
        let waits = !plan::NOT_ON_FIBERS.contains(&program.package.as_str());
        for on_threads in parts {
            let on_fibers = waits.then(|| on_fibers(&on_threads, &tests, &plain[folder])).flatten();
            runs.push(Run { program: program.clone(), on_threads, on_fibers });
        }
    }
    Ok(runs)
}

/// What the passes on fibers run of `part`, which is of a program with these tests.
fn on_fibers(part: &Part, tests: &[String], plain: &BTreeSet<String>) -> Option<Part> {
    let all = if part.tests.is_empty() { tests } else { &part.tests };
    let last = |test: &str| test.rsplit("::").next().unwrap_or(test).to_string();
    let stay: Vec<String> =
        all.iter().filter(|test| !plain.contains(&last(test))).cloned().collect();
    (!stay.is_empty()).then(|| Part { name: part.name.clone(), tests: stay })
}

fn in_mode(context: &Arc<Context>, mode: &'static Mode, program: &Program, part: &Part) -> Job {
    tests_of(context, mode.name, program.clone(), part.clone(), |context, command| {
        command.envs(mode.environment.iter().copied());
        context.with_peers(command);
    })
}

fn doc_tests(context: &Arc<Context>) -> Done {
    let mut command = cargo(&context.root, &["test", "--doc", "--no-fail-fast"]);
    chosen_packages(context, &mut command);
    context.tests("doc tests", command)
}

/// The simulation program that the build of the tests has produced: this saves the separate build
/// of `cargo xtask sim`, which optimises more.
fn simulate(context: &Arc<Context>) -> Done {
    let mut command = Command::new(target(&context.root).join("debug/sim"));
    command.args(["--seeds", plan::SIMULATED_SEEDS]).current_dir(&context.root);
    context.test("sim", command)
}

/// The examples that the build of the tests has produced.
fn run_examples(context: &Arc<Context>) -> Vec<Job> {
    let counted = |ok: bool, name: &str| match ok {
        true => Done { tally: Tally { passed: 1, failed: 0 }, ..Done::default() },
        false => failure(name, "see above".to_string(), String::new()),
    };
    let mut jobs: Vec<Job> = examples::all()
        .map(|(name, run)| {
            job(context, "examples", name, move |context| counted(run(&context.root), name))
        })
        .collect();
    jobs.push(job(context, "examples", "the list", move |context| {
        counted(examples::is_complete(&context.root), "the list of examples")
    }));
    jobs
}

/// The tests of TLS. The whole workspace is named so that all other crates keep the features they
/// were built with.
fn build_tls(context: &Arc<Context>) -> Done {
    let args = ["test", "--workspace", "--features=pumice-cli/tls", "--test=all", "--test=serve"];
    context.build("tls", cargo(&context.root, &args), |programs| {
        let tls = |context: &Context, command: &mut Command| {
            command.arg("tls");
            context.with_peers(command);
        };
        let later = programs.into_iter().map(|program| tests(context, "tls", program, tls));
        Done { later: later.collect(), ..Done::default() }
    })
}

/// Models are built separately, since `--cfg loom` replaces the atomics of the whole crate.
fn build_loom(context: &Arc<Context>) -> Done {
    let mut command = cargo(&context.root, &["test", "-p", "pumice-port", "--lib"]);
    let folder = target(&context.root).join("loom");
    command.arg("--release").env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", folder);
    context.build("loom", command, |programs| {
        let later = programs.into_iter().map(|program| tests(context, "loom", program, |_, _| ()));
        Done { later: later.collect(), ..Done::default() }
    })
}

/// The crate `pumice` as it is built where there is no C compiler: one that fails is in its place.
fn build_without_c(context: &Arc<Context>) -> Done {
    let mut command = cargo(&context.root, &["test", "-p", "pumice", "--no-default-features"]);
    command.args(["--test=codecs", "--profile=plain"]);
    command.envs([("CC", "/bin/false"), ("CXX", "/bin/false")]);
    command.env("CARGO_TARGET_DIR", target(&context.root).join("no-c"));
    context.build("no-c", command, |programs| {
        let later = programs.into_iter().map(|program| tests(context, "no-c", program, |_, _| ()));
        Done { later: later.collect(), ..Done::default() }
    })
}

/// The wheel of crates/python, installed into an environment of its own, and its tests.
fn test_python(context: &Arc<Context>) -> Done {
    let program = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut command = Command::new(program);
    command.current_dir(&context.root).args(["python", "--quick"]);
    let mut done = context.check("python", command, None);
    done.tally.passed = 1 - done.tally.failed;
    done
}

/// The library of crates/jni under RocksDB's Java classes: its exports, and its own programs.
fn test_jni(context: &Arc<Context>) -> Done {
    let program = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut command = Command::new(program);
    command.current_dir(&context.root).args(["jni", "--quick"]);
    let mut done = context.check("jni", command, None);
    done.tally.passed = 1 - done.tally.failed;
    done
}

/// The search for planted bugs, which is also built first.
fn search_planted(context: &Arc<Context>) -> Done {
    let mut done = context.check("planted", sim::command(&context.root, &["--planted"]), None);
    done.tally.passed = 1 - done.tally.failed;
    if context.choice.has("mutation") {
        done.next.push(job(context, "mutation", "build", build_mutation));
    }
    done
}

/// The planted bugs inside tables, built on top of the search for the others: the same flags of the
/// compiler.
fn build_mutation(context: &Arc<Context>) -> Done {
    let args = ["test", "-p", "pumice-table", "--test=mutation", "--profile=sim"];
    let mut command = cargo(&context.root, &args);
    command.env("RUSTFLAGS", sim::PLANTED);
    command.arg("--target-dir").arg(target(&context.root).join("planted"));
    context.build("mutation", command, |programs| {
        let prepare = |context: &Context, command: &mut Command| context.with_peers(command);
        let later =
            programs.into_iter().map(|program| tests(context, "mutation", program, prepare));
        Done { later: later.collect(), ..Done::default() }
    })
}

fn build_release(context: &Arc<Context>) -> Done {
    let args = ["build", "--release", "--quiet", "-p", "pumice-cli"];
    let mut done = context.check("release", cargo(&context.root, &args), None);
    if done.tally.failed == 0 && context.choice.has("calls") {
        let calls = CALLS.iter().map(|(name, args, wanted)| {
            job(context, "calls", *name, |context| call(context, name, args, wanted))
        });
        done.later = calls.collect();
    }
    done
}

/// Runs the released binary on a database of its own; it must succeed and print `wanted`.
fn call(context: &Context, name: &str, args: &[&str], wanted: &[&str]) -> Done {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder =
        parent.join(format!("pumice-xtask-{}-{}", std::process::id(), name.replace(' ', "-")));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        return failure(name, format!("{}: {error}", folder.display()), String::new());
    }
    let mut command = Command::new(target(&context.root).join("release/pumice"));
    command.args(args).arg(format!("--db={}", folder.join("db").display()));
    let mut done = context.test(name, command);
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        return failure(name, format!("{}: {error}", folder.display()), done.text);
    }
    let missing: Vec<&str> =
        wanted.iter().copied().filter(|word| !done.text.contains(word)).collect();
    if !missing.is_empty() && done.tally.failed == 0 {
        done = failure(name, format!("does not print {missing:?}"), done.text);
    }
    done
}
