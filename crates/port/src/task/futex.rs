//! A word that threads sleep on: the kernel's futex, or its model under loom.
//!
//! Thread safety: all methods from any thread. Invariant cited by unsafe blocks: 1. the kernel is
//! given the address of a live `AtomicU32` and only compares its value (`wake` uses the address as
//! a name and reads nothing, so it may even come after the word is gone).
//!
//! The model: comparing and falling asleep are one step, as in the kernel; a wait with a deadline
//! ends at once, so that loom tries every moment at which the time may run out.

use crate::atomic::AtomicU32;
use std::ops::Deref;

/// See the module head. Dereferences to the word.
pub(crate) struct Futex {
    word: AtomicU32,
    #[cfg(loom)]
    gate: loom::sync::Mutex<()>,
    #[cfg(loom)]
    sleepers: loom::sync::Condvar,
}

impl Deref for Futex {
    type Target = AtomicU32;
    #[inline]
    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

#[cfg(not(loom))]
impl Futex {
    crate::atomic::constant! {
        pub(crate) fn new(value: u32) -> Futex {
            Futex { word: AtomicU32::new(value) }
        }
    }

    /// Sleeps if the word is `expected`, until it is woken or `nanos` have passed; may wake
    /// spuriously.
    pub(crate) fn wait(&self, expected: u32, nanos: Option<u64>) {
        let timeout = nanos.map(|n| libc::timespec {
            tv_sec: (n / 1_000_000_000) as libc::time_t,
            tv_nsec: (n % 1_000_000_000) as libc::c_long,
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: invariant 1; the timeout is null or a live local.
        unsafe {
            let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, self.word.as_ptr(), op, expected, timeout);
        }
    }

    /// Wakes one sleeper.
    pub(crate) fn wake_one(&self) {
        // SAFETY: invariant 1.
        unsafe {
            let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, self.word.as_ptr(), op, 1);
        }
    }
}

#[cfg(loom)]
#[allow(clippy::unwrap_used)] // loom's locks are not poisoned.
impl Futex {
    pub(crate) fn new(value: u32) -> Futex {
        Futex {
            word: AtomicU32::new(value),
            gate: loom::sync::Mutex::new(()),
            sleepers: loom::sync::Condvar::new(),
        }
    }

    pub(crate) fn wait(&self, expected: u32, nanos: Option<u64>) {
        let guard = self.gate.lock().unwrap();
        if nanos.is_none() && self.word.load(crate::atomic::Ordering::Acquire) == expected {
            drop(self.sleepers.wait(guard).unwrap());
        }
    }

    pub(crate) fn wake_one(&self) {
        let guard = self.gate.lock().unwrap();
        self.sleepers.notify_one();
        drop(guard);
    }
}
