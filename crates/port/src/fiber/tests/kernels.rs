//! Fibers on older kernels, simulated by refusing what these lack. Each test is a process of its
//! own.

use super::limits::{in_child_of, is_child};
use super::*;
use crate::io::{Limits, Op, run, run_all};
use crate::machine;
use crate::net::{Listener, Stream};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

fn alone(name: &str) -> bool {
    if is_child() {
        return true;
    }
    let output = in_child_of("kernels", name);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    false
}

fn scratch_file(bytes: &[u8]) -> File {
    let name = format!("pumice-kernels-{}-{:p}", std::process::id(), bytes);
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

/// Connections of a listener.
fn accept(rt: &Runtime) {
    let listener = Arc::new(Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap());
    let (address, own) = (listener.address().unwrap(), Arc::clone(&listener));
    let taker = rt.spawn("accepts", move || {
        let mut incoming = own.incoming();
        (0..20).for_each(|n| incoming.accept().unwrap().send_all(&[n]).unwrap());
    });
    rt.run("connects", || {
        for n in 0..20 {
            let mut buf = [0];
            let stream = Stream::connect_tcp(address, 10_000_000_000).unwrap();
            assert_eq!((stream.receive(&mut buf).unwrap(), buf), (1, [n]));
        }
    });
    taker.join().unwrap();
}

/// Every operation once and many at a time, kicks between loops, timers, deadlines of operations.
fn serve(rt: &Runtime) {
    let file = Arc::new(scratch_file(&[7; 40_000]));
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let file = Arc::clone(&file);
            rt.spawn("reads", move || {
                let fd = file.as_raw_fd();
                let mut bufs = vec![[0u8; 10]; 600];
                let ops = bufs.iter_mut().enumerate();
                let mut ops: Vec<_> =
                    ops.map(|(i, buf)| Op::read(fd, buf, i as u64 * 10)).collect();
                assert!(run_all(&mut ops));
                assert!(ops.iter().all(|op| op.outcome().unwrap() == 10));
                drop(ops);
                assert!(bufs.iter().all(|buf| *buf == [7; 10]));
                let mut pinned = crate::os::PooledBuffer::take(4096);
                let n = run(Op::read(fd, &mut pinned[..4096], 0)).unwrap().unwrap();
                assert!(n == 4096 && pinned[..4096].iter().all(|byte| *byte == 7));
            })
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    rt.run("writes", || {
        let fd = file.as_raw_fd();
        assert_eq!(run(Op::write(fd, b"written", 3)).unwrap().unwrap(), 7);
        assert_eq!(run(Op::sync(fd, false)).unwrap().unwrap(), 0);
        let e = run(Op::sync(-1, true)).unwrap().unwrap_err();
        assert_eq!(e.raw_os_error(), Some(libc::EBADF));
    });
    let (near, far) = UnixStream::pair().unwrap();
    let other = rt.spawn_on(0, "echo", move || {
        let mut buf = [0];
        for _ in 0..100 {
            assert_eq!(run(Op::receive(far.as_raw_fd(), &mut buf)).unwrap().unwrap(), 1);
            assert_eq!(run(Op::send(far.as_raw_fd(), &buf)).unwrap().unwrap(), 1);
        }
        far
    });
    let asks = rt.spawn_on(rt.loops() - 1, "asks", move || {
        let mut buf = [0];
        let fd = near.as_raw_fd();
        for round in 0..100 {
            assert_eq!(run(Op::send(fd, &[round])).unwrap().unwrap(), 1);
            assert_eq!(run(Op::poll(fd, libc::POLLIN)).unwrap().unwrap(), 1);
            assert_eq!(run(Op::receive(fd, &mut buf)).unwrap().unwrap(), 1);
            assert_eq!(buf, [round]);
        }
        let deadline = Some(crate::time::monotonic_nanos() + 1_000_000);
        let limits = Limits { deadline, token: None };
        let op = Op::receive(fd, &mut buf);
        let timed = with_reactor(|reactor| reactor.run_within(op, limits)).unwrap();
        assert_eq!(timed.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        near
    });
    drop((other.join().unwrap(), asks.join().unwrap()));
    accept(rt);
    // Asleep, then kicked by a thread; again and again.
    for _ in 0..50 {
        let (gate, seen) = (Arc::new(Event::new()), Arc::new(Event::new()));
        let (own, told) = (Arc::clone(&gate), Arc::clone(&seen));
        let sleeper = rt.spawn("sleeps", move || {
            thread::sleep(Duration::from_micros(50));
            told.set();
            own.wait();
        });
        seen.wait();
        gate.set();
        sleeper.join().unwrap();
    }
}

#[test]
fn fibers_start_and_serve_on_kernels_of_every_age() {
    if !alone("fibers_start_and_serve_on_kernels_of_every_age") {
        return;
    }
    // io_uring has had plain reads since 5.6: on older kernels threads serve.
    for (version, ring) in [
        ((4, 18), false),
        ((5, 4), false),
        ((5, 10), true),
        ((5, 15), true),
        ((5, 19), true),
        ((6, 1), true),
        ((6, 6), true),
        ((6, 18), true),
    ] {
        machine::play_kernel(Some(version));
        let start = |io| Runtime::builder().loops(2).io(io).build();
        let forced = start(IoMode::Uring);
        assert_eq!(forced.is_ok(), ring, "kernel {version:?}: {:?}", forced.err());
        let rt = start(IoMode::Auto).unwrap();
        serve(&rt);
        assert_eq!(rt.stats().uring_loops, if ring { 2 } else { 0 }, "kernel {version:?}");
        drop(rt);
        // The loops of plain threads that were made on the previous kernel.
        crate::testing::close_idle_loops();
        let file = scratch_file(&[5; 1000]);
        let read = |n: u64| {
            let mut buf = [0; 100];
            let op = Op::read(file.as_raw_fd(), &mut buf, n * 100);
            assert_eq!((run(op).unwrap().unwrap(), buf), (100, [5; 100]));
            with_reactor(|reactor| reactor.has_ring()).unwrap()
        };
        let rings: Vec<bool> = scope_here(|scope| {
            let child = |n| scope.spawn("child", move || read(n));
            let children: Vec<_> = (0..10).map(child).collect();
            children.into_iter().map(|child| child.join().unwrap()).collect()
        });
        assert_eq!(rings, [ring; 10], "kernel {version:?}");
    }
}

/// Whatever refuses a ring, and at whatever step, threads serve; what a runtime cannot do without
/// is an error, and the next one starts.
#[test]
fn a_runtime_starts_or_says_why_whatever_is_refused() {
    if !alone("a_runtime_starts_or_says_why_whatever_is_refused") {
        return;
    }
    let errors = [libc::EPERM, libc::ENOSYS, libc::EINVAL, libc::EMFILE, libc::ENOMEM, libc::EBUSY];
    let build = || Runtime::builder().loops(2).build();
    let serves = |rt: &Runtime| rt.run("serves", || run(Op::sync(-1, true)).unwrap().is_err());
    drop(build().unwrap());
    for resource in machine::Resource::ALL {
        for errno in errors {
            // Refused for good: no part of it is available.
            machine::refuse(resource, errno, 0, u64::MAX);
            let built = build();
            let is_ring = resource as usize >= machine::Resource::RingSetup as usize;
            if is_ring {
                let rt = built.unwrap_or_else(|e| panic!("{resource:?} {errno}: {e}"));
                assert!(serves(&rt));
                assert_eq!(rt.stats().uring_loops, 0, "{resource:?} {errno}");
            } else {
                assert_eq!(built.err().unwrap().raw_os_error(), Some(errno), "{resource:?}");
            }
        }
        // Once, at every point.
        for point in 0.. {
            machine::refuse(resource, resource.usual_errno(), point, point + 1);
            let built = build();
            let (_, refused) = machine::asked(resource);
            machine::refuse(resource, 0, 0, 0);
            match built {
                Ok(rt) => assert!(serves(&rt)),
                Err(e) => assert_eq!(e.raw_os_error(), Some(resource.usual_errno())),
            }
            let rt = build().unwrap();
            assert!(serves(&rt));
            assert_eq!(rt.stats().uring_loops, 2);
            if refused == 0 {
                break;
            }
        }
    }
}

/// A sandbox begins to refuse io_uring while operations are under way and others are queued.
#[test]
fn a_ring_refused_later_leaves_no_waiter() {
    if !alone("a_ring_refused_later_leaves_no_waiter") {
        return;
    }
    for (errno, version) in [
        (libc::EPERM, None),
        (libc::ENOSYS, None),
        (libc::EPERM, Some((5, 15))),
        (libc::ENOSYS, Some((5, 10))),
    ] {
        machine::play_kernel(version);
        let rt = Runtime::builder().loops(2).build().unwrap();
        assert_eq!(rt.stats().uring_loops, 2);
        let pairs: Vec<_> = (0..20).map(|_| UnixStream::pair().unwrap()).collect();
        let begun = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = pairs
            .iter()
            .enumerate()
            .map(|(place, (near, _))| {
                let (fd, begun) = (near.as_raw_fd(), Arc::clone(&begun));
                rt.spawn_on(place % 2, "receives", move || {
                    let mut buf = [0; 8];
                    begun.fetch_add(1, Ordering::Relaxed);
                    run(Op::receive(fd, &mut buf)).unwrap()
                })
            })
            .collect();
        while begun.load(Ordering::Relaxed) < 20 || rt.stats().inflight < 20 {
            std::thread::yield_now();
        }
        let file = Arc::new(scratch_file(&[9; 5000]));
        let read = |n: u64| {
            let file = Arc::clone(&file);
            move || {
                let mut buf = [0; 50];
                let n = run(Op::read(file.as_raw_fd(), &mut buf, n * 50)).unwrap().unwrap();
                assert_eq!((n, buf), (50, [9; 50]));
            }
        };
        // What has completed was submitted after them: all are with the kernel.
        for place in 0..2 {
            rt.spawn_on(place, "reads", read(0)).join().unwrap();
        }
        machine::refuse(machine::Resource::RingEnter, errno, 0, u64::MAX);
        let readers: Vec<_> = (0..100u64).map(|n| rt.spawn("reads", read(n))).collect();
        for reader in readers {
            reader.join().expect("what the kernel had not taken is done by threads");
        }
        for waiter in waiters {
            let e = waiter.join().unwrap().unwrap_err();
            assert_eq!(e.raw_os_error(), Some(errno), "what it had taken fails");
        }
        assert_eq!(rt.stats().uring_loops, 0);
        serve(&rt);
        drop(rt);
        machine::refuse(machine::Resource::RingEnter, 0, 0, 0);
        let rt = Runtime::builder().loops(2).build().unwrap();
        serve(&rt);
        assert_eq!(rt.stats().uring_loops, 2, "back again");
    }
}
