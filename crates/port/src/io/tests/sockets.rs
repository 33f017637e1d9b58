//! What waiting for sockets costs where io_uring is refused, in system calls.

use super::*;
use crate::fiber::with_reactor;
use crate::net::Stream;

const LIMIT: u64 = 20_000_000_000;

fn calls() -> u64 {
    with_reactor(Reactor::socket_calls).unwrap()
}

/// From now on poll(2) for more than one descriptor fails for the calling thread.
fn refuse_poll_sets() {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let more = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
    let give = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // The lower half of the second argument, on either byte order.
    let second = if cfg!(target_endian = "big") { 28 } else { 24 };
    install(&mut [
        line(load, 0, 0, 0),
        line(equal, 0, 3, libc::SYS_ppoll as u32),
        line(load, 0, 0, second),
        line(more, 0, 1, 1),
        line(give, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        line(give, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]);
}

/// A thousand waiting sockets are not polled again and again, and an active socket among them pays
/// nothing for them.
#[test]
fn a_wait_costs_the_same_however_many_wait() {
    let runtime = Runtime::builder().loops(1).io(IoMode::Threads).build().unwrap();
    // Other tests have descriptors at the same time.
    let count = (crate::os::descriptor_limit() / 16).min(500);
    let (idle, keep): (Vec<_>, Vec<_>) = (0..count).map(|_| Stream::pair().unwrap()).unzip();
    let idle = idle.into_iter().map(|near| {
        near.set_receive_timeout(Some(LIMIT));
        runtime.spawn("idle", move || near.receive(&mut [0; 10]).unwrap())
    });
    let idle: Vec<_> = idle.collect();
    let (near, far) = Stream::pair().unwrap();
    const ROUNDS: u64 = 1000;
    let echo = runtime.spawn("echo", move || {
        refuse_poll_sets();
        far.set_receive_timeout(Some(LIMIT));
        for _ in 0..ROUNDS {
            let mut buf = [0; 10];
            assert_eq!(far.receive(&mut buf).unwrap(), 1);
            far.send_all(&buf[..1]).unwrap();
        }
    });
    runtime.run("asks", || {
        near.set_receive_timeout(Some(LIMIT));
        let (registered, mut buf) = (calls(), [0; 10]);
        // One of them learns of the kind of the socket.
        assert!(registered >= count, "each is registered");
        assert!(registered <= 3 * count + 100, "{registered} calls for {count} sockets");
        for round in 0..ROUNDS {
            near.send_all(&[round as u8]).unwrap();
            assert_eq!((near.receive(&mut buf).unwrap(), buf[0]), (1, round as u8));
        }
        let spent = calls() - registered;
        // For each of two messages: waiting, receiving, and seeing that no more has come.
        assert!(spent <= 8 * ROUNDS + 100, "{spent} calls for {ROUNDS} messages there and back");
    });
    echo.join().unwrap();
    drop(keep);
    idle.into_iter().for_each(|wait| assert_eq!(wait.join().unwrap(), 0));
}

/// A socket that was waited for once is known: neither another wait nor one that ends by its time
/// costs a call.
#[test]
fn waiting_again_registers_nothing() {
    let runtime = Runtime::builder().loops(1).io(IoMode::Threads).build().unwrap();
    runtime.run("waits", || {
        let (near, far) = Stream::pair().unwrap();
        near.set_receive_timeout(Some(1));
        let wait = || near.receive(&mut [0; 10]).map_err(|e| e.kind());
        assert_eq!(wait(), Err(io::ErrorKind::TimedOut));
        let before = calls();
        let waits_before = with_reactor(Reactor::stats).unwrap().enters;
        for _ in 0..100 {
            assert_eq!(wait(), Err(io::ErrorKind::TimedOut));
        }
        let waits = with_reactor(Reactor::stats).unwrap().enters - waits_before;
        let spent = calls() - before;
        // The loop's sleep takes two calls where the kernel does not support nanoseconds.
        assert!(spent <= 2 * waits, "{spent} calls in {waits} waits of the loop");
        far.send_all(b"x").unwrap();
        near.set_receive_timeout(Some(LIMIT));
        assert_eq!(near.receive(&mut [0; 10]).unwrap(), 1);
    });
}

/// Kernels before 5.11, and sandboxes that do not know the call.
#[test]
fn a_loop_sleeps_exactly_without_a_call_that_waits_exactly() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        let runtime = Runtime::builder().loops(1).io(IoMode::Threads).build().unwrap();
        runtime.run("refuses", move || refuse_call(libc::SYS_epoll_pwait2, errno));
        let (near, far) = Stream::pair().unwrap();
        let waiter = runtime.spawn("waits", move || {
            near.set_receive_timeout(Some(1000));
            let e = near.receive(&mut [0]).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::TimedOut);
            near.set_receive_timeout(Some(LIMIT));
            near.receive(&mut [0]).unwrap()
        });
        // The loop sleeps with a deadline, and a kick, a socket and the deadline end it.
        runtime
            .spawn("sleeps", || crate::thread::sleep(Duration::from_micros(300)))
            .join()
            .unwrap();
        far.send_all(b"x").unwrap();
        assert_eq!(waiter.join().unwrap(), 1);
    }
}

/// Out of descriptors, or of watches: the caller gets the error, and is served when there are some
/// again.
#[test]
fn a_refused_registration_is_an_error_of_the_call() {
    let runtime = Runtime::builder().loops(1).io(IoMode::Threads).build().unwrap();
    let file = numbered_file(10);
    runtime.run("asks", || {
        // What cannot be waited for by epoll.
        let e = run(Op::poll(file.as_raw_fd(), libc::POLLIN)).unwrap().unwrap_err();
        assert_eq!(e.raw_os_error(), Some(libc::EPERM));
        for fd in [-1, i32::MAX] {
            let e = run(Op::poll(fd, libc::POLLIN)).unwrap().unwrap_err();
            assert_eq!(e.raw_os_error(), Some(libc::EBADF));
        }
        let (near, far) = Stream::pair().unwrap();
        far.send_all(b"x").unwrap();
        assert_eq!(near.receive(&mut [0; 2]).unwrap(), 1);
    });
}
