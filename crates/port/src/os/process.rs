//! The process and its threads: identity, randomness, priorities, the machine.
//!
//! In a simulation a thread is a fiber, random bytes follow from the seed, the machine and the
//! process are always the same ones, and priorities are accepted and do nothing.
//!
//! Invariants cited by unsafe blocks:
//! 1. Pointers given to libc point to live locals or slices with their true lengths.
//! 2. The call takes integers only.

use crate::sim;
use std::io;

/// CPUs of the simulated machine.
pub(crate) const SIM_CPUS: u64 = 4;
const SIM_MEMORY_BYTES: u64 = 8 << 30;

/// The process number.
pub fn pid() -> u32 {
    if sim::is_running() { 1 } else { std::process::id() }
}

/// The kernel's number of the calling thread.
pub fn thread_id() -> u64 {
    if let Some(number) = sim::fiber_number() {
        return number;
    }
    // SAFETY: invariant 2.
    unsafe { libc::gettid() as u64 }
}

/// The CPU the calling thread runs on at this moment; only a hint for spreading load.
#[inline]
pub fn current_cpu() -> usize {
    if let Some(number) = sim::fiber_number() {
        return (number % SIM_CPUS) as usize;
    }
    // SAFETY: invariant 2.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or(0)
}

/// The machine's name.
pub fn hostname() -> String {
    if sim::is_running() {
        return "simulation".to_string();
    }
    let mut buf = [0u8; 256];
    // SAFETY: invariant 1.
    let code = unsafe { libc::gethostname(buf.as_mut_ptr().cast(), buf.len()) };
    let end = buf.iter().position(|b| *b == 0).unwrap_or(buf.len());
    if code == 0 { String::from_utf8_lossy(&buf[..end]).into_owned() } else { String::new() }
}

/// Fills `buf` with bytes nobody can foretell.
///
/// # Panics
/// When the kernel has no randomness, which Linux since 3.17 always has.
pub fn read_random_bytes(buf: &mut [u8]) {
    if sim::fill_random(buf) {
        return;
    }
    let mut done = 0;
    while done < buf.len() {
        let rest = &mut buf[done..];
        // SAFETY: invariant 1.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(n) {
            Ok(n) => done += n,
            Err(_) => {
                let e = io::Error::last_os_error();
                assert!(e.kind() == io::ErrorKind::Interrupted, "getrandom: {e}");
            }
        }
    }
}

/// Memory of the machine in bytes; 0 when unknown.
pub fn total_memory_bytes() -> u64 {
    if sim::is_running() {
        return SIM_MEMORY_BYTES;
    }
    // SAFETY: invariant 2, both calls.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(page).unwrap_or(0)
}

/// CPU priority of a thread, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum CpuPriority {
    /// SCHED_IDLE: runs when nothing else wants to.
    Idle = 0,
    /// Nice 19.
    Low = 1,
    /// Nice 0.
    #[default]
    Normal = 2,
    /// Nice -20; needs a privilege.
    High = 3,
}

/// I/O priority of a thread, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum IoPriority {
    /// ioprio class "idle".
    Idle = 0,
    /// What the thread inherited.
    #[default]
    Normal = 1,
}

/// Sets the CPU priority of the calling thread. Lowering always works; raising needs a privilege.
///
/// # Errors
/// What the kernel says, mostly EPERM or EACCES.
pub fn set_thread_cpu_priority(priority: CpuPriority) -> io::Result<()> {
    if sim::is_running() {
        return Ok(());
    }
    let nice = match priority {
        CpuPriority::Idle => return set_scheduler(libc::SCHED_IDLE),
        CpuPriority::Low => 19,
        CpuPriority::Normal => 0,
        CpuPriority::High => -20,
    };
    set_scheduler(libc::SCHED_OTHER)?;
    // SAFETY: invariant 2. Number 0 is the calling thread (Linux's nice belongs to threads).
    let code = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_scheduler(policy: libc::c_int) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: invariant 1; number 0 is the calling thread.
    let code = unsafe { libc::sched_setscheduler(0, policy, &parameter) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the I/O priority of the calling thread.
///
/// # Errors
/// What the kernel says.
pub fn set_thread_io_priority(priority: IoPriority) -> io::Result<()> {
    if sim::is_running() {
        return Ok(());
    }
    let class = match priority {
        IoPriority::Idle => IO_CLASS_IDLE,
        IoPriority::Normal => 0,
    };
    let value = libc::c_long::from(class << IO_CLASS_SHIFT);
    // SAFETY: invariant 2. Number 0 is the calling thread.
    let code = unsafe { libc::syscall(libc::SYS_ioprio_set, IO_WHO_PROCESS, 0, value) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel schedules a thread's computing and its input and output by. A new thread has its
/// starter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ThreadPriority {
    policy: i32,
    nice: i32,
    io: i32,
}

/// `ioprio_set` and `ioprio_get`: the number is a thread's.
const IO_WHO_PROCESS: libc::c_long = 1;
/// An I/O priority's class stands above this many bits of level.
const IO_CLASS_SHIFT: i32 = 13;
/// The class of what waits for everybody else.
const IO_CLASS_IDLE: i32 = 3;

impl ThreadPriority {
    /// The nice value: -20, most urgent, to 19.
    pub fn nice(&self) -> i32 {
        self.nice
    }
    /// Runs only when nothing else wants to: SCHED_IDLE.
    pub fn is_idle_policy(&self) -> bool {
        self.policy == libc::SCHED_IDLE
    }
    /// Reads and writes only when nothing else wants to.
    pub fn is_idle_io(&self) -> bool {
        self.io >> IO_CLASS_SHIFT == IO_CLASS_IDLE
    }
}

/// The calling thread's. What the kernel does not tell is taken for its default.
pub fn thread_priority() -> ThreadPriority {
    thread_priority_of(0).unwrap_or_default()
}

/// That of the thread with the kernel's number `thread`; 0 is the calling one. What the kernel does
/// not tell but the nice value is taken for its default.
///
/// # Errors
/// ESRCH when there is no such thread.
pub fn thread_priority_of(thread: u64) -> io::Result<ThreadPriority> {
    if sim::is_running() {
        return Ok(ThreadPriority::default());
    }
    let nice = nice_of(thread)?;
    // SAFETY: invariant 2.
    let (policy, io) = unsafe {
        let policy = libc::sched_getscheduler(thread as libc::pid_t);
        (policy, libc::syscall(libc::SYS_ioprio_get, IO_WHO_PROCESS, thread))
    };
    Ok(ThreadPriority { policy, nice, io: i32::try_from(io).unwrap_or(0).max(0) })
}

/// The nice value of the thread with the kernel's number `thread`; 0 is the calling one.
///
/// # Errors
/// ESRCH when there is no such thread.
pub fn nice_of(thread: u64) -> io::Result<i32> {
    if sim::is_running() {
        return Ok(0);
    }
    // SAFETY: invariant 1: errno's address is the calling thread's own.
    let (nice, errno) = unsafe {
        // -1 is a legal answer, so only errno tells a failure.
        *libc::__errno_location() = 0;
        let nice = libc::getpriority(libc::PRIO_PROCESS, thread as libc::id_t);
        (nice, *libc::__errno_location())
    };
    if nice == -1 && errno != 0 { Err(io::Error::from_raw_os_error(errno)) } else { Ok(nice) }
}
