//! Lanes without the privilege to raise a priority: it is dropped first, whichever user runs this.
//!
//! One test only: threads of lanes belong to the process, and those started with the privilege may
//! not be changed by one that lacks it.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // Of the seam itself.

use pumice_port::lane::{Floor, Lane, LanePriority, at_normal_priority};
use pumice_port::os::{self, CpuPriority, IoPriority, ThreadPriority};
use pumice_port::sync::Semaphore;
use pumice_port::thread;
use std::sync::Arc;

const LOW: LanePriority = LanePriority { cpu: CpuPriority::Low, io: IoPriority::Low };
const IDLE: LanePriority = LanePriority { cpu: CpuPriority::Idle, io: IoPriority::Idle };
const NORMAL: LanePriority = LanePriority { cpu: CpuPriority::Normal, io: IoPriority::Normal };

fn me() -> (u64, ThreadPriority) {
    (os::thread_id(), os::thread_priority())
}

/// Takes CAP_SYS_NICE from the calling thread, and from those it starts: so raising is refused
/// whichever user runs the test.
fn drop_the_privilege() {
    #[repr(C)]
    struct Header(u32, i32);
    const VERSION_3: u32 = 0x2008_0522;
    const SYS_NICE: u32 = 1 << 23;
    let mut header = Header(VERSION_3, 0);
    // Effective, permitted and inheritable; twice, for 64 capabilities.
    let mut sets = [[0u32; 3]; 2];
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: pointers to locals with the layout that the kernel expects, for the length of the
    // call.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()), 0);
        sets[0].iter_mut().for_each(|set| *set &= !SYS_NICE);
        assert_eq!(libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()), 0);
        // The other way to get permission; lowering the limit is allowed.
        libc::setrlimit(libc::RLIMIT_NICE, &limit);
    }
}

#[test] // Priorities are those of operating-system threads.
fn running_threads_follow_at_once_and_up_only_with_the_privilege() {
    drop_the_privilege();
    let (_, normal) = me();
    let lane = Arc::new(Lane::movable(NORMAL));
    let (began, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (own, started, wait) = (Arc::clone(&lane), Arc::clone(&began), Arc::clone(&gate));
    let job = thread::spawn("job", move || {
        let starter = os::thread_id();
        own.run(&Floor::default(), || {
            started.release(1);
            wait.acquire(1);
            (starter, at_normal_priority(os::thread_id), me())
        })
    });
    began.acquire(1);
    let seen = || {
        let report = lane.report();
        assert_eq!(report.threads.len(), 1);
        report.threads[0].priority
    };
    assert_eq!(seen(), normal);
    assert_eq!(lane.set_priority(LOW), 0);
    assert_eq!((seen().nice(), seen().io_name().as_str()), (19, "best-effort/7"));
    assert_eq!(lane.set_priority(IDLE), 0);
    assert!(seen().is_idle_policy() && seen().is_idle_io());
    assert_eq!(lane.set_priority(NORMAL), 1, "the kernel refuses to raise it");
    assert!(seen().is_idle_policy());
    lane.set_urgent(true);
    assert!(seen().is_idle_policy());
    gate.release(1);
    let (starter, handed_to, (thread, last)) = job.join().unwrap();
    assert!(last.is_idle_policy());
    assert_eq!(handed_to, starter, "it is handed back as long as the thread is lowered");
    let (next, priority) = lane.run(&Floor::default(), me);
    assert_eq!(priority, normal, "the next job has a thread that was never lowered");
    assert_ne!(next, thread);
}
