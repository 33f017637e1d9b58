//! `pumice stress`: kills a working process again and again and checks that nothing is lost.
//!
//! The parent owns the expected state and the clock: it starts this program again as a child, lets
//! it work on the database for a random time (sometimes so short that recovery itself is hit),
//! kills it with SIGKILL, and starts the next one, which first verifies. After the last kill a
//! child verifies only. What was acknowledged must be there: the log is in the page cache even
//! without sync, and survives a killed process.
//!
//! The last line is `kills=N acked=N lost=N wrong=N`; the exit status is 0 only without loss.

mod child;
mod expected;
mod store;
mod values;
mod verify;

use crate::arguments::Arguments;
use expected::{Counter, Expected};
use pumice_base::random::Rng;
use pumice_env::filename::archive_dir;
use pumice_env::{FileSystem, PosixFs};
use pumice_port::thread::sleep;
use pumice_port::time::{now_micros, wall_micros};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

/// The hidden subcommand of the child process.
pub const CHILD: &str = "stress-victim-process";

/// Rounds of a child that is to be killed: more than it can do.
const MANY_ROUNDS: u64 = 1_000_000;

const USAGE: &str = "\
USAGE: pumice stress [FLAGS]

Kills a process that works on a database, again and again, and checks after each kill that every
acknowledged write is there and that no value is wrong.

  --kills=N        how many times to kill (default 200)
  --db=PATH        where; must not exist (default: a new directory, removed after success)
  --threads=N      threads of the child, or fibers (default 4)
  --keys=N         keys of each thread in each column family (default 1000)
  --max_life_ms=N  the longest life of a child before it is killed (default 500)
  --seed=N         of all random choices (default: from the clock; printed)
  --fibers         the child's writers and readers are fibers over two loops

The expected state is kept in PATH.expected. Exit status 0: nothing lost, nothing wrong.
";

struct Settings {
    kills: u64,
    path: PathBuf,
    keep: bool,
    threads: usize,
    keys: u64,
    max_life_ms: u64,
    seed: u64,
    fibers: bool,
}

/// Runs `pumice stress` with `args`, the words after the subcommand.
pub fn run(args: &[String]) -> ExitCode {
    let arguments = Arguments::parse(args);
    if arguments.has("help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match settings(&arguments).and_then(|settings| torture(&settings)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("stress: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The argument that makes a child run on fibers, and the one for threads.
const ON_FIBERS: &str = "fibers";
const ON_THREADS: &str = "threads";

/// Runs the child process: `PATH EXPECTED SEED ROUNDS fibers|threads`.
pub fn run_child(args: &[String]) -> ExitCode {
    let [path, expected, seed, rounds, tasks] = args else {
        eprintln!("stress: the child process is started by its parent only");
        return ExitCode::FAILURE;
    };
    let (Ok(seed), Ok(rounds)) = (seed.parse(), rounds.parse()) else {
        return ExitCode::FAILURE;
    };
    let run = if tasks == ON_FIBERS { child::run_on_fibers } else { child::run };
    match run(Path::new(path), Path::new(expected), seed, rounds) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("stress child (seed {seed}): {error}");
            ExitCode::FAILURE
        }
    }
}

fn settings(arguments: &Arguments) -> Result<Settings, String> {
    let known = ["kills", "db", "threads", "keys", "max_life_ms", "seed", "fibers"];
    if let Some((_, unknown)) = arguments.first_unknown(&known) {
        return Err(format!("there is no flag --{unknown}\n\n{USAGE}"));
    }
    if let Some(word) = arguments.words.first() {
        return Err(format!("'{word}' is not a flag\n\n{USAGE}"));
    }
    let number = |name: &str, default: u64| -> Result<u64, String> {
        match arguments.number(name)?.unwrap_or(default) {
            0 if name != "kills" => Err(format!("{name} must be at least 1")),
            number => Ok(number),
        }
    };
    let seed = number("seed", wall_micros())?;
    let keep = arguments.text("db").is_some();
    let path = arguments.text("db").map(PathBuf::from).unwrap_or_else(|| {
        std::env::temp_dir().join(format!("pumice-stress-{}-{seed}", pumice_port::os::pid()))
    });
    Ok(Settings {
        kills: number("kills", 200)?,
        path,
        keep,
        threads: number("threads", 4)? as usize,
        keys: number("keys", 1000)?,
        max_life_ms: number("max_life_ms", 500)?,
        seed,
        fibers: arguments.flag("fibers"),
    })
}

fn torture(settings: &Settings) -> Result<bool, String> {
    let fs = PosixFs::shared();
    let expected_path = PathBuf::from(format!("{}.expected", settings.path.display()));
    if fs.exists(&settings.path).map_err(|error| error.to_string())? {
        return Err(format!("{} exists already; name a new directory", settings.path.display()));
    }
    let create = |error: std::io::Error| format!("{}: {error}", expected_path.display());
    let expected =
        Expected::create(&expected_path, settings.threads, settings.keys).map_err(create)?;
    println!("seed {} database {}", settings.seed, settings.path.display());
    let mut rng = Rng::new(settings.seed);
    let start = now_micros();
    let mut kills = 0;
    let mut ended = None;
    while kills < settings.kills && ended.is_none() {
        let mut child = spawn(settings, &expected_path, rng.next_u64(), MANY_ROUNDS)?;
        let life = life_micros(&mut rng, settings.max_life_ms);
        ended = kill_after(&mut child, life)?;
        if ended.is_none() {
            kills += 1;
        }
        if kills % 20 == 0 && ended.is_none() {
            let seconds = (now_micros() - start) / 1_000_000;
            eprintln!("{kills} kills, {} acked, {seconds} s", acked(&expected)?);
        }
    }
    if ended.is_none() {
        let mut last = spawn(settings, &expected_path, rng.next_u64(), 0)?;
        let status = last.wait().map_err(|error| format!("waiting for the child: {error}"))?;
        ended = (!status.success()).then_some(status);
    }
    if let Some(status) = ended {
        println!("a child ended by itself: {status}; seed {}", settings.seed);
    }
    let count = |counter| expected.counter(counter).map_err(create);
    let (lost, wrong) = (count(Counter::Lost)?, count(Counter::Wrong)?);
    let (opens, verified) = (count(Counter::Opens)?, count(Counter::Verified)?);
    println!("seed={} opens={opens} verified={verified}", settings.seed);
    let good = ended.is_none() && lost == 0 && wrong == 0;
    if good && !settings.keep {
        remove(&*fs, &settings.path, &expected_path)?;
    }
    println!("kills={kills} acked={} lost={lost} wrong={wrong}", acked(&expected)?);
    Ok(good)
}

fn acked(expected: &Expected) -> Result<u64, String> {
    let counts = (0..expected.threads).map(|thread| expected.acked(thread));
    counts.sum::<std::io::Result<u64>>().map_err(|error| format!("expected state: {error}"))
}

/// Mostly long enough to work, often so short that the kill hits the open or the verification.
fn life_micros(rng: &mut Rng, max_ms: u64) -> u64 {
    let longest = max_ms * 1000;
    if rng.one_in(3) { rng.uniform(longest.min(40_000)) } else { rng.uniform(longest) }
}

fn spawn(settings: &Settings, expected: &Path, seed: u64, rounds: u64) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| format!("finding myself: {error}"))?;
    Command::new(program)
        .arg(CHILD)
        .arg(&settings.path)
        .arg(expected)
        .args([seed.to_string(), rounds.to_string()])
        .arg(if settings.fibers { ON_FIBERS } else { ON_THREADS })
        .spawn()
        .map_err(|error| format!("starting a child: {error}"))
}

/// Kills `child` after `micros`. `Some`: it had ended by itself before.
fn kill_after(child: &mut Child, micros: u64) -> Result<Option<ExitStatus>, String> {
    sleep(Duration::from_micros(micros));
    let waiting = |error: std::io::Error| format!("waiting for a child: {error}");
    if let Some(status) = child.try_wait().map_err(waiting)? {
        return Ok(Some(status));
    }
    child.kill().map_err(|error| format!("killing a child: {error}"))?;
    let status = child.wait().map_err(waiting)?;
    // It may have ended between the check and the kill.
    Ok(status.code().is_some().then_some(status))
}

fn remove(fs: &dyn FileSystem, db: &Path, expected: &Path) -> Result<(), String> {
    let text = |error: pumice_base::Error| error.to_string();
    // A log whose last record the kill cut is kept in the archive.
    let archive = archive_dir(db);
    for dir in [archive.as_path(), db] {
        if !fs.exists(dir).map_err(text)? {
            continue;
        }
        for name in fs.list(dir).map_err(text)? {
            fs.remove(&dir.join(name)).map_err(text)?;
        }
        fs.remove_dir(dir).map_err(text)?;
    }
    fs.remove(expected).map_err(text)
}
