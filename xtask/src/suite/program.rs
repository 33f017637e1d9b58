//! Runs one program: its output goes to a file, in the order of its writes, and it has a time
//! limit.
//!
//! A file and not a pipe: a process that outlives the program and keeps its output open cannot
//! block the run. When the limit has passed, the program and every process below it are killed. A
//! process that has left the tree (its parent has ended) is not found.
//!
//! Thread safety: each call has a child and a file of its own.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How a program ended, and everything it printed.
pub struct Ended {
    pub text: String,
    /// None when the limit had passed.
    pub status: Option<ExitStatus>,
}

impl Ended {
    /// How it ended, as text, unless it succeeded.
    pub fn trouble(&self, limit: Option<Duration>) -> Option<String> {
        match (self.status, limit) {
            (Some(status), _) if status.success() => None,
            (Some(status), _) => Some(status.to_string()),
            (None, Some(limit)) => Some(format!("killed after {} s", limit.as_secs())),
            (None, None) => Some("killed".to_string()),
        }
    }
}

/// How often a program is polled for its end.
const POLL: Duration = Duration::from_millis(10);

/// Runs `command` to its end, or kills it and its children after `limit`; `scratch` is a folder
/// for the output while it runs.
///
/// # Errors
/// When the program cannot be started or its output not be read.
pub fn run(command: &mut Command, limit: Option<Duration>, scratch: &Path) -> io::Result<Ended> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(scratch)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = scratch.join(format!("{}-{number}.out", std::process::id()));
    let file = File::create(&path)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let status = command.spawn().and_then(|mut child| wait(&mut child, limit));
    let bytes = fs::read(&path);
    fs::remove_file(&path)?;
    Ok(Ended { text: String::from_utf8_lossy(&bytes?).into_owned(), status: status? })
}

fn wait(child: &mut Child, limit: Option<Duration>) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if limit.is_some_and(|limit| started.elapsed() > limit) {
            kill(child)?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// Kills the child and all processes below it.
fn kill(child: &mut Child) -> io::Result<()> {
    let below = descendants(child.id())?;
    child.kill()?;
    child.wait()?;
    if !below.is_empty() {
        // Some may have ended with their parent; then `kill` fails harmlessly.
        let numbers = below.iter().map(u32::to_string);
        let mut command = Command::new("sh");
        command.args(["-c", "kill -9 \"$@\" 2>/dev/null", "sh"]).args(numbers).status()?;
    }
    Ok(())
}

/// The processes whose parent is `root`, their children, and so on.
fn descendants(root: u32) -> io::Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may end at any time.
        let Ok(text) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        parents.extend(parent(&text).map(|parent| (id, parent)));
    }
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let of = found[at];
        found.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(id, _)| id));
        at += 1;
    }
    found.remove(0);
    Ok(found)
}

/// The parent in a line of `/proc/N/stat`: `N (NAME) STATE PARENT ...`, where NAME may hold
/// anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Option<Duration>) -> Ended {
        let mut command = Command::new("sh");
        let scratch = std::env::temp_dir().join("pumice-xtask-tests");
        run(command.args(["-c", script]), limit, &scratch).expect("a shell runs")
    }

    #[test]
    fn output_keeps_its_order_and_the_status_is_kept() {
        let ended = shell("echo one; echo two >&2; echo three; exit 3", None);
        assert_eq!(ended.text, "one\ntwo\nthree\n");
        assert_eq!(ended.trouble(None).as_deref(), Some("exit status: 3"));
        assert_eq!(shell("true", None).trouble(None), None);
    }

    #[test]
    fn what_does_not_end_is_killed_with_its_children() {
        let limit = Some(Duration::from_millis(300));
        let ended = shell("sleep 1000 & echo $!; wait", limit);
        assert_eq!(ended.status, None);
        assert_eq!(ended.trouble(limit).as_deref(), Some("killed after 0 s"));
        let child: u32 = ended.text.trim().parse().expect("the shell tells its child");
        // A signal takes time, and zombies stay in the table until their parent reaps them.
        let is_gone = || {
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let state = stat.rsplit_once(')').map_or("", |(_, rest)| rest.trim());
            state.is_empty() || state.starts_with(['Z', 'X'])
        };
        let gone = (0..3000).any(|_| {
            is_gone() || {
                std::thread::sleep(POLL);
                false
            }
        });
        assert!(gone, "process {child} goes on");
    }

    #[test]
    fn a_process_that_stays_does_not_hold_up_the_run() {
        let ended = shell("sleep 5 & exit 0", None);
        assert_eq!(ended.trouble(None), None);
    }

    #[test]
    fn parents_are_read_past_odd_names() {
        assert_eq!(parent("12 (a) b) S 7 12 12"), Some(7));
        assert_eq!(parent("12"), None);
    }
}
