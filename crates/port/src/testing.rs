//! How tests choose their runtime (the environment variable `PUMICE_RUNTIME`); an executor for
//! their futures; refusal of stacks and address space.
//!
//! | value | the body runs | what it spawns |
//! |---|---|---|
//! | unset, `threads` | on the calling thread | threads |
//! | `fibers` | on a fiber of a runtime of two loops | fibers on the next loop |
//! | `fibers-threads` | as `fibers` | the same, input and output without io_uring |
//!
//! The first of the two loops is the calling thread itself, so what the body returns never leaves
//! its thread and need not be `Send`.
//!
//! Thread safety: everything may be called from any thread. Invariant cited by the unsafe block:
//! 1. pointers given to libc are to live locals.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::fiber::{IoMode, Runtime, stack};

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A minimal executor: polls on the calling operating-system thread until the future is ready.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A child that [`fork`] made.
pub struct Forked(libc::pid_t);

/// Runs `child` in a copy of this process that has only the calling thread; its result is the
/// child's exit status, 101 after a panic. The child is killed after 30 seconds.
///
/// # Panics
/// If the system refuses.
pub fn fork(child: impl FnOnce() -> u8) -> Forked {
    // SAFETY: no pointers; if the child waits for another thread's work the alarm ends it, and
    // `_exit` runs no destructors of state it shares with the parent.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: as above.
        unsafe { libc::alarm(30) };
        let run = std::panic::AssertUnwindSafe(child);
        let code = std::panic::catch_unwind(run).unwrap_or(101);
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(code)) };
    }
    Forked(pid)
}

impl Forked {
    /// Waits for its end; returns its exit status, None if it was killed.
    pub fn wait(self) -> Option<u8> {
        let mut status = 0;
        loop {
            // SAFETY: invariant 1.
            let pid = unsafe { libc::waitpid(self.0, &mut status, 0) };
            if pid == self.0 {
                break;
            }
            let error = std::io::Error::last_os_error();
            assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "{error}");
        }
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status) as u8)
    }
}

/// Closes the shared loops of plain threads that are not borrowed, so that the next call makes new
/// ones. Never suspends.
pub fn close_idle_loops() {
    crate::fiber::close_idle_loops();
}

/// On the calling thread the next `after` fibers that begin get their stacks and the `count` after
/// them do not, as when there is no memory. Returns how many were still to be refused before.
pub fn refuse_stacks(after: u32, count: u32) -> u32 {
    stack::refuse(after, count)
}

/// Limits the address space to `bytes` more than the process has, or restores its initial limit.
/// For tests in a process of their own.
///
/// # Panics
/// When the kernel does not report or refuses a limit.
pub fn limit_address_space(bytes: Option<u64>) {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let size = size.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let size = size.expect("the kernel tells the size") << 10;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: invariant 1; the limit concerns later calls only.
    let code = unsafe {
        libc::getrlimit(libc::RLIMIT_AS, &mut limit);
        limit.rlim_cur = bytes.map_or(limit.rlim_max, |bytes| size + bytes);
        libc::setrlimit(libc::RLIMIT_AS, &limit)
    };
    assert_eq!(code, 0, "the limit is taken");
}

/// Seconds after which a process of tests is killed if no test has begun since: many times what any
/// takes on a busy machine. `PUMICE_TEST_SECONDS` overrides it.
const HANG_SECONDS: u32 = 900;

/// Kills this process (SIGALRM) when the limit has passed, counted from the last such call: a
/// hanging test fails. It uses no thread, since tests count those.
fn bound_hangs() {
    let own = std::env::var("PUMICE_TEST_SECONDS").ok();
    let seconds = own.map_or(HANG_SECONDS, |n| n.parse().expect("a number of seconds"));
    // SAFETY: no memory is passed; the signal's default action ends the process.
    unsafe { libc::alarm(seconds) };
}

/// Runs `f` on the runtime that `PUMICE_RUNTIME` names. Suspends. A test that hangs ends its
/// process.
///
/// # Panics
/// With the panic of `f`; when the variable has another value; when the runtime cannot start.
pub fn run<T>(f: impl FnOnce() -> T + Send) -> T {
    crate::lane::watch_locks();
    bound_hangs();
    match std::env::var("PUMICE_RUNTIME").as_deref() {
        Err(_) | Ok("" | "threads") => f(),
        Ok("fibers") => on_fibers(IoMode::Auto, f),
        Ok("fibers-threads") => on_fibers(IoMode::Threads, f),
        Ok(other) => panic!("PUMICE_RUNTIME={other}: threads, fibers or fibers-threads"),
    }
}

fn on_fibers<T>(mode: IoMode, f: impl FnOnce() -> T + Send) -> T {
    let builder = Runtime::builder().loops(2).io(mode).spawn_as_fibers(true);
    builder.run_here("test", f).expect("the operating system starts the loops")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::process::ExitStatusExt;

    /// Plain #[test]: the other process is killed.
    #[test]
    fn a_test_that_hangs_ends_its_process() {
        const NAME: &str = "testing::tests::a_test_that_hangs_ends_its_process";
        if std::env::var_os("PUMICE_TEST_HANGS").is_some() {
            return super::run(|| crate::thread::sleep(std::time::Duration::from_secs(60)));
        }
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args([NAME, "--exact", "--nocapture"]).env("PUMICE_TEST_HANGS", "1");
        command.env("PUMICE_TEST_SECONDS", "1");
        let ended = command.output().unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGALRM), "{ended:?}");
    }
}
