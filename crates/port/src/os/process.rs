//! The process and its threads: identity, randomness, priorities, the machine.
//!
//! In a simulation a thread is a fiber, random bytes follow from the seed, the machine and the
//! process are always the same ones, and priorities are accepted and have no effect.
//!
//! Invariants cited by unsafe blocks:
//! 1. Pointers given to libc point to live locals or slices with their true lengths.
//! 2. The call takes integers only.
//! 3. What runs between `fork` and `exec` makes system calls and compares numbers, and allocates
//!    and locks nothing.

use crate::sim;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// CPUs of the simulated machine.
pub(crate) const SIM_CPUS: u64 = 4;
const SIM_MEMORY_BYTES: u64 = 8 << 30;

/// The process's limit of descriptors, raised as far as the system allows.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of ours, for the length of the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return 0;
    }
    if limit.rlim_cur < limit.rlim_max {
        let most = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        // SAFETY: as above.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &most) } == 0 {
            limit = most;
        }
    }
    limit.rlim_cur
}

/// Which memory may become huge pages when this process, or one that it starts, touches it from now
/// on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// All, as far as the system's setting goes (`/sys/kernel/mm/transparent_hugepage/enabled`).
    All,
    /// Memory that has asked for them ([`super::HugeRegion`]); none on kernels before 6.18 whose
    /// setting is `always`.
    Advised,
}

/// See [`HugePages`]. Has no effect where the system does not allow the change.
pub fn use_huge_pages(pages: HugePages) {
    const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;
    let forbid = |forbidden: bool, flags: libc::c_ulong| {
        let forbidden = libc::c_ulong::from(forbidden);
        // SAFETY: invariant 2.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, forbidden, flags, 0, 0) == 0 }
    };
    match pages {
        HugePages::All => _ = forbid(false, 0),
        HugePages::Advised if forbid(true, EXCEPT_ADVISED) => {}
        // An older kernel.
        HugePages::Advised => {
            let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
            forbid(setting.is_ok_and(|setting| setting.contains("[always]")), 0);
        }
    }
}

/// The process that `command` starts is killed (SIGKILL) when the thread that starts it ends, so
/// also when this process ends in any way. The setting survives `exec`, except in programs with
/// privileges of their own. Starting fails with "No such process" if this process ended meanwhile.
pub fn end_with_parent(command: &mut Command) {
    let parent = pid();
    let ask = move || {
        // SAFETY: invariant 2.
        let code =
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: invariant 2.
        match u32::try_from(unsafe { libc::getppid() }) {
            Ok(now) if now == parent => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: invariant 3.
    unsafe { command.pre_exec(ask) };
}

/// This process is a child of one that watched for forks.
static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

/// From now on [`is_forked`] is true in children that `fork` makes of this process, until they call
/// `exec`: they have no threads but the caller's, and locks are as the other threads left them.
pub fn watch_forks() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // SAFETY: the function stays, and does what a signal handler may do. The only failure is a
        // lack of memory; then children are not recognized.
        unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
    });
}

/// This process is a child, made by `fork`, of one that had called [`watch_forks`].
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// The process number.
pub fn pid() -> u32 {
    if sim::is_running() { 1 } else { std::process::id() }
}

/// The kernel's id of the calling thread.
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

/// Fills `buf` with unpredictable bytes.
///
/// # Panics
/// When the kernel has no source of randomness; Linux since 3.17 always has one.
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
///
/// Example: that of [`ThreadPools`](crate::pool::ThreadPools).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum CpuPriority {
    /// SCHED_IDLE: runs when nothing else is runnable.
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
    /// The last of ioprio class "best effort".
    Low = 1,
    /// What the thread inherited.
    #[default]
    Normal = 2,
}

/// Sets the CPU priority of the calling thread. Lowering always works; raising needs a privilege.
///
/// # Errors
/// What the kernel says, mostly EPERM or EACCES.
pub fn set_thread_cpu_priority(priority: CpuPriority) -> io::Result<()> {
    set_cpu_priority_of(0, priority)
}

/// As [`set_thread_cpu_priority`], for the thread of this process with the kernel's id `thread`; 0
/// is the calling one.
pub(crate) fn set_cpu_priority_of(thread: u64, priority: CpuPriority) -> io::Result<()> {
    match priority {
        CpuPriority::Idle => set_scheduler(thread, libc::SCHED_IDLE),
        CpuPriority::Low => set_nice(thread, 19),
        CpuPriority::Normal => set_nice(thread, 0),
        CpuPriority::High => set_nice(thread, -20),
    }
}

/// Linux's nice belongs to threads, not to processes.
fn set_nice(thread: u64, nice: i32) -> io::Result<()> {
    set_scheduler(thread, libc::SCHED_OTHER)?;
    if sim::is_running() {
        return Ok(());
    }
    // SAFETY: invariant 2.
    let code = unsafe { libc::setpriority(libc::PRIO_PROCESS, thread as libc::id_t, nice) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_scheduler(thread: u64, policy: libc::c_int) -> io::Result<()> {
    if sim::is_running() {
        return Ok(());
    }
    // SAFETY: an all-zero `sched_param` is valid; musl's has more fields.
    let parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: invariant 1.
    let code = unsafe { libc::sched_setscheduler(thread as libc::pid_t, policy, &parameter) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the I/O priority of the calling thread.
///
/// # Errors
/// What the kernel says.
pub fn set_thread_io_priority(priority: IoPriority) -> io::Result<()> {
    set_io_priority_of(0, priority)
}

/// As [`set_thread_io_priority`], for the thread of this process with the kernel's id `thread`; 0
/// is the calling one.
pub(crate) fn set_io_priority_of(thread: u64, priority: IoPriority) -> io::Result<()> {
    set_io(
        thread,
        match priority {
            IoPriority::Idle => IO_CLASS_IDLE << IO_CLASS_SHIFT,
            IoPriority::Low => (IO_CLASS_BEST_EFFORT << IO_CLASS_SHIFT) | IO_LEVEL_LAST,
            IoPriority::Normal => 0,
        },
    )
}

fn set_io(thread: u64, value: i32) -> io::Result<()> {
    if sim::is_running() {
        return Ok(());
    }
    let value = libc::c_long::from(value);
    // SAFETY: invariant 2.
    let code = unsafe { libc::syscall(libc::SYS_ioprio_set, IO_WHO_PROCESS, thread, value) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the thread `thread` of this process the CPU priority of `of`. A raise needs a privilege.
pub(crate) fn restore_cpu_priority(thread: u64, of: ThreadPriority) -> io::Result<()> {
    match of.is_idle_policy() {
        true => set_scheduler(thread, libc::SCHED_IDLE),
        false => set_nice(thread, of.nice),
    }
}

/// Gives the thread `thread` of this process the I/O priority `of`.
pub(crate) fn restore_io_priority(thread: u64, of: ThreadPriority) -> io::Result<()> {
    set_io(thread, of.io)
}

/// CPU time of the thread of this process with the kernel's id `thread`, in nanoseconds; 0 when it
/// has ended, and in a simulation.
pub(crate) fn thread_cpu_nanos_of(thread: u64) -> u64 {
    if sim::is_running() {
        return 0;
    }
    // Linux derives the clock id of a thread's CPU clock from the complement of its id, shifted by
    // three bits: per thread, by the scheduler's count.
    let Ok(thread) = i32::try_from(thread) else { return 0 };
    let clock: libc::clockid_t = (!thread << 3) | 6;
    let mut spent = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: invariant 1.
    let code = unsafe { libc::clock_gettime(clock, &mut spent) };
    if code == 0 { spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64 } else { 0 }
}

/// A thread's CPU and I/O scheduling parameters. A new thread inherits its starter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ThreadPriority {
    policy: i32,
    nice: i32,
    io: i32,
}

/// `ioprio_set` and `ioprio_get`: the id is a thread's.
const IO_WHO_PROCESS: libc::c_long = 1;
/// An I/O priority's class stands above this many bits of level.
const IO_CLASS_SHIFT: i32 = 13;
/// The default class, best effort, and its last level.
const IO_CLASS_BEST_EFFORT: i32 = 2;
const IO_LEVEL_LAST: i32 = 7;
/// The idle class.
const IO_CLASS_IDLE: i32 = 3;

impl ThreadPriority {
    /// The nice value: -20, most urgent, to 19.
    pub fn nice(&self) -> i32 {
        self.nice
    }
    /// Runs only when nothing else is runnable: SCHED_IDLE.
    pub fn is_idle_policy(&self) -> bool {
        self.policy == libc::SCHED_IDLE
    }
    /// Reads and writes only when nothing else does: the idle class.
    pub fn is_idle_io(&self) -> bool {
        self.io >> IO_CLASS_SHIFT == IO_CLASS_IDLE
    }
    /// The kernel's name of the scheduling policy, as far as Pumice sets it.
    pub fn policy_name(&self) -> &'static str {
        match self.policy {
            libc::SCHED_OTHER => "SCHED_OTHER",
            libc::SCHED_IDLE => "SCHED_IDLE",
            libc::SCHED_BATCH => "SCHED_BATCH",
            _ => "real time",
        }
    }
    /// The I/O priority in the words of `ionice`: the class, and the level where it has one.
    pub fn io_name(&self) -> String {
        let level = self.io & ((1 << IO_CLASS_SHIFT) - 1);
        match self.io >> IO_CLASS_SHIFT {
            0 => "none".to_string(),
            IO_CLASS_BEST_EFFORT => format!("best-effort/{level}"),
            IO_CLASS_IDLE => "idle".to_string(),
            _ => format!("realtime/{level}"),
        }
    }
}

/// The calling thread's priority. A value that the kernel does not report is taken as its default.
pub fn thread_priority() -> ThreadPriority {
    thread_priority_of(0).unwrap_or_default()
}

/// The priority of the thread with the kernel's id `thread`; 0 is the calling one. A value other
/// than nice that the kernel does not report is taken as its default.
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

/// The nice value of the thread with the kernel's id `thread`; 0 is the calling one.
///
/// # Errors
/// ESRCH when there is no such thread.
pub fn nice_of(thread: u64) -> io::Result<i32> {
    if sim::is_running() {
        return Ok(0);
    }
    // SAFETY: invariant 1: errno's address is the calling thread's own.
    let (nice, errno) = unsafe {
        // -1 is a legal answer, so only errno shows a failure.
        *libc::__errno_location() = 0;
        let nice = libc::getpriority(libc::PRIO_PROCESS, thread as libc::id_t);
        (nice, *libc::__errno_location())
    };
    if nice == -1 && errno != 0 { Err(io::Error::from_raw_os_error(errno)) } else { Ok(nice) }
}
