//! Child processes that a signal can end, and the folders that it removes.
//!
//! Children end with the report, too, when it is killed: the kernel kills them when the thread that
//! started them ends, which is the one that runs experiments to the last.
//!
//! Thread safety: [`Children`] is shared between the thread that runs experiments and the one that
//! waits for signals. Nothing is started once the end has begun.

use crate::folder;
use pumice_port::sync::Mutex;
use pumice_port::{os, thread};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Exit status of a report that a signal ended, as shells have it for SIGINT.
const INTERRUPTED: i32 = 130;

#[derive(Default)]
struct State {
    pids: Vec<u32>,
    is_ending: bool,
}

/// Children that run now.
#[derive(Clone, Default)]
pub struct Children(Arc<Mutex<State>>);

impl Children {
    /// Starts a program without input, its output to be collected.
    ///
    /// # Errors
    /// It cannot be started, or the report is ending.
    pub fn start(&self, command: &mut Command) -> Result<Child, String> {
        let mut state = self.0.lock();
        if state.is_ending {
            return Err("the report is ending".to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        os::end_with_parent(command);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        state.pids.push(child.id());
        Ok(child)
    }

    /// Waits for its end; what it printed, standard error after standard output.
    ///
    /// # Errors
    /// It failed: the last lines that it printed.
    pub fn wait(&self, child: Child) -> Result<String, String> {
        let pid = child.id();
        let output = child.wait_with_output().map_err(|error| error.to_string());
        self.0.lock().pids.retain(|other| *other != pid);
        let output = output?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        match output.status.success() {
            true => Ok(text),
            false => {
                let lines: Vec<&str> = text.trim().lines().collect();
                let last = lines[lines.len().saturating_sub(3)..].join(" / ");
                Err(format!("{}: {last}", output.status))
            }
        }
    }

    /// Ends a child that does not end by itself; returns its output.
    pub fn end(&self, mut child: Child) -> String {
        // It may have ended by itself.
        child.kill().ok();
        self.wait(child).unwrap_or_else(|text| text)
    }

    /// From now on SIGINT and SIGTERM end all children and this process, and remove `folders`.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn end_on_signals(&self, folders: Vec<PathBuf>) -> Result<(), String> {
        let signals = os::Signals::install().map_err(|error| format!("signals: {error}"))?;
        let state = self.0.clone();
        // It ends with the process.
        drop(thread::spawn_os("signals", move || {
            if signals.wait().is_err() {
                return;
            }
            let mut state = state.lock();
            state.is_ending = true;
            for pid in &state.pids {
                Command::new("kill").args(["-KILL", &pid.to_string()]).status().ok();
            }
            folders.iter().for_each(|path| folder::remove(path));
            eprintln!("\nstopped; finished runs are kept: the same command resumes from here");
            std::process::exit(INTERRUPTED);
        }));
        Ok(())
    }
}
