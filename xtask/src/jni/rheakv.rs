//! `--suite rheakv`: three stores of RheaKV in three virtual machines on loopback, each with its
//! Raft log and its data in a library. Clients read and write while machines are killed and started
//! again, the leader is moved, and one store loses its disk and is replaced. What the clients saw
//! must have an order (`history`).
//!
//! What happens when follows from a seed and the number of operations that are done, not from the
//! clock; only the whole run goes on for ten minutes. The quick form ends with its last event.
//!
//! Thread safety: one caller. It ends the processes that it started.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::harness::{self, Way};
use super::kill::draw;
use super::{execute, history, suites};
use crate::suite::target;

/// The variable that names another seed.
const SEED: &str = "PUMICE_JNI_SEED";
/// Operations between two events: at least so many, and up to twice as many.
const OPERATIONS_BETWEEN: u64 = 150;

/// How much is done.
#[derive(Clone, Copy)]
pub struct Extent {
    kills: u64,
    transfers: u64,
    seconds: u64,
    mixes: &'static [Mix],
}

/// Whose libraries the three stores have, by a name.
type Mix = (&'static str, [Way; 3]);

static MIXES: [Mix; 3] = [
    ("ours", [Way::Property; 3]),
    ("rocksdb", [Way::Theirs; 3]),
    ("mixed", [Way::Property, Way::Theirs, Way::Property]),
];

/// All of it.
pub const FULL: Extent = Extent { kills: 30, transfers: 30, seconds: 600, mixes: &MIXES };
/// What is run with the project's own tests.
pub const QUICK: Extent = Extent {
    kills: 2,
    transfers: 1,
    seconds: 0,
    mixes: &[("mixed", [Way::Property, Way::Theirs, Way::Property])],
};

/// All of it with one mix of libraries.
pub fn part(name: &str) -> Option<Extent> {
    let at = MIXES.iter().position(|mix| mix.0 == name)?;
    Some(Extent { mixes: &MIXES[at..=at], ..FULL })
}

/// Runs it.
pub fn run(root: &Path, extent: Extent) -> Result<(), String> {
    let folder = target(root).join("jni/rheakv");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let path = suites::class_path(root, "rheakv", &folder)?;
    let mut path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let classes = folder.join("classes");
    fs::create_dir_all(&classes).map_err(|e| format!("{}: {e}", classes.display()))?;
    let mut compile = Command::new("javac");
    compile.args(["-nowarn", "-Xlint:none", "-d"]).arg(&classes).arg("-cp");
    compile.arg(std::env::join_paths(&path).map_err(|e| e.to_string())?);
    execute(compile.arg(root.join("crates/jni/tests/java/rheakv/Rhea.java")))?;
    path.insert(0, classes);
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for (name, ways) in extent.mixes {
        let work = harness::work(root, &format!("rheakv-{name}"))?;
        let mut cluster = Cluster::new(root, &path, *ways, work)?;
        let done = series(&mut cluster, extent, seed);
        done.map_err(|e| format!("{ways:?}, {SEED}={seed}: {e}"))?;
    }
    Ok(())
}

/// A process that prints lines; it is ended with this.
struct Talker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Talker {
    fn new(command: &mut Command, errors: &Path) -> Result<Talker, String> {
        let file = fs::OpenOptions::new().create(true).append(true).open(errors);
        let file = file.map_err(|e| format!("{}: {e}", errors.display()))?;
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).spawn();
        let mut child = child.map_err(|e| format!("java: {e}"))?;
        let stdout = child.stdout.take().ok_or("no output")?;
        Ok(Talker { child, lines: BufReader::new(stdout).lines() })
    }

    /// The rest of the next line that begins with the word; others are passed over.
    fn wait_for(&mut self, word: &str) -> Result<String, String> {
        for line in self.lines.by_ref() {
            let line = line.map_err(|e| format!("java: {e}"))?;
            if let Some(rest) = line.strip_prefix(word) {
                return Ok(rest.trim().to_string());
            }
        }
        Err(format!("a process ended before it said {word:?}"))
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Three stores and their clients.
struct Cluster<'a> {
    root: &'a Path,
    path: &'a [PathBuf],
    ways: [Way; 3],
    work: PathBuf,
    ports: [u16; 3],
    nodes: [Option<Talker>; 3],
}

impl<'a> Cluster<'a> {
    fn new(
        root: &'a Path,
        path: &'a [PathBuf],
        ways: [Way; 3],
        work: PathBuf,
    ) -> Result<Self, String> {
        // All three are held until the last is found, so that they differ.
        let listen = || TcpListener::bind("127.0.0.1:0").map_err(|e| format!("no port: {e}"));
        let held = [listen()?, listen()?, listen()?];
        let mut ports = [0; 3];
        for (port, listener) in ports.iter_mut().zip(&held) {
            *port = listener.local_addr().map_err(|e| e.to_string())?.port();
        }
        Ok(Cluster { root, path, ways, work, ports, nodes: [None, None, None] })
    }

    fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.ports[node])
    }

    fn servers(&self) -> String {
        [0, 1, 2].map(|node| self.address(node)).join(",")
    }

    fn folder(&self, node: usize) -> PathBuf {
        self.work.join(format!("node{node}"))
    }

    fn java(&self, way: Way) -> Result<Command, String> {
        let mut command = way.java(self.root, self.path)?;
        command.args(["-Xmx256m", "Rhea"]);
        Ok(command)
    }

    fn start(&mut self, node: usize) -> Result<(), String> {
        let mut command = self.java(self.ways[node])?;
        command.arg("node").arg(self.ports[node].to_string());
        command.arg(self.folder(node)).arg(self.servers());
        let errors = self.work.join(format!("node{node}.txt"));
        self.nodes[node] = Some(Talker::new(&mut command, &errors)?);
        Ok(())
    }

    fn wait_up(&mut self, node: usize) -> Result<(), String> {
        let talker = self.nodes[node].as_mut().ok_or("no such node")?;
        talker.wait_for("up").map(drop).map_err(|e| format!("node {node}: {e}"))
    }

    /// Both databases of each node were written by the library that it was to have.
    fn check_libraries(&self) -> Result<(), String> {
        for (node, way) in self.ways.iter().enumerate() {
            let logs = logs_below(&self.folder(node))?;
            if logs.len() < 2 {
                return Err(format!("node {node} has {} databases", logs.len()));
            }
            for log in logs {
                let text = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
                let text = String::from_utf8_lossy(&text);
                let first = text.lines().next().unwrap_or_default().to_string();
                if first.contains("Pumice version") == (*way == Way::Theirs) {
                    return Err(format!("{way:?}, but {}: {first}", log.display()));
                }
            }
        }
        Ok(())
    }
}

/// The files LOG below a folder.
fn logs_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut logs = Vec::new();
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            logs.append(&mut logs_below(&path)?);
        } else if path.file_name().is_some_and(|name| name == "LOG") {
            logs.push(path);
        }
    }
    Ok(logs)
}

/// The clients, which say how many operations are done.
struct Clients {
    talker: Talker,
    input: ChildStdin,
    done: u64,
}

impl Clients {
    fn new(cluster: &Cluster<'_>, history: &Path, seed: u64) -> Result<Clients, String> {
        let mut command = cluster.java(Way::Theirs)?;
        command.arg("client").arg(cluster.servers()).arg(history).arg(seed.to_string());
        let mut talker = Talker::new(&mut command, &cluster.work.join("clients.txt"))?;
        let input = talker.child.stdin.take().ok_or("no input")?;
        Ok(Clients { talker, input, done: 0 })
    }

    /// Waits until so many more operations are done.
    fn wait(&mut self, operations: u64) -> Result<(), String> {
        let wanted = self.done + operations;
        while self.done < wanted {
            let line = self.talker.wait_for("ops ").map_err(|e| format!("clients: {e}"))?;
            self.done = line.parse().map_err(|_| format!("clients: ops {line}"))?;
        }
        Ok(())
    }

    /// Gives a command, until it is done or was refused `tries` times.
    fn order(&mut self, command: &str, tries: usize) -> Result<bool, String> {
        for _ in 0..tries {
            writeln!(self.input, "{command}").map_err(|e| format!("clients: {e}"))?;
            let answer = self.talker.wait_for("answer ").map_err(|e| format!("clients: {e}"))?;
            if answer == "ok" {
                return Ok(true);
            }
            self.wait(OPERATIONS_BETWEEN)?;
        }
        Ok(false)
    }
}

/// What is done to the stores while clients use them.
fn series(cluster: &mut Cluster<'_>, extent: Extent, seed: u64) -> Result<(), String> {
    let began = Instant::now();
    for node in 0..3 {
        cluster.start(node)?;
    }
    for node in 0..3 {
        cluster.wait_up(node)?;
    }
    let history = cluster.work.join("history.txt");
    let mut clients = Clients::new(cluster, &history, seed)?;
    clients.wait(OPERATIONS_BETWEEN)?;
    let mut state = seed;
    let mut moved = 0;
    for event in 0..extent.kills.max(extent.transfers) {
        clients.wait(OPERATIONS_BETWEEN + draw(&mut state) % OPERATIONS_BETWEEN)?;
        if event < extent.kills {
            kill(cluster, &mut clients, &mut state)?;
        }
        if event < extent.transfers {
            moved += u64::from(clients.order("transfer", 20)?);
        }
        if event == extent.kills / 2 {
            replace(cluster, &mut clients, draw(&mut state) as usize % 3)?;
        }
        let whole = extent.kills.max(extent.transfers);
        let due = Duration::from_secs(extent.seconds * (event + 1) / whole);
        while began.elapsed() < due {
            clients.wait(OPERATIONS_BETWEEN)?;
        }
    }
    clients.wait(OPERATIONS_BETWEEN)?;
    writeln!(clients.input, "stop").map_err(|e| format!("clients: {e}"))?;
    let end = clients.talker.wait_for("end ")?;
    cluster.check_libraries()?;
    if moved == 0 && extent.transfers > 0 {
        return Err("the leader was never moved".to_string());
    }
    let text = fs::read_to_string(&history).map_err(|e| format!("{}: {e}", history.display()))?;
    let judged = history::judge(&text)?;
    println!(
        "jni: rheakv: {:?}: {} kills, {moved} leaders moved, a node replaced, {end} operations \
         done and unknown; {} keys with {} operations ({} open) have an order; {} s, seed {seed}",
        cluster.ways,
        extent.kills,
        judged.keys,
        judged.operations,
        judged.open,
        began.elapsed().as_secs()
    );
    Ok(())
}

/// Kills a store, and starts it again some operations later.
fn kill(cluster: &mut Cluster<'_>, clients: &mut Clients, state: &mut u64) -> Result<(), String> {
    let node = draw(state) as usize % 3;
    cluster.nodes[node] = None;
    clients.wait(draw(state) % OPERATIONS_BETWEEN)?;
    cluster.start(node)?;
    cluster.wait_up(node)
}

/// A store leaves the group, loses its disk, and enters it anew.
fn replace(cluster: &mut Cluster<'_>, clients: &mut Clients, node: usize) -> Result<(), String> {
    let address = cluster.address(node);
    if !clients.order(&format!("remove {address}"), 20)? {
        return Err(format!("node {node} cannot be removed"));
    }
    cluster.nodes[node] = None;
    let folder = cluster.folder(node);
    fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    clients.wait(OPERATIONS_BETWEEN)?;
    cluster.start(node)?;
    cluster.wait_up(node)?;
    match clients.order(&format!("add {address}"), 20)? {
        true => clients.wait(OPERATIONS_BETWEEN),
        false => Err(format!("node {node} cannot be added")),
    }
}
