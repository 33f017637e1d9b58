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
mod sets;
mod store;
mod values;
mod verify;

use crate::arguments::{Arguments, Flag, Known, boolean};
use crate::db_bench::option_flag;
use crate::nearest::hint;
use child::{EXIT_REFUSED, Orders};
use expected::{Counter, Expected};
use pumice_base::random::Rng;
use pumice_env::filename::archive_dir;
use pumice_env::{FileSystem, PosixFs};
use pumice_port::thread::sleep;
use pumice_port::time::{now_micros, wall_micros};
use sets::{Deck, Setting};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

/// The hidden subcommand of the child process.
pub const CHILD: &str = "stress-victim-process";

/// Rounds of a child that is to be killed: more than it can do.
const MANY_ROUNDS: u64 = 1_000_000;

pub const USAGE: &str = "\
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
  --dealt=N        options of each child besides those that are drawn at each open: a different
                   set for each child, dealt from all options that the engine obeys, so that after
                   enough children each of their values was killed (default 8)
  --OPTION=VALUE   any other option of the engine by its name in the OPTIONS file, such as
                   --max_total_wal_size=65536, for all children and families (--compaction_style
                   for the default family)

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
    dealt: usize,
    options: Vec<Setting>,
}

/// The flags, for completions; options of the engine are flags, too.
pub fn flags() -> Vec<Flag> {
    Known { switches: &[SWITCHES], values: &[VALUES] }.flags()
}

/// Runs `pumice stress` with `args`, the words after the subcommand.
pub fn run(args: &[OsString]) -> ExitCode {
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

/// Runs the child process: `PATH EXPECTED SEED ROUNDS fibers|threads NAME=VALUE...`.
pub fn run_child(args: &[OsString]) -> ExitCode {
    let [path, expected, seed, rounds, tasks, options @ ..] = args else {
        eprintln!("stress: the child process is started by its parent only");
        return ExitCode::FAILURE;
    };
    let number = |word: &OsString| word.to_str().and_then(|text| text.parse().ok());
    let (Some(seed), Some(rounds)) = (number(seed), number(rounds)) else {
        return ExitCode::FAILURE;
    };
    let options = options.iter().filter_map(|option| {
        let (name, value) = option.to_str()?.split_once('=')?;
        Some((name.to_string(), value.to_string()))
    });
    let options = options.collect();
    let orders = Orders { path: path.into(), expected: expected.into(), seed, rounds, options };
    let run = if tasks == ON_FIBERS { child::run_on_fibers } else { child::run };
    match run(&orders) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("stress child (seed {seed}): {error}");
            ExitCode::FAILURE
        }
    }
}

const SWITCHES: &[&str] = &["fibers"];
const VALUES: &[&str] = &["kills", "db", "threads", "keys", "max_life_ms", "seed", "dealt"];

/// The options of the engine among the flags.
///
/// # Errors
/// There is no such option, the test cannot run with it, or it has no such value.
fn engine_options(arguments: &Arguments) -> Result<Vec<Setting>, String> {
    let mut given = Vec::new();
    for (name, value) in arguments.options() {
        if SWITCHES.contains(&name) || VALUES.contains(&name) {
            continue;
        }
        let Some(flag) = option_flag(name.split('.').next().unwrap_or_default()) else {
            let near = hint(name, SWITCHES.iter().chain(VALUES).copied());
            return Err(format!("there is no flag --{name}{near}\n\n{USAGE}"));
        };
        if let Some((_, why)) = sets::REFUSED.iter().find(|(refused, _)| *refused == flag.option) {
            return Err(format!("--{name} is not for this test: {why}"));
        }
        let value = match value {
            None if flag.is_switch => "true",
            None => return Err(format!("--{name} has no value")),
            Some(_) => arguments.text(name)?.unwrap_or_default(),
        };
        let value = match boolean(value).filter(|_| flag.is_switch) {
            Some(value) => value.to_string(),
            None => value.to_string(),
        };
        let option = name.replacen(name.split('.').next().unwrap_or_default(), flag.option, 1);
        let set = store::set(&mut pumice::Options::default(), &option, &value);
        set.map_err(|error| error.to_string())?;
        given.push((option, value));
    }
    Ok(given)
}

fn settings(arguments: &Arguments) -> Result<Settings, String> {
    let options = engine_options(arguments)?;
    let own = arguments.only(&[SWITCHES, VALUES].concat());
    own.check(&Known { switches: &[SWITCHES], values: &[VALUES] })
        .map_err(|wrong| wrong.to_string())?;
    if let Some(word) = arguments.words.first() {
        let word = String::from_utf8_lossy(word);
        return Err(format!("'{word}' is not a flag\n\n{USAGE}"));
    }
    let number = |name: &str, default: u64| -> Result<u64, String> {
        match arguments.number(name)?.unwrap_or(default) {
            0 if name != "kills" && name != "dealt" => Err(format!("{name} must be at least 1")),
            number => Ok(number),
        }
    };
    let seed = number("seed", wall_micros())?;
    let keep = arguments.path("db").is_some();
    let path = arguments.path("db").map(Path::to_path_buf).unwrap_or_else(|| {
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
        dealt: number("dealt", 8)? as usize,
        options,
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
    let mut deck = Deck::new(&settings.options);
    let start = now_micros();
    let (mut kills, mut refused) = (0, 0);
    let mut ended = None;
    let mut set = Vec::new();
    while kills < settings.kills && ended.is_none() {
        set = deck.deal(settings.dealt, &mut rng);
        let mut child = spawn(settings, &expected_path, rng.next_u64(), MANY_ROUNDS, &set)?;
        let life = life_micros(&mut rng, settings.max_life_ms);
        match kill_after(&mut child, life)? {
            None => kills += 1,
            Some(status) if status.code() == Some(EXIT_REFUSED.into()) => {
                refused += 1;
                if refused > 10 + kills {
                    return Err(format!("the engine refuses the options {}", shown(&set)));
                }
            }
            status => ended = status,
        }
        if kills % 20 == 0 && ended.is_none() {
            let seconds = (now_micros() - start) / 1_000_000;
            eprintln!("{kills} kills, {} acked, {seconds} s", acked(&expected)?);
        }
    }
    if ended.is_none() {
        set = Vec::new();
        let mut last = spawn(settings, &expected_path, rng.next_u64(), 0, &set)?;
        let status = last.wait().map_err(|error| format!("waiting for the child: {error}"))?;
        ended = (!status.success()).then_some(status);
    }
    if let Some(status) = ended {
        println!("a child ended by itself: {status}; seed {}; {}", settings.seed, shown(&set));
    }
    let count = |counter| expected.counter(counter).map_err(create);
    let (lost, wrong) = (count(Counter::Lost)?, count(Counter::Wrong)?);
    let (opens, verified) = (count(Counter::Opens)?, count(Counter::Verified)?);
    println!("seed={} opens={opens} verified={verified}", settings.seed);
    let values = deck.len();
    let dealt = if deck.dealt < values { deck.dealt.to_string() } else { "all".to_string() };
    println!("option values dealt={dealt} of {values}, sets refused={refused}");
    let good = ended.is_none() && lost == 0 && wrong == 0;
    if good && !settings.keep {
        remove(&*fs, &settings.path, &expected_path)?;
    }
    println!("kills={kills} acked={} lost={lost} wrong={wrong}", acked(&expected)?);
    Ok(good)
}

/// A set as flags.
fn shown(set: &[Setting]) -> String {
    set.iter().map(|(name, value)| format!("--{name}={value}")).collect::<Vec<_>>().join(" ")
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

fn spawn(
    settings: &Settings,
    expected: &Path,
    seed: u64,
    rounds: u64,
    set: &[Setting],
) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| format!("finding myself: {error}"))?;
    Command::new(program)
        .arg(CHILD)
        .arg(&settings.path)
        .arg(expected)
        .args([seed.to_string(), rounds.to_string()])
        .arg(if settings.fibers { ON_FIBERS } else { ON_THREADS })
        .args(set.iter().chain(&settings.options).map(|(name, value)| format!("{name}={value}")))
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
