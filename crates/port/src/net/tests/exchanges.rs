//! Sending and then receiving in one call does the same as both separately.

use super::waiting::{BOUND, SOON, pairs};
use super::*;
use crate::fiber::with_reactor;
use crate::io::Reactor;
use crate::sync::{Event, Semaphore};

#[test]
fn an_exchange_sends_all_and_brings_the_answer() {
    on_each_runtime(|| {
        for (near, far) in pairs() {
            let server = thread::spawn("echo", move || echo(&far));
            let mut buf = [0; 100];
            for round in 0..100u8 {
                // With nothing to send it is a receive.
                near.send_all(&[round]).unwrap();
                assert_eq!((near.exchange(&[], &mut buf).unwrap(), buf[0]), (1, round));
                assert_eq!(near.exchange(&[round, 1, 2], &mut buf).unwrap(), 3);
                assert_eq!(buf[..3], [round, 1, 2]);
            }
            near.shutdown(Direction::Send).unwrap();
            assert_eq!(near.receive(&mut buf).unwrap(), 0);
            server.join().unwrap();
        }
    });
}

/// More than there is room for: the rest is sent as the other side reads, which answers only then.
#[test]
fn an_exchange_of_more_than_there_is_room_for_sends_the_rest_first() {
    const BYTES: usize = 8 << 20;
    on_each_runtime(|| {
        for (near, far) in pairs() {
            let reader = thread::spawn("reads", move || {
                let (mut left, mut sum, mut buf) = (BYTES, 0u64, vec![0; 64 << 10]);
                while left > 0 {
                    let n = far.receive(&mut buf).unwrap();
                    assert!(n > 0, "{left} are missing");
                    sum += buf[..n].iter().map(|byte| u64::from(*byte)).sum::<u64>();
                    left -= n;
                }
                far.send_all(b"all").unwrap();
                sum
            });
            let data: Vec<u8> = (0..BYTES).map(|i| (i / 7) as u8).collect();
            let mut buf = [0; 10];
            assert_eq!(near.exchange(&data, &mut buf).unwrap(), 3);
            assert_eq!(&buf[..3], b"all");
            let sum = data.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            assert_eq!(reader.join().unwrap(), sum);
        }
    });
}

/// Bytes that arrive while the rest of ours waits for room are not lost.
#[test]
fn what_comes_during_the_sending_is_received() {
    on_each_runtime(|| {
        for (near, far) in pairs() {
            far.send_all(b"early").unwrap();
            let taken = Event::new();
            let data = vec![7; 8 << 20];
            thread::scope(|scope| {
                scope.spawn(|| {
                    assert_eq!(receive_all(&far).len(), data.len());
                    taken.set();
                });
                let mut buf = [0; 10];
                assert_eq!(near.exchange(&data, &mut buf).unwrap(), 5);
                assert_eq!(&buf[..5], b"early");
                near.shutdown(Direction::Send).unwrap();
                taken.wait();
            });
        }
    });
}

#[test]
fn an_exchange_ends_by_timeouts_and_by_the_other_side() {
    on_each_runtime(|| {
        for (near, far) in pairs() {
            let mut buf = [0; 10];
            near.set_receive_timeout(Some(SOON));
            let e = near.exchange(b"sent", &mut buf).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::TimedOut);
            assert_eq!(far.receive(&mut buf).unwrap(), 4);
            // The peer does not read: it is the send timeout that expires.
            near.set_receive_timeout(Some(BOUND));
            near.set_send_timeout(Some(SOON));
            let e = near.exchange(&vec![1; 8 << 20], &mut buf).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::TimedOut);
        }
        for (near, far) in pairs() {
            far.send_all(b"last").unwrap();
            far.shutdown(Direction::Send).unwrap();
            let mut buf = [0; 10];
            assert_eq!(near.exchange(b"x", &mut buf).unwrap(), 4);
            assert_eq!(near.exchange(b"x", &mut buf).unwrap(), 0);
            near.shutdown(Direction::Both).unwrap();
            let e = near.exchange(b"x", &mut buf).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::BrokenPipe);
        }
    });
}

/// The sends of many fibers in a turn of their loop reach the kernel in one call.
#[test]
fn fibers_that_answer_in_one_turn_enter_the_kernel_together() {
    const FIBERS: u64 = 40;
    const ROUNDS: u64 = 50;
    const ANSWERS: u64 = FIBERS * ROUNDS;
    let runtime = Runtime::builder().loops(1).io(IoMode::Uring).build().unwrap();
    let ends: Vec<_> = (0..FIBERS).map(|_| Stream::pair().unwrap()).collect();
    let (near, far): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    let (asked, all) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
    let serve = |stream: Stream| {
        let (asked, all) = (Arc::clone(&asked), Arc::clone(&all));
        runtime.spawn("serves", move || {
            stream.set_receive_timeout(Some(BOUND));
            let (mut buf, mut have) = ([0; 10], 0);
            loop {
                let answer = buf;
                have = stream.exchange(&answer[..have], &mut buf).unwrap();
                if have == 0 {
                    return;
                }
                if (asked.fetch_add(1, Ordering::Relaxed) + 1) % FIBERS == 0 {
                    all.release(1);
                }
            }
        })
    };
    let servers: Vec<_> = far.into_iter().map(serve).collect();
    let (stats, near) = runtime.run("asks", move || {
        let stats = || with_reactor(Reactor::stats).unwrap();
        let before = stats();
        for round in 0..ROUNDS {
            near.iter().for_each(|stream| stream.send_all(&[round as u8]).unwrap());
            all.acquire(1);
        }
        let after = stats();
        let spent = (after.operations - before.operations, after.enters - before.enters);
        (spent, near)
    });
    for stream in near {
        stream.shutdown(Direction::Send).unwrap();
        stream.set_receive_timeout(Some(BOUND));
        let all: Vec<u8> = (0..ROUNDS as u8).collect();
        assert_eq!(receive_all(&stream), all);
    }
    servers.into_iter().for_each(|server| server.join().unwrap());
    let (operations, enters) = stats;
    // The last answers and the receives after them may not have been submitted yet.
    assert!(operations >= 2 * (ANSWERS - FIBERS), "{operations} operations: no send is one");
    // A turn resumes at least eight before it looks at the clock.
    assert!(enters <= ANSWERS / 4, "{enters} calls for {ANSWERS} answers");
}
