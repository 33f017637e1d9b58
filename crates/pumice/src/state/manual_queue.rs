//! The queue of compactions that callers asked for.
//!
//! Thread safety: `ManualQueue` belongs to the state lock.

use std::collections::VecDeque;

use pumice_base::{Error, Result, SubCode};
use pumice_env::filename::PathId;

use crate::compaction::picker::{FilesRequest, ManualPick, ManualRange};
use crate::compaction::subcompaction::Asked;
use crate::state::family::CfState;

/// A piece of a manual compaction that was picked.
#[derive(Clone, Debug)]
pub(crate) struct ManualPiece {
    /// Number of its request.
    pub id: u64,
    /// Where the next piece begins; `None` after the last one.
    pub resume_at: Option<Vec<u8>>,
    /// What its caller wants.
    pub asked: Asked,
}

/// What a job wrote.
#[derive(Default)]
pub(crate) struct Written {
    pub job: u64,
    /// The files' numbers.
    pub files: Vec<u64>,
}

/// How a caller wants its compaction done.
pub(crate) struct CallerSettings {
    /// No automatic compaction runs meanwhile.
    pub exclusive: bool,
    /// 0 takes the database's setting.
    pub max_subcompactions: usize,
    /// What each job of it is told.
    pub asked: Asked,
}

/// One level of a manual compaction, done in pieces.
pub(crate) struct Request {
    pub id: u64,
    pub family: u32,
    pub input_level: usize,
    pub output_level: Option<usize>,
    pub begin: Option<Vec<u8>>,
    pub end: Option<Vec<u8>>,
    pub ignore_from_file: u64,
    pub forbid_move: bool,
    /// The directory that the caller chose for a range's outputs.
    pub path_id: PathId,
    /// Compact these files, and nothing by range.
    pub files: Option<FilesRequest>,
    pub caller: CallerSettings,
    pub running: bool,
    /// Level the pieces went to.
    pub wrote_to: Option<usize>,
    /// What the last piece wrote.
    pub outputs: Written,
    pub done: Option<Result<()>>,
}

impl Request {
    /// Its next step.
    pub fn pick(&self, cf: &CfState) -> Result<ManualPick> {
        if let Some(files) = &self.files {
            let pick = Box::new(cf.plan.pick_files(&cf.version, files)?);
            return Ok(ManualPick::Pick { pick, resume_at: None });
        }
        let range = ManualRange {
            input_level: self.input_level,
            output_level: self.output_level,
            begin: self.begin.as_deref(),
            end: self.end.as_deref(),
            ignore_from_file: self.ignore_from_file,
            forbid_move: self.forbid_move,
            path_id: self.path_id,
        };
        Ok(cf.plan.pick_range(&cf.version, &range))
    }
}

/// The error of a manual compaction that was paused or cancelled.
#[cold]
pub(crate) fn paused() -> Error {
    Error::incomplete("").with_subcode(SubCode::ManualCompactionPaused)
}

/// The error of a compaction while all are aborted.
#[cold]
pub(crate) fn aborted() -> Error {
    Error::incomplete("").with_subcode(SubCode::CompactionAborted)
}

/// Requests in the order they came.
#[derive(Default)]
pub(crate) struct ManualQueue {
    pub requests: VecDeque<Request>,
    pub next_id: u64,
    /// The last compaction that was picked is of a request: an automatic one comes next.
    pub went_last: bool,
}

impl ManualQueue {
    /// Requests that a job could take up.
    pub fn waiting(&self) -> usize {
        self.requests.iter().filter(|r| r.done.is_none() && !r.running).count()
    }
    /// A job works for one of them.
    pub fn any_running(&self) -> bool {
        self.requests.iter().any(|r| r.running)
    }
    /// Automatic compactions must not start.
    pub fn excludes_automatic(&self) -> bool {
        self.requests.iter().any(|r| r.caller.exclusive && r.done.is_none())
    }
    /// Picked pieces will not be done.
    pub fn give_up(&mut self, error: &Error) {
        for request in self.requests.iter_mut().filter(|request| request.running) {
            request.running = false;
            request.done = Some(Err(error.clone()));
        }
    }
    /// A piece ended.
    pub fn piece_done(&mut self, piece: &ManualPiece, result: Result<()>) {
        let Some(request) = self.requests.iter_mut().find(|r| r.id == piece.id) else { return };
        request.running = false;
        match (result, &piece.resume_at) {
            (Err(error), _) => request.done = Some(Err(error)),
            (Ok(()), None) => request.done = Some(Ok(())),
            (Ok(()), Some(next)) => request.begin = Some(next.clone()),
        }
    }
    /// A piece wrote these files, as job `job`.
    pub fn wrote(&mut self, piece: &ManualPiece, job: u64, files: &[u64]) {
        if let Some(request) = self.requests.iter_mut().find(|r| r.id == piece.id) {
            request.outputs = Written { job, files: files.to_vec() };
        }
    }
}
