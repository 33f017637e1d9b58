//! Says which fiber overflowed its stack, before the process ends.
//!
//! An access to a stack's guard raises SIGSEGV. The handler runs on an alternate stack, compares
//! the address with the guard of the fiber that runs on this thread, writes one line to standard
//! error and aborts. Any other fault goes to the previous handler (std's, which knows the guards of
//! threads), or to the default.
//!
//! Invariants cited by unsafe blocks:
//! 1. The handler allocates nothing, takes no lock and calls only what is safe in a handler; the
//!    thread-local it reads has no destructor and is initialised at compile time.
//! 2. `BEFORE` is written before the handler is installed and never after.
//! 3. The alternate stack is unmapped after it has been switched off, on its own thread.
//!
//! Thread safety: `prepare` may be called from any thread, for that thread.

use super::event_loop;
use super::stack::GUARD_BYTES;
use std::cell::Cell;
use std::mem::zeroed;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Enough for this handler and for the one it passes the signal to.
const ALTERNATE_BYTES: usize = 64 << 10;

static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

static LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// Installs no handler from now on: an overflow then ends the process without a word. For libraries
/// in programs of other languages, whose signals are not ours (a JVM takes SIGSEGV for its own).
/// Does not suspend.
///
/// ```
/// pumice_port::fiber::leave_signals_alone();
/// ```
pub fn leave_signals_alone() {
    LEFT_ALONE.store(true, Ordering::Relaxed);
}

/// Has overflows of fibers on the calling thread reported. Cheap when repeated.
pub(super) fn prepare() {
    if LEFT_ALONE.load(Ordering::Relaxed) {
        return;
    }
    ALTERNATE.with(Alternate::prepare);
    BEFORE.get_or_init(|| {
        // SAFETY: both structs are live locals, zeroed ones are valid, and the handler keeps
        // invariant 1. Installing comes last, except for the store of the previous handler: see
        // `pass_on`.
        unsafe {
            let mut before: libc::sigaction = zeroed();
            libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut before);
            let mut ours: libc::sigaction = zeroed();
            ours.sa_sigaction = handler as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &ours, std::ptr::null_mut());
            before
        }
    });
}

/// The alternate stack of a thread that had none.
struct Alternate {
    memory: Cell<*mut libc::c_void>,
    /// The thread has one already, ours or its own.
    ready: Cell<bool>,
}

thread_local! {
    static ALTERNATE: Alternate =
        const { Alternate { memory: Cell::new(std::ptr::null_mut()), ready: Cell::new(false) } };
}

impl Alternate {
    fn prepare(&self) {
        if self.ready.get() {
            return;
        }
        // SAFETY: all pointers are null or to live locals; the mapping is new, and is this
        // thread's until `drop` (invariant 3).
        unsafe {
            let mut now: libc::stack_t = zeroed();
            libc::sigaltstack(std::ptr::null(), &mut now);
            if now.ss_flags & libc::SS_DISABLE == 0 {
                self.ready.set(true);
                return;
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let memory =
                libc::mmap(std::ptr::null_mut(), ALTERNATE_BYTES, protection, flags, -1, 0);
            if memory == libc::MAP_FAILED {
                return;
            }
            let ours = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: ALTERNATE_BYTES };
            libc::sigaltstack(&ours, std::ptr::null_mut());
            self.memory.set(memory);
            self.ready.set(true);
        }
    }
}

impl Drop for Alternate {
    fn drop(&mut self) {
        let memory = self.memory.get();
        if !memory.is_null() {
            // SAFETY: invariant 3.
            unsafe {
                let mut off: libc::stack_t = zeroed();
                off.ss_flags = libc::SS_DISABLE;
                libc::sigaltstack(&off, std::ptr::null_mut());
                libc::munmap(memory, ALTERNATE_BYTES);
            }
        }
    }
}

/// See the head of this file.
extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid record; invariant 1.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(slot) = event_loop::current().and_then(|own| own.running_slot()) {
        let low = slot.stack_low.load(Ordering::Relaxed);
        if low != 0 && (low..low + GUARD_BYTES).contains(&address) {
            report(&slot.name.bytes(), slot.stack_usable.load(Ordering::Relaxed));
        }
    }
    pass_on(signal, info, context);
}

/// Writes the line and ends the process.
fn report(name: &[u8], bytes: usize) -> ! {
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = bytes;
    while at == digits.len() || rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let parts: [&[u8]; 5] =
        [b"fiber ", &name[..end], b" overflowed its stack of ", &digits[at..], b" bytes\n"];
    for part in parts {
        // SAFETY: the slice is live; invariant 1. If the write fails, there is nothing to do.
        let _written = unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: invariant 1.
    unsafe { libc::abort() }
}

/// Passes the signal to the previous handler; if there was none, the access is repeated without a
/// handler and the process ends as it would have.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().filter(|b| ![libc::SIG_DFL, libc::SIG_IGN].contains(&b.sa_sigaction));
    // SAFETY: invariant 2: what was installed is a function of the kind its flags say.
    unsafe {
        match before {
            None => {
                libc::signal(signal, libc::SIG_DFL);
            }
            Some(before) if before.sa_flags & libc::SA_SIGINFO != 0 => {
                type Full = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                let f = std::mem::transmute::<usize, Full>(before.sa_sigaction);
                f(signal, info, context);
            }
            Some(before) => {
                type Short = extern "C" fn(libc::c_int);
                std::mem::transmute::<usize, Short>(before.sa_sigaction)(signal);
            }
        }
    }
}
