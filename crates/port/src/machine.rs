//! Requests to the operating system, and how a test makes it refuse them.
//!
//! Code of this crate that opens a file, starts a thread, maps a stack or uses io_uring calls
//! `ask` first. Sockets, the pipe of signals and the signal stack do not. A test can have any run
//! of those requests refused, with any error, and can make the kernel appear older than it is. All
//! of it affects the whole process: such a test runs alone.
//!
//! Thread safety: everything may be called from any thread. Without debug assertions nothing is
//! ever refused here, and `ask` costs nothing.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// What can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Resource {
    /// Files, eventfds, pipes and rings.
    Descriptor,
    /// Threads of the operating system.
    Thread,
    /// Mappings: stacks of fibers, the queues of rings.
    AddressSpace,
    /// io_uring_setup.
    RingSetup,
    /// io_uring_enter.
    RingEnter,
    /// io_uring_register.
    RingRegister,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 6] = [
        Resource::Descriptor,
        Resource::Thread,
        Resource::AddressSpace,
        Resource::RingSetup,
        Resource::RingEnter,
        Resource::RingRegister,
    ];

    /// The errno with which the kernel usually refuses it.
    pub fn usual_errno(self) -> i32 {
        match self {
            Resource::Descriptor => libc::EMFILE,
            Resource::Thread => libc::EAGAIN,
            Resource::AddressSpace => libc::ENOMEM,
            Resource::RingSetup | Resource::RingEnter | Resource::RingRegister => libc::EPERM,
        }
    }
}

/// Which requests for one resource are refused: those numbered from `from` up to `to`.
struct Plan {
    asked: AtomicU64,
    refused: AtomicU64,
    from: AtomicU64,
    to: AtomicU64,
    errno: AtomicI32,
}

impl Plan {
    const fn new() -> Self {
        Plan {
            asked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            from: AtomicU64::new(0),
            to: AtomicU64::new(0),
            errno: AtomicI32::new(0),
        }
    }
}

static PLANS: [Plan; Resource::ALL.len()] = [const { Plan::new() }; Resource::ALL.len()];

/// The version of the simulated kernel, 0 for the real one.
static KERNEL: AtomicU32 = AtomicU32::new(0);

/// From now on the requests for `resource` are counted from 0, and those from number `from` up to
/// `to` (not included) fail with `errno`. `refuse(.., 0, 0, 0)` refuses none.
pub fn refuse(resource: Resource, errno: i32, from: u64, to: u64) {
    let plan = &PLANS[resource as usize];
    // None is refused while the plan changes.
    plan.to.store(0, Ordering::SeqCst);
    plan.errno.store(errno, Ordering::SeqCst);
    plan.asked.store(0, Ordering::SeqCst);
    plan.refused.store(0, Ordering::SeqCst);
    plan.from.store(from, Ordering::SeqCst);
    plan.to.store(to, Ordering::SeqCst);
}

/// The requests for `resource` since [`refuse`], and how many of them were refused.
pub fn asked(resource: Resource) -> (u64, u64) {
    let plan = &PLANS[resource as usize];
    (plan.asked.load(Ordering::SeqCst), plan.refused.load(Ordering::SeqCst))
}

/// From now on io_uring is that of kernel `major.minor`, as far as this crate can tell; with
/// `None`, that of the real kernel.
pub fn play_kernel(version: Option<(u8, u8)>) {
    let number = version.map_or(0, |(major, minor)| u32::from(major) << 8 | u32::from(minor));
    KERNEL.store(number, Ordering::SeqCst);
}

/// The version of the simulated kernel, if there is one.
#[inline]
pub(crate) fn played_kernel() -> Option<(u8, u8)> {
    if !cfg!(debug_assertions) {
        return None;
    }
    match KERNEL.load(Ordering::Relaxed) {
        0 => None,
        number => Some(((number >> 8) as u8, number as u8)),
    }
}

/// Called before each request for `resource`.
///
/// # Errors
/// The error with which a test has it refused.
#[inline]
pub(crate) fn ask(resource: Resource) -> io::Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    let plan = &PLANS[resource as usize];
    let number = plan.asked.fetch_add(1, Ordering::Relaxed);
    let refused =
        number >= plan.from.load(Ordering::Relaxed) && number < plan.to.load(Ordering::Relaxed);
    if !refused {
        return Ok(());
    }
    plan.refused.fetch_add(1, Ordering::Relaxed);
    Err(io::Error::from_raw_os_error(plan.errno.load(Ordering::Relaxed)))
}
