//! Many fibers, deep stacks, many runtimes. What concerns the whole process runs in a child.

use super::*;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

/// Set in a child process.
const CHILD: &str = "PUMICE_TEST_CHILD";

pub(super) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the test `name` of this file alone in a child process.
fn in_child(name: &str) -> Output {
    in_child_of("limits", name)
}

/// Runs the test `name` of the neighbouring file `module` alone in a child process.
pub(super) fn in_child_of(module: &str, name: &str) -> Output {
    let name = format!("fiber::tests::{module}::{name}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("running 1 test\n"), "there is a test {name}: {text}");
    output
}

#[test]
fn thirty_thousand_fibers_are_alive_at_once() {
    const FIBERS: usize = 30_000;
    let rt = runtime(2);
    let (gate, waiting) = (Arc::new(Event::new()), Arc::new(AtomicUsize::new(0)));
    let handles: Vec<_> = (0..FIBERS)
        .map(|i| {
            let (gate, waiting) = (Arc::clone(&gate), Arc::clone(&waiting));
            rt.spawn("one of many", move || {
                waiting.fetch_add(1, Ordering::Relaxed);
                gate.wait();
                i
            })
        })
        .collect();
    while waiting.load(Ordering::Relaxed) < FIBERS {
        std::thread::yield_now();
    }
    assert_eq!(rt.stats().tasks, FIBERS as u64);
    gate.set();
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), i);
    }
}

/// Descriptors and threads of this process.
fn held() -> (usize, usize) {
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

fn settle(expected: usize) {
    // Loops that are not joined end in their own time.
    while held().1 > expected {
        std::thread::yield_now();
    }
}

#[test]
fn runtimes_come_and_go_without_a_trace() {
    if !is_child() {
        let output = in_child("runtimes_come_and_go_without_a_trace");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        return;
    }
    let round = |i: usize| {
        let mode = if i % 8 == 7 { IoMode::Threads } else { IoMode::Auto };
        let rt = Runtime::builder().loops(2).io(mode).build().unwrap();
        let handles: Vec<_> = (0..10).map(|j| rt.spawn("short", move || j)).collect();
        if i.is_multiple_of(3) {
            drop(rt);
            assert_eq!(handles.into_iter().map(|h| h.join().unwrap()).sum::<i32>(), 45);
        } else if i % 3 == 1 {
            // Dropped by one of its own fibers.
            let rt = Arc::new(rt);
            let own = Arc::clone(&rt);
            let gone = Arc::new(AtomicBool::new(false));
            let signal = Arc::clone(&gone);
            drop(rt.spawn("owner", move || {
                while !signal.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                drop(own);
            }));
            drop(rt);
            gone.store(true, Ordering::Release);
        }
    };
    // The first ones may start what stays: pools of the process.
    (0..16).for_each(round);
    settle(held().1.min(2));
    let before = held();
    (0..200).for_each(round);
    settle(before.1);
    assert_eq!(held(), before, "descriptors and threads");
}

#[test]
fn a_call_is_not_offloaded_when_there_is_no_thread_for_it() {
    if !is_child() {
        let output = in_child("a_call_is_not_offloaded_when_there_is_no_thread_for_it");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        return;
    }
    crate::task_local! {
        static KEPT: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    let rt = runtime(1);
    let call = || {
        KEPT.set(7);
        let both = (std::thread::current().id(), offload(|| std::thread::current().id()));
        assert_eq!(KEPT.get(), 7);
        both
    };
    // The fiber's stack is there already, a thread's is not.
    rt.run("first", || ());
    crate::testing::limit_address_space(Some(0));
    let (own, other) = rt.run("caller", call);
    assert_eq!(own, other);
    crate::testing::limit_address_space(None);
    let (own, other) = rt.run("caller", call);
    assert_ne!(own, other);
}

/// Uses stack: `depth` frames of about a kilobyte.
#[inline(never)]
pub(super) fn dig(depth: usize) -> u64 {
    let mut frame = [depth as u64; 128];
    std::hint::black_box(&mut frame);
    if depth == 0 { frame[0] } else { dig(depth - 1) + frame[127] }
}

#[test]
fn an_overflow_names_the_fiber() {
    if is_child() {
        let rt = Runtime::builder().loops(1).stack_bytes(64 << 10).build().unwrap();
        drop(rt.spawn("innocent", || thread::sleep(Duration::from_secs(60))));
        rt.spawn("greedy fiber", || dig(1_000_000)).join().unwrap();
        return;
    }
    let output = in_child("an_overflow_names_the_fiber");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("fiber greedy fiber overflowed its stack of 6"), "{text}");
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
}

#[test]
fn other_faults_are_not_called_overflows() {
    if is_child() {
        let rt = runtime(1);
        rt.spawn("wild", || {
            let nowhere = std::hint::black_box(std::ptr::without_provenance::<u64>(0x1000));
            // SAFETY: not safe; the test is that the process ends as it does without fibers.
            unsafe { nowhere.read_volatile() }
        })
        .join()
        .unwrap();
        return;
    }
    let output = in_child("other_faults_are_not_called_overflows");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains("overflowed"), "{text}");
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{text}");
}

#[test]
fn the_deepest_stack_is_reported_with_its_fiber() {
    let rt = Runtime::builder().loops(1).stack_bytes(512 << 10).build().unwrap();
    rt.spawn("shallow", || dig(2)).join().unwrap();
    rt.spawn("deep", || dig(200)).join().unwrap();
    rt.spawn("middle", || dig(80)).join().unwrap();
    // The joiner continues before the loop has freed the fiber.
    rt.run("after", || ());
    let stats = rt.stats();
    assert!((200 << 10..400 << 10).contains(&stats.stack_high_water_bytes), "{stats:?}");
    assert_eq!(stats.stack_high_water_name, "deep");
    let gate = Arc::new(Event::new());
    let own = Arc::clone(&gate);
    let deep = rt.spawn("deep and waits", move || {
        dig(100);
        own.wait();
    });
    let found = loop {
        let fibers = rt.fibers();
        if let Some(found) = fibers.into_iter().find(|f| f.name == "deep and waits") {
            break found;
        }
    };
    assert!((100 << 10..200 << 10).contains(&found.stack_bytes), "{found:?}");
    gate.set();
    deep.join().unwrap();
}
