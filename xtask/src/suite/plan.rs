//! What `cargo xtask test` runs: the tables that a change of the suites touches.
//!
//! Data, and the parsing of the command line; `stages` turns it into jobs.

use std::time::Duration;

/// One pass over the tests.
#[derive(Clone, Copy)]
pub struct Mode {
    pub name: &'static str,
    pub environment: &'static [(&'static str, &'static str)],
}

impl Mode {
    /// The first pass takes all packages and the doc tests.
    pub fn is_whole(&self) -> bool {
        self.environment.is_empty()
    }
}

/// Threads run the whole load, the later backends a share of the heavy suites.
pub const MODES: &[Mode] = &[
    Mode { name: "threads", environment: &[] },
    Mode {
        name: "fibers",
        environment: &[("PUMICE_RUNTIME", "fibers"), ("PUMICE_TEST_SHARE", "1/4")],
    },
    Mode {
        name: "no-uring",
        environment: &[("PUMICE_RUNTIME", "fibers-threads"), ("PUMICE_TEST_SHARE", "1/8")],
    },
];

/// Left out of the passes on fibers: packages whose code cannot wait, `port`, whose suites start
/// every kind of task themselves, and the C library, which threads of C call.
pub const NOT_ON_FIBERS: [&str; 11] = [
    "pumice-base",
    "pumice-binding",
    "pumice-capi",
    "pumice-compress",
    "pumice-filter",
    "pumice-jni",
    "pumice-manifest",
    "pumice-peer",
    "pumice-port",
    "pumice-testkit",
    "xtask",
];

/// Programs that a pass on fibers leaves out, and why. Plain tests are left out anyway (`plain`).
pub const LEFT_OUT: &[(&str, &str, &str)] = &[(
    "fibers",
    "pumice-cli::serve",
    "processes, which it starts as on threads: the last pass alone gives them another environment",
)];

/// Programs that must run alone, and why.
pub const ALONE: &[(&str, &str)] =
    &[("pumice-cli::open_loop", "offers load by the clock and counts what arrives late")];

/// The longest programs and parts: they start first and in this order, so that none of them runs
/// alone at the end.
pub const LONG: &[&str] = &[
    "pumice-tests::all crash",
    "pumice-tests::all corruption",
    "pumice-tests::all faults",
    "pumice-tests::all compat",
    "pumice-tests::all differential",
    "pumice-tests::all matrix",
    "pumice-tests::table_interop",
    "pumice::all files",
    "pumice::all whole",
    "pumice-cli::seed_commands",
];

/// The place of a program or part in the order of a pass.
pub fn place(name: &str) -> usize {
    LONG.iter().position(|long| *long == name).unwrap_or(LONG.len())
}

/// Programs that run module by module, each with its own line in the report and limit of time.
pub const IN_PARTS: &[&str] = &["pumice::all", "pumice-tests::all"];

/// A test program, or a part of one, that takes longer is killed and counts as failed.
pub const LIMIT: Duration = Duration::from_secs(15 * 60);

/// The share of the simulation; `cargo xtask sim --seeds 20000` is the whole.
pub const SIMULATED_SEEDS: &str = "1500";

/// Integration suites of `--quick`, besides the tests in the libraries: broad and short.
pub const QUICK: &[&str] = &["quick"];

/// Calls of the released binary: name, arguments, what the output must contain.
pub const CALLS: &[(&str, &[&str], &[&str])] = &[
    // Enough of them to deal each value of each option once.
    (
        "kills",
        &["stress", "--kills=120", "--seed=1"],
        &["lost=0", "wrong=0", "values dealt=all of "],
    ),
    (
        "kills of fibers",
        &["stress", "--kills=80", "--seed=2", "--fibers"],
        &["lost=0", "wrong=0", "values dealt=all of "],
    ),
    (
        "db_bench",
        &["db_bench", "--num=200000", "--benchmarks=fillrandom,overwrite,readrandom,readseq"],
        &["fillrandom", "overwrite", "readrandom", "readseq", "ops/sec"],
    ),
    (
        "fibers",
        &[
            "db_bench",
            "--num=20000",
            "--fibers=64",
            "--threads=2",
            "--writes=2000",
            "--reads=2000",
            "--batch_size=4",
            "--benchmarks=fillrandom,overwrite,multireadrandom,readrandom,readwhilewriting",
        ],
        &["fillrandom", "128000 operations", "multireadrandom", "readwhilewriting"],
    ),
    (
        "jobs",
        &[
            "db_bench",
            "--benchmarks=fillrandom,multireadrandomcoroutine,readrandomcoroutine",
            "--coro_jobs_per_thread=10",
            "--num=20000",
            "--value_size=1024",
            "--compression_type=none",
            "--threads=8",
            "--batch_size=16",
            "--reads=3200",
            "--writes=2500",
            "--cache_size=4194304",
            "--statistics",
        ],
        &["multireadrandomcoroutine", "readrandomcoroutine", "25600 operations", "STATISTICS"],
    ),
];

/// The stages in the order of the report, and whether one fails when it ran no test.
pub const STAGES: &[(&str, bool)] = &[
    ("peers", false),
    ("fmt", false),
    ("tidy", false),
    ("clippy", false),
    ("build", false),
    ("threads", true),
    ("fibers", true),
    ("no-uring", true),
    ("tls", true),
    ("loom", true),
    ("no-c", true),
    ("sim", true),
    ("examples", true),
    ("python", true),
    ("jni", true),
    ("planted", true),
    ("mutation", true),
    ("release", false),
    ("calls", true),
];

/// The parsed command line.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Choice {
    pub quick: bool,
    /// Names of stages; empty is all of them.
    pub stages: Vec<String>,
    /// Packages to test; empty is the workspace.
    pub packages: Vec<String>,
}

pub const USAGE: &str =
    "usage: cargo xtask test [--quick] [--only STAGE[,STAGE]...] [-p PACKAGE]...";

impl Choice {
    /// Reads the arguments after `test`.
    pub fn parse(words: &[&str]) -> Result<Choice, String> {
        let mut choice = Choice::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value; {USAGE}"));
            match *word {
                "--quick" => choice.quick = true,
                "--only" => choice.stages.extend(value()?.split(',').map(String::from)),
                "-p" => choice.packages.push(value()?.to_string()),
                _ => return Err(format!("{word}: {USAGE}")),
            }
        }
        match choice.stages.iter().find(|name| STAGES.iter().all(|(stage, _)| stage != name)) {
            Some(name) => Err(format!("there is no stage {name}: {}", stage_names())),
            None => Ok(choice),
        }
    }

    /// Whether all of each stage runs.
    pub fn is_whole(&self) -> bool {
        !self.quick && self.packages.is_empty()
    }

    /// Whether `stage` is to run.
    pub fn has(&self, stage: &str) -> bool {
        // What needs a peer passes over it where it is missing.
        const OF_QUICK: [&str; 5] = ["fmt", "tidy", "clippy", "build", "threads"];
        // Each stage with those that need it.
        const NEEDED: [(&str, &[&str]); 3] = [
            ("peers", &["threads", "fibers", "no-uring", "tls", "mutation"]),
            ("build", &["threads", "fibers", "no-uring", "sim", "examples"]),
            ("release", &["calls"]),
        ];
        if self.stages.is_empty() {
            return !self.quick || OF_QUICK.contains(&stage);
        }
        if self.quick && stage == "peers" {
            return self.names(stage);
        }
        let by = NEEDED.iter().filter(|(name, _)| *name == stage).flat_map(|(_, by)| *by);
        self.names(stage) || by.into_iter().any(|name| self.names(name))
    }

    fn names(&self, stage: &str) -> bool {
        self.stages.iter().any(|name| name == stage)
    }
}

fn stage_names() -> String {
    STAGES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(words: &[&str]) -> Vec<&'static str> {
        let choice = Choice::parse(words).expect("known words");
        STAGES.iter().map(|(name, _)| *name).filter(|stage| choice.has(stage)).collect()
    }

    #[test]
    fn a_choice_has_its_stages_and_what_they_need() {
        assert_eq!(has(&[]).len(), STAGES.len());
        assert_eq!(has(&["--quick"]), ["fmt", "tidy", "clippy", "build", "threads"]);
        assert_eq!(has(&["--quick", "--only", "threads"]), ["build", "threads"]);
        assert_eq!(has(&["--only", "fmt,loom"]), ["fmt", "loom"]);
        assert_eq!(has(&["--only", "fibers"]), ["peers", "build", "fibers"]);
        assert_eq!(has(&["--only", "calls"]), ["release", "calls"]);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(Choice::parse(&["--fast"]).is_err());
        assert!(Choice::parse(&["--only"]).is_err());
        assert!(Choice::parse(&["--only", "fibres"]).is_err());
        let packages = Choice::parse(&["-p", "xtask", "-p", "pumice"]).map(|c| c.packages);
        assert_eq!(packages, Ok(vec!["xtask".to_string(), "pumice".to_string()]));
    }
}
