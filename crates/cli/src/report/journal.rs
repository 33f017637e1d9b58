//! The journal: every finished run is a line of `runs.jsonl` in the output folder.
//!
//! An interrupted report resumes from it. A line that was cut off is skipped; it is never taken for
//! a run, since an incomplete line has no closing brace.
//!
//! Thread safety: one writer, who holds the folder's lock.

use super::data::{Data, Run};
use pumice_port::os::{self, File, OpenFlags};
use std::path::{Path, PathBuf};

/// Runs of the past, and where those to come are written.
pub struct Journal {
    file: File,
    /// All runs that are in it, in their order.
    past: Vec<Run>,
}

/// Where the journal of an output folder is.
pub fn path(out: &Path) -> PathBuf {
    out.join("runs.jsonl")
}

impl Journal {
    /// Opens the journal of `out`, which is made if it is missing.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn open(out: &Path) -> Result<Journal, String> {
        let path = path(out);
        let with_path = |error: std::io::Error| format!("{}: {error}", path.display());
        let bytes = match os::read_file(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(with_path(error)),
        };
        let flags = OpenFlags { write: true, append: true, create: true, ..OpenFlags::READ };
        let mut file = File::open(&path, flags).map_err(with_path)?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            file.write_all(b"\n").map_err(with_path)?;
        }
        Ok(Journal { file, past: parse(&String::from_utf8_lossy(&bytes)) })
    }

    /// Runs that are in it.
    pub fn past(&self) -> &[Run] {
        &self.past
    }

    /// Adds a run.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn add(&mut self, run: &Run) -> Result<(), String> {
        let line = serde_json::to_string(run).map_err(|error| format!("runs.jsonl: {error}"))?;
        let bytes = (line + "\n").into_bytes();
        self.file.write_all(&bytes).map_err(|error| format!("runs.jsonl: {error}"))
    }
}

fn parse(text: &str) -> Vec<Run> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The past runs that match the plan exactly, and the number of others.
pub fn matching(past: &[Run], wanted: impl Fn(&Run) -> bool) -> (Data, usize) {
    let mut data = Data::default();
    let mut others = 0;
    for run in past {
        if wanted(run) {
            data.add(run.clone());
        } else {
            others += 1;
        }
    }
    (data, others)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn what_was_cut_off_is_passed_over_and_the_rest_goes_on() {
        let scratch = tempfile::tempdir().unwrap();
        let run = |round| Run { id: "a".into(), round, ..Run::default() };
        let mut journal = Journal::open(scratch.path()).unwrap();
        journal.add(&run(0)).unwrap();
        drop(journal);
        let whole = os::read_file(&path(scratch.path())).unwrap();
        let flags = OpenFlags { write: true, append: true, ..OpenFlags::READ };
        let mut file = File::open(&path(scratch.path()), flags).unwrap();
        file.write_all(&whole[..whole.len() / 2]).unwrap();
        drop(file);
        let mut journal = Journal::open(scratch.path()).unwrap();
        assert_eq!(journal.past(), [run(0)]);
        journal.add(&run(1)).unwrap();
        drop(journal);
        let journal = Journal::open(scratch.path()).unwrap();
        assert_eq!(journal.past(), [run(0), run(1)]);
        let (data, others) = matching(journal.past(), |run| run.round == 1);
        assert_eq!((data.all().count(), others), (1, 1));
    }
}
