//! The queue of jobs: builds and test programs, a few at a time.
//!
//! | job | starts when | may |
//! |---|---|---|
//! | ordinary | a lane is free | leave further jobs, before or after those that wait |
//! | alone | no other job waits or runs | the same |
//!
//! Each job belongs to a stage of the report. A line says that a job starts; its output is printed
//! as a whole when it ends.
//!
//! Thread safety: lanes are threads; the state is behind one mutex. Invariant: `running` counts the
//! jobs that a lane has taken and not reported; a job that panics is reported as failed.

use std::collections::VecDeque;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::tally::Tally;

/// One thing to run.
pub struct Job {
    pub stage: &'static str,
    pub name: String,
    /// Runs alone, after all others.
    pub alone: bool,
    pub body: Box<dyn FnOnce() -> Done + Send>,
}

impl Job {
    pub fn new(
        stage: &'static str,
        name: impl Into<String>,
        body: impl FnOnce() -> Done + Send + 'static,
    ) -> Job {
        Job { stage, name: name.into(), alone: false, body: Box::new(body) }
    }

    pub fn alone(self) -> Job {
        Job { alone: true, ..self }
    }
}

/// What a job leaves.
#[derive(Default)]
pub struct Done {
    pub tally: Tally,
    /// All that it printed.
    pub text: String,
    /// Text that is repeated at the end of the run.
    pub failures: Vec<String>,
    /// Jobs that this one adds: they start before those that wait,
    pub next: Vec<Job>,
    /// or after them.
    pub later: Vec<Job>,
}

/// A job that has ended.
pub struct Ended {
    pub stage: &'static str,
    pub name: String,
    pub seconds: f64,
    pub tally: Tally,
    pub failures: Vec<String>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    running: usize,
    alone: bool,
    ended: Vec<Ended>,
}

impl State {
    /// The next job that may start now.
    fn take(&mut self) -> Option<Job> {
        if self.alone {
            return None;
        }
        let at = match self.waiting.iter().position(|job| !job.alone) {
            Some(at) => at,
            None if self.running == 0 => 0,
            None => return None,
        };
        let job = self.waiting.remove(at)?;
        self.running += 1;
        self.alone = job.alone;
        Some(job)
    }

    fn finished(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }
}

/// Runs `jobs`, and those that they add, on `lanes` threads; returns all of them in the order in
/// which they ended.
pub fn run(jobs: Vec<Job>, lanes: usize) -> Vec<Ended> {
    let state = Mutex::new(State { waiting: jobs.into(), ..State::default() });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| lane(&state, &changed));
        }
    });
    state.into_inner().unwrap_or_else(PoisonError::into_inner).ended
}

fn lane(state: &Mutex<State>, changed: &Condvar) {
    let mut guard = lock(state);
    loop {
        if let Some(job) = guard.take() {
            drop(guard);
            let (ended, next, later) = run_one(job);
            guard = lock(state);
            guard.running -= 1;
            guard.alone = false;
            guard.ended.push(ended);
            next.into_iter().rev().for_each(|job| guard.waiting.push_front(job));
            guard.waiting.extend(later);
            changed.notify_all();
        } else if guard.finished() {
            return;
        } else {
            guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// False: nobody reads. A closed pipe must not end the run: the exit code still matters.
fn print(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

fn run_one(job: Job) -> (Ended, Vec<Job>, Vec<Job>) {
    let Job { stage, name, body, .. } = job;
    let started = Instant::now();
    print(&format!(".. {stage}: {name} starts\n"));
    let done = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Done {
        tally: Tally { passed: 0, failed: 1 },
        failures: vec![format!("{name}: xtask itself panicked")],
        ..Done::default()
    });
    let seconds = started.elapsed().as_secs_f64();
    let Tally { passed, failed } = done.tally;
    let line = if done.text.is_empty() || done.text.ends_with('\n') { "" } else { "\n" };
    let text = format!(
        "== {stage}: {name}\n{}{line}== {stage}: {name}: {passed} passed, {failed} failed, \
         {seconds:.1} s\n",
        done.text
    );
    if !print(&text) {
        eprintln!("{stage}: {name}: {passed} passed, {failed} failed");
    }
    let Done { tally, failures, next, later, .. } = done;
    (Ended { stage, name, seconds, tally, failures }, next, later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn passed() -> Done {
        Done { tally: Tally { passed: 1, failed: 0 }, ..Done::default() }
    }

    fn names(ended: &[Ended]) -> Vec<&str> {
        ended.iter().map(|job| job.name.as_str()).collect()
    }

    #[test]
    fn jobs_that_a_job_leaves_come_before_or_after_those_that_wait() {
        fn job(name: &str) -> Job {
            Job::new("t", name, passed)
        }
        let first = Job::new("t", "a", || {
            let next = vec![job("z").alone(), job("b"), job("c")];
            Done { next, later: vec![job("e")], ..passed() }
        });
        let ended = run(vec![first, job("d")], 1);
        assert_eq!(names(&ended), ["a", "b", "c", "d", "e", "z"]);
    }

    /// Each job records how many run at the same time.
    #[test]
    fn what_runs_alone_has_no_other_beside_it() {
        let running = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let job = |name: &str| {
            let (running, seen, own) = (running.clone(), seen.clone(), name.to_string());
            Job::new("t", name, move || {
                let beside = running.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(2));
                seen.lock().expect("no panic").push((own, beside));
                running.fetch_sub(1, Ordering::SeqCst);
                passed()
            })
        };
        let jobs = (0..8).map(|n| if n % 2 == 0 { job("both") } else { job("alone").alone() });
        assert_eq!(run(jobs.collect(), 3).len(), 8);
        let seen = seen.lock().expect("no panic");
        assert!(seen.iter().all(|(name, beside)| name == "both" || *beside == 0), "{seen:?}");
    }

    #[test]
    fn a_panic_is_a_failure_and_ends_nothing_else() {
        let jobs =
            vec![Job::new("t", "a", || panic!("planted")), Job::new("t", "b", Done::default)];
        let ended = run(jobs, 2);
        assert_eq!(ended.iter().map(|job| job.tally.failed).sum::<u64>(), 1);
        assert_eq!(ended.len(), 2);
    }
}
