//! The reactor under a small loop of its own: files, kicks, full queues, cancelling, refusal.
#![allow(clippy::unwrap_used)]

use super::in_flight::{InFlight, SUBMIT_AT};
use super::uring::KernelRing;
use super::*;
use crate::fiber::Runtime;
use crate::fiber::coroutine::{Fiber, FiberExit, Ran};
use crate::fiber::stack::Stack;
use crate::os::PooledBuffer;
use crate::task::{Home, Scheduler, Task};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

mod series;
mod sockets;

/// Fibers of one thread, no more than these tests need.
#[derive(Default)]
struct SmallLoop {
    runnable: Mutex<VecDeque<usize>>,
    timers: Mutex<Vec<(u64, usize)>>,
}

struct Resident {
    task: &'static Task,
    fiber: Fiber,
    exit: Rc<FiberExit>,
}

thread_local! {
    static REACTOR: RefCell<Option<Rc<Reactor>>> = const { RefCell::new(None) };
    static EXIT: RefCell<Option<Rc<FiberExit>>> = const { RefCell::new(None) };
}

fn address(task: &'static Task) -> usize {
    std::ptr::from_ref(task) as usize
}

impl Scheduler for SmallLoop {
    fn wake(&self, task: &'static Task) {
        self.runnable.lock().unwrap().push_back(address(task));
    }
    fn suspend(&self, task: &'static Task, deadline_nanos: Option<u64>) {
        if let Some(deadline) = deadline_nanos {
            self.timers.lock().unwrap().push((deadline, address(task)));
        }
        let exit = EXIT.with_borrow(|exit| Rc::clone(exit.as_ref().unwrap()));
        exit.suspend();
        self.timers.lock().unwrap().retain(|(_, waiter)| *waiter != address(task));
    }
    fn yield_now(&self) {}
    fn spawn(&self, _name: &str, _body: Box<dyn FnOnce() + Send>) -> crate::task::TaskRef {
        unreachable!("these fibers start no tasks")
    }
    fn spawns_tasks(&self) -> bool {
        false
    }
}

fn reactor() -> Rc<Reactor> {
    REACTOR.with_borrow(|reactor| Rc::clone(reactor.as_ref().unwrap()))
}

/// Runs `bodies` as fibers of this thread over a reactor until all have ended.
fn run_fibers(mode: IoMode, bodies: Vec<Box<dyn FnOnce() + Send>>) -> IoStats {
    let small: &'static SmallLoop = Box::leak(Box::default());
    REACTOR.set(Some(Rc::new(Reactor::new(mode).unwrap())));
    let mut residents = Vec::new();
    for body in bodies {
        let task: &'static Task = Box::leak(Box::new(Task::new(Home::Fiber(small))));
        let fiber = Fiber::new(Stack::new(256 << 10).unwrap(), body);
        let exit = Rc::new(fiber.exit());
        small.wake(task);
        residents.push(Resident { task, fiber, exit });
    }
    while !residents.is_empty() {
        let next = small.runnable.lock().unwrap().pop_front();
        if let Some(address_of) = next {
            let place = residents.iter().position(|r| address(r.task) == address_of).unwrap();
            let resident = &mut residents[place];
            EXIT.set(Some(Rc::clone(&resident.exit)));
            let before = task::set_current(Some(resident.task));
            let ran = resident.fiber.resume();
            task::set_current(before);
            if ran == Ran::Ended {
                residents.swap_remove(place);
            }
            continue;
        }
        let first = small.timers.lock().unwrap().iter().map(|(deadline, _)| *deadline).min();
        reactor().poll(first.map_or(Wait::Forever, Wait::Until));
        let now = crate::time::monotonic_nanos();
        let due = |r: &&Resident| {
            let timers = small.timers.lock().unwrap();
            timers.iter().any(|(deadline, t)| *t == address(r.task) && *deadline <= now)
        };
        for resident in residents.iter().filter(due) {
            if resident.task.expire() {
                small.wake(resident.task);
            }
        }
    }
    EXIT.set(None);
    let reactor = REACTOR.take().unwrap();
    assert_eq!((reactor.inflight(), reactor.pending()), (0, 0));
    reactor.stats()
}

fn body(f: impl FnOnce() + Send + 'static) -> Box<dyn FnOnce() + Send> {
    Box::new(f)
}

const MODES: [IoMode; 2] = [IoMode::Uring, IoMode::Threads];

/// A file without a name, with `bytes` bytes of which each tells its position.
fn numbered_file(bytes: usize) -> File {
    let name = format!("pumice-io-{}-{:p}", std::process::id(), &bytes);
    let path = std::env::temp_dir().join(name);
    let data: Vec<u8> = (0..bytes).map(pattern).collect();
    std::fs::write(&path, data).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

fn pattern(position: usize) -> u8 {
    (position.wrapping_mul(0x9E37_79B9) >> 13) as u8
}

#[test]
fn many_fibers_read_one_file() {
    for mode in MODES {
        let file = numbered_file(1 << 20);
        let fd = file.as_raw_fd();
        let bodies = (0..64usize).map(|fiber| {
            body(move || {
                for round in 0..20 {
                    let offset = (fiber * 7919 + round * 104_729) % (1 << 20);
                    let mut buf = [0u8; 300];
                    let n = reactor().run(Op::read(fd, &mut buf, offset as u64)).unwrap() as usize;
                    assert_eq!(n, 300.min((1 << 20) - offset));
                    assert!((0..n).all(|i| buf[i] == pattern(offset + i)));
                }
            })
        });
        let stats = run_fibers(mode, bodies.collect());
        assert_eq!((stats.operations, stats.completions, stats.stale), (1280, 1280, 0));
        assert!(
            mode == IoMode::Threads || stats.enters < 1280 / SUBMIT_AT as u64 + 100,
            "not batched: {stats:?}"
        );
    }
}

#[test]
fn a_batch_larger_than_every_queue_is_done_with_one_wait() {
    for mode in MODES {
        let file = numbered_file(1 << 16);
        let fd = file.as_raw_fd();
        let all = body(move || {
            let mut bufs = vec![[0u8; 16]; 3000];
            let mut ops: Vec<_> = bufs
                .iter_mut()
                .enumerate()
                .map(|(i, buf)| Op::read(fd, buf, (i * 16) as u64))
                .collect();
            reactor().run_all(&mut ops);
            let lengths: Vec<u32> = ops.iter().map(|op| op.outcome().unwrap()).collect();
            drop(ops);
            assert!(lengths[..3000].iter().all(|n| *n == 16));
            let whole =
                |(i, buf): (usize, &[u8; 16])| (0..16).all(|j| buf[j] == pattern(i * 16 + j));
            assert!(bufs.iter().enumerate().all(whole));
        });
        let stats = run_fibers(mode, vec![all]);
        assert_eq!((stats.completions, stats.stale), (3000, 0));
        assert!(stats.queue_full > 0);
    }
}

#[test]
fn writes_syncs_and_errors_reach_their_fiber() {
    for mode in MODES {
        let file = numbered_file(0);
        let fd = file.as_raw_fd();
        let writer = body(move || {
            assert_eq!(reactor().run(Op::write(fd, b"hello", 3)).unwrap(), 5);
            reactor().run(Op::sync(fd, false)).unwrap();
            reactor().run(Op::sync(fd, true)).unwrap();
            let e = reactor().run(Op::sync(-1, true)).unwrap_err();
            assert_eq!(e.raw_os_error(), Some(libc::EBADF));
            let mut buf = [1u8; 10];
            assert_eq!(reactor().run(Op::read(fd, &mut buf, 0)).unwrap(), 8);
            assert_eq!(&buf, b"\0\0\0hello\x01\x01");
            assert_eq!(reactor().run(Op::read(fd, &mut buf, 8)).unwrap(), 0);
        });
        run_fibers(mode, vec![writer]);
    }
}

#[test]
fn an_operation_ends_by_its_own_completion_when_time_or_token_call_it_off() {
    for mode in MODES {
        let (near, far) = UnixStream::pair().unwrap();
        let fd = near.as_raw_fd();
        let token = std::sync::Arc::new(CancelToken::new());
        let same = std::sync::Arc::clone(&token);
        let reader = body(move || {
            let mut buf = [7u8; 4];
            let soon = Limits { deadline: Some(crate::time::monotonic_nanos() + 1), token: None };
            let e = reactor().run_within(Op::receive(fd, &mut buf), soon).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::TimedOut);
            let called_off = Limits { deadline: None, token: Some(&same) };
            let e = reactor().run_within(Op::receive(fd, &mut buf), called_off).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::Interrupted);
            // Cancelled before it began: data that is already there need not be taken.
            let e = reactor().run_within(Op::receive(fd, &mut buf), called_off).unwrap_err();
            assert_eq!((e.kind(), buf), (io::ErrorKind::Interrupted, [7; 4]));
            assert_eq!(reactor().run(Op::send(fd, b"ping")).unwrap(), 4);
            assert_eq!(reactor().run(Op::receive(fd, &mut buf)).unwrap(), 4);
            assert_eq!(&buf, b"pong");
        });
        let fd = far.as_raw_fd();
        let other = body(move || {
            token.cancel();
            let mut buf = [0u8; 4];
            assert_eq!(reactor().run(Op::receive(fd, &mut buf)).unwrap(), 4);
            assert_eq!(&buf, b"ping");
            assert_eq!(reactor().run(Op::send(fd, b"pong")).unwrap(), 4);
        });
        run_fibers(mode, vec![reader, other]);
    }
}

#[test]
fn an_operation_does_not_starve_beside_fibers_that_only_yield() {
    /// Far longer than an operation can need.
    const YIELDS_MAX: u64 = 1_000_000_000;
    for mode in MODES {
        let runtime = Runtime::builder().loops(1).io(mode).build().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let yielders: Vec<_> = (0..3)
            .map(|_| {
                let done = Arc::clone(&done);
                runtime.spawn("yields", move || {
                    (0..YIELDS_MAX).any(|_| {
                        crate::thread::yield_now();
                        done.load(Ordering::Relaxed)
                    })
                })
            })
            .collect();
        let reader = runtime.spawn("receives", move || {
            for round in 0..50u8 {
                assert_eq!(run(Op::send(far.as_raw_fd(), &[round])).unwrap().unwrap(), 1);
                let mut buf = [0];
                let n = run(Op::receive(near.as_raw_fd(), &mut buf)).unwrap().unwrap();
                assert_eq!((n, buf), (1, [round]));
            }
            done.store(true, Ordering::Relaxed);
        });
        for yielder in yielders {
            assert!(yielder.join().unwrap(), "{mode:?}: the operations starve");
        }
        reader.join().unwrap();
    }
}

#[test]
fn reads_into_registered_buffers_bring_every_byte() {
    let runtime = Runtime::builder().loops(2).io(IoMode::Uring).build().unwrap();
    let file = numbered_file(1 << 20);
    let fd = file.as_raw_fd();
    let readers: Vec<_> = (0..100usize)
        .map(|fiber| {
            runtime.spawn("reads", move || {
                let mut pinned = 0;
                for round in 0..50usize {
                    // More fibers than buffers: those without read into buffers of their own.
                    let mut bufs = [(); 3].map(|()| PooledBuffer::take(1000));
                    let offset = (fiber * 7919 + round * 104_729) % (1 << 19);
                    let mut ops = bufs.each_mut().map(|buf| {
                        pinned += u32::from(buf.is_pinned());
                        Op::read(fd, &mut buf[100..1100], offset as u64)
                    });
                    assert!(run_all(&mut ops));
                    assert!(ops.iter().all(|op| op.outcome().unwrap() == 1000));
                    for buf in &bufs {
                        assert!((0..1000).all(|i| buf[100 + i] == pattern(offset + i)));
                    }
                }
                pinned
            })
        })
        .collect();
    let pinned: u32 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
    // A limit of locked memory may refuse them, but then for every loop.
    assert!(pinned == 0 || pinned > 5000, "{pinned} of 15000");
    // A buffer outlives its loop, and is an ordinary one elsewhere.
    let mut kept = runtime.run("takes", || PooledBuffer::take(1));
    drop(runtime);
    let other = Runtime::builder().loops(1).io(IoMode::Uring).build().unwrap();
    let n = other.run("reads", || run(Op::read(fd, &mut kept[..50], 7)).unwrap().unwrap());
    assert_eq!(n, 50);
    assert!((0..50).all(|i| kept[i] == pattern(7 + i)));
}

#[test]
fn a_kick_ends_the_wait_however_often() {
    for mode in MODES {
        let reactor = Reactor::new(mode).unwrap();
        for round in 0..100 {
            let kicker = reactor.kicker();
            let other = std::thread::spawn(move || kicker.kick());
            reactor.poll(Wait::Forever);
            other.join().unwrap();
            if round % 10 == 0 {
                // A limit without a kick.
                reactor.poll(Wait::Until(crate::time::monotonic_nanos() + 1000));
            }
        }
        assert!(reactor.stats().kicks >= 90, "{:?}", reactor.stats());
    }
}

#[test]
fn small_queues_overflow_and_lose_nothing() {
    let file = numbered_file(1 << 12);
    let ring = KernelRing::with_entries(&Kicker::new().unwrap(), 2).unwrap();
    let mut operations = InFlight::new(ring, None);
    let mut bufs = vec![[0u8; 8]; 300];
    let calls: Vec<_> = bufs
        .iter_mut()
        .enumerate()
        .map(|(i, buf)| Op::read(file.as_raw_fd(), buf, (i * 8) as u64).call)
        .collect();
    let group = operations.begin(calls.into_iter(), None);
    while !operations.is_done(group) {
        operations.poll(Wait::Forever);
    }
    operations.finish(group, |_, result| assert_eq!(result, 8));
    assert_eq!((operations.stats().completions, operations.stats().stale), (300, 0));
    assert!(bufs.iter().enumerate().all(|(i, b)| (0..8).all(|j| b[j] == pattern(i * 8 + j))));
}

#[test]
fn dropping_a_reactor_ends_what_is_in_flight() {
    for mode in MODES {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut buf = [3u8; 8];
        let reactor = Reactor::new(mode).unwrap();
        let call = Op::receive(near.as_raw_fd(), &mut buf).call;
        on!(reactor, operations => operations.begin(std::iter::once(call), None));
        reactor.poll(Wait::No);
        assert_eq!(reactor.inflight(), 1);
        reactor.drain();
        assert_eq!(reactor.inflight(), 0);
        drop(reactor);
        assert_eq!(buf, [3; 8]);
    }
}

#[test]
fn a_plain_thread_runs_a_batch_by_itself() {
    for mode in MODES {
        let file = numbered_file(1 << 14);
        let reactor = Reactor::new(mode).unwrap();
        let mut bufs = vec![[0u8; 64]; 256];
        let mut ops: Vec<_> = bufs
            .iter_mut()
            .enumerate()
            .map(|(i, buf)| Op::read(file.as_raw_fd(), buf, (i * 64) as u64))
            .collect();
        reactor.run_all_here(&mut ops);
        assert!(ops.iter().all(|op| op.outcome().unwrap() == 64));
        drop(ops);
        assert!(bufs.iter().enumerate().all(|(i, b)| (0..64).all(|j| b[j] == pattern(i * 64 + j))));
    }
}

#[test]
fn the_book_holds_on_a_ring_of_dice() {
    let mut total = model::ModelReport::default();
    for seed in 0..3000 {
        let report = model::run(seed).unwrap();
        total.operations += report.operations;
        total.cancelled += report.cancelled;
        total.completed_anyway += report.completed_anyway;
        total.partial += report.partial;
        total.overflowed += report.overflowed;
        total.short += report.short;
        total.duplicates += report.duplicates;
        total.failed += report.failed;
    }
    let seen = [
        total.cancelled,
        total.completed_anyway,
        total.partial,
        total.overflowed,
        total.short,
        total.duplicates,
    ];
    assert!(total.operations > 100_000 && seen.iter().all(|n| *n > 1000), "{total:?}");
    assert!(total.failed > 300, "{total:?}");
    assert_eq!(model::run(7), model::run(7), "a run is a function of its seed");
}

/// From now on the system call `number` fails with `errno` for the calling thread.
fn refuse_call(number: libc::c_long, errno: i32) {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let give = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    let mut program = [
        line(load, 0, 0),
        line(jump, 1, number as u32),
        line(give, 0, libc::SECCOMP_RET_ALLOW),
        line(give, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
    ];
    install(&mut program);
}

/// From now on the filter decides on the system calls of the calling thread.
fn install(program: &mut [libc::sock_filter]) {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is a live local that the kernel copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let installed = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter);
        assert_eq!(installed, 0, "{}", io::Error::last_os_error());
    }
}

#[test]
fn where_io_uring_is_refused_threads_serve() {
    let calls = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    for (call, errno) in calls.iter().flat_map(|c| [(*c, libc::EPERM), (*c, libc::ENOSYS)]) {
        let refused = std::thread::spawn(move || {
            refuse_call(call, errno);
            let e = Reactor::new(IoMode::Uring).err().unwrap();
            assert_eq!(e.raw_os_error(), Some(errno));
            let reactor = Reactor::new(IoMode::Auto).unwrap();
            assert!(!reactor.has_ring());
            let file = numbered_file(100);
            let fd = file.as_raw_fd();
            let reader = body(move || {
                let mut buf = [0u8; 100];
                assert_eq!(self::reactor().run(Op::read(fd, &mut buf, 0)).unwrap(), 100);
                assert!((0..100).all(|i| buf[i] == pattern(i)));
            });
            run_fibers(IoMode::Auto, vec![reader]);
            let mut ops = [Op::sync(fd, true)];
            Reactor::borrowed().unwrap().run_all_here(&mut ops);
            assert_eq!(ops[0].outcome().unwrap(), 0);
        });
        refused.join().unwrap();
    }
}

/// The loop's thread enters a sandbox while a fiber waits for a socket, a read is queued and the
/// loop would sleep.
#[test]
fn a_sandbox_that_comes_later_ends_what_waits_and_the_loop_goes_on() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let runtime = Runtime::builder().loops(1).io(IoMode::Uring).build().unwrap();
        let (near, _far) = UnixStream::pair().unwrap();
        let waiter = runtime.spawn("receives", move || {
            let mut buf = [0u8; 8];
            run(Op::receive(near.as_raw_fd(), &mut buf)).unwrap()
        });
        let file = numbered_file(100);
        let fd = file.as_raw_fd();
        runtime.run("sandboxes", move || {
            // The waiter's request goes to the kernel with this one.
            assert_eq!(run(Op::sync(fd, true)).unwrap().unwrap(), 0);
            refuse_call(libc::SYS_io_uring_enter, errno);
            let mut buf = [0u8; 100];
            assert_eq!(run(Op::read(fd, &mut buf, 0)).unwrap().unwrap(), 100);
            assert!((0..100).all(|i| buf[i] == pattern(i)));
        });
        let e = waiter.join().unwrap().unwrap_err();
        assert_eq!(e.raw_os_error(), Some(errno));
        let sleeper = runtime.spawn("sleeps", || crate::thread::sleep(Duration::from_millis(1)));
        sleeper.join().unwrap();
    }
}

/// A plain thread's batch, on a ring that is refused between two batches.
#[test]
fn a_lent_ring_refused_later_is_replaced_by_threads() {
    std::thread::spawn(|| {
        let file = numbered_file(1 << 12);
        let reactor = Reactor::borrowed().unwrap();
        let read = || {
            let mut bufs = vec![[0u8; 64]; 64];
            let mut ops: Vec<_> = bufs
                .iter_mut()
                .enumerate()
                .map(|(i, buf)| Op::read(file.as_raw_fd(), buf, (i * 64) as u64))
                .collect();
            reactor.run_all_here(&mut ops);
            assert!(ops.iter().all(|op| op.outcome().unwrap() == 64));
            drop(ops);
            bufs.concat().iter().enumerate().all(|(i, byte)| *byte == pattern(i))
        };
        assert!(read() && reactor.has_ring());
        refuse_call(libc::SYS_io_uring_enter, libc::EPERM);
        assert!(read() && !reactor.has_ring());
        assert!(read());
    })
    .join()
    .unwrap();
}

/// The kernel keeps that limit for the thread, whose other rings have it, too.
#[test]
fn a_lent_ring_leaves_the_workers_of_its_thread_alone() {
    // The workers belong to the thread.
    std::thread::spawn(|| {
        let users = io_uring::IoUring::new(8).unwrap();
        let bounded = |limit| {
            let mut limits = [limit, 0];
            users.submitter().register_iowq_max_workers(&mut limits).unwrap();
            limits[0]
        };
        bounded(3);
        let borrowed = Reactor::borrowed().unwrap();
        assert!(borrowed.has_ring());
        assert_eq!(bounded(0), 3, "a borrowed ring");
        let mut buf = [0; 4];
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let mut ops = [Op::read(file.as_raw_fd(), &mut buf, 0)];
        borrowed.run_all_here(&mut ops);
        assert_eq!(ops[0].outcome().unwrap(), 4);
        assert_eq!(bounded(0), 3, "a borrowed ring that was used");
        drop(Reactor::new(IoMode::Uring).unwrap());
        assert_eq!(bounded(0), 4, "a loop's own");
    })
    .join()
    .unwrap();
}
