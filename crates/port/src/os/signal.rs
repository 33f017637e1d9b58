//! Signals that ask a program to end, as values that a thread waits for.
//!
//! The handler writes the signal's number into a pipe, which is all that a handler may do; the
//! waiter reads it there. When the pipe is full, further requests are dropped. Installed once per
//! process.
//!
//! Invariants cited by unsafe blocks:
//! 1. `PIPE` is the writing end of a pipe, which is never closed and does not block, or negative.
//! 2. The handler calls nothing but `write`, which is allowed in handlers, and restores the
//!    interrupted code's errno.
//!
//! Thread safety: [`Signals`] may be waited on by one thread at a time.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// A request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: the terminal's interrupt key.
    Interrupt,
    /// SIGTERM: from a service manager.
    Terminate,
}

/// Termination requests to this process from now on. Dropping it restores the default: they end the
/// process.
#[derive(Debug)]
pub struct Signals {
    pipe: OwnedFd,
}

static PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn note(number: libc::c_int) {
    let byte = number as u8;
    // SAFETY: invariants 1 and 2; one byte of the stack; errno is the calling thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(PIPE.load(Ordering::Relaxed), std::ptr::from_ref(&byte).cast(), 1);
        *errno = before;
    }
}

/// Sets the action for these signals: `action` is a handler, or one of the system's own actions.
fn handle(action: libc::sighandler_t) -> io::Result<()> {
    for number in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: a zeroed sigaction is one without flags and with an empty mask.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = action;
        new.sa_flags = libc::SA_RESTART;
        // SAFETY: invariant 2; the structure lives.
        if unsafe { libc::sigaction(number, &new, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Every kernel supports these signals and this action.
        drop(handle(libc::SIG_DFL));
    }
}

impl Signals {
    /// From now on SIGINT and SIGTERM do not end the process but are delivered here.
    ///
    /// # Errors
    /// No descriptors; AlreadyExists when this was done before.
    pub fn install() -> io::Result<Signals> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: no memory is involved; the writing end is new and open.
        unsafe { libc::fcntl(ends[1], libc::F_SETFL, libc::O_NONBLOCK) };
        // SAFETY: a new descriptor without another owner.
        let pipe = unsafe { OwnedFd::from_raw_fd(ends[0]) };
        let first = PIPE.compare_exchange(-1, ends[1], Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err() {
            // SAFETY: as above; the other end is not needed.
            drop(unsafe { OwnedFd::from_raw_fd(ends[1]) });
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let new = Signals { pipe };
        handle(note as *const () as usize)?;
        Ok(new)
    }

    /// The next request. Blocks the thread: not for fibers.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn wait(&self) -> io::Result<Signal> {
        loop {
            let mut byte = [0_u8];
            // SAFETY: the descriptor is ours, the buffer is one byte.
            let count =
                unsafe { libc::read(self.pipe.as_raw_fd(), byte.as_mut_ptr().cast(), byte.len()) };
            match count {
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                -1 => return Err(io::Error::last_os_error()),
                1 if i32::from(byte[0]) == libc::SIGINT => return Ok(Signal::Interrupt),
                1 => return Ok(Signal::Terminate),
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CHILD: &str = "PUMICE_TEST_SIGNALS";

    /// In a process of its own, which signals end.
    #[test]
    fn a_handler_disturbs_nobody_and_goes_with_the_signals() {
        if std::env::var_os(CHILD).is_none() {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            let name = "os::signal::tests::a_handler_disturbs_nobody_and_goes_with_the_signals";
            command.args([name, "--exact", "--test-threads=1"]).env(CHILD, "1");
            let status = command.status().unwrap();
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(status.signal(), Some(libc::SIGTERM), "{status}");
            return;
        }
        // SAFETY: none of these calls touches memory other than the calling thread's errno.
        unsafe {
            // Makes a blocking handler fail instead of hang; the test takes up to a second.
            libc::alarm(600);
            let signals = Signals::install().unwrap();
            // More than the pipe holds, while it is not read.
            for _ in 0..70_000 {
                *libc::__errno_location() = libc::EXDEV;
                assert_eq!(libc::raise(libc::SIGINT), 0);
                assert_eq!(*libc::__errno_location(), libc::EXDEV);
            }
            assert_eq!(signals.wait().unwrap(), Signal::Interrupt);
            drop(signals);
            libc::raise(libc::SIGTERM);
        }
    }

    #[test]
    fn signals_come_as_values() {
        let signals = Signals::install().unwrap();
        assert_eq!(Signals::install().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        for (number, signal) in
            [(libc::SIGTERM, Signal::Terminate), (libc::SIGINT, Signal::Interrupt)]
        {
            // SAFETY: a signal to ourselves, for which there is a handler.
            assert_eq!(unsafe { libc::raise(number) }, 0);
            assert_eq!(signals.wait().unwrap(), signal);
        }
    }
}
