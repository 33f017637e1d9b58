//! An operation that completes repeatedly, in the table of operations in flight, over a scripted
//! ring.

use super::super::in_flight::{Completion, Request, Uring, What};
use super::*;
use std::os::fd::IntoRawFd;

/// A ring whose kernel is played by the test.
#[derive(Default)]
struct Told {
    asked: Vec<Request>,
    completions: VecDeque<Completion>,
}

impl Uring for Told {
    fn push(&mut self, request: &Request) -> bool {
        self.asked.push(*request);
        true
    }
    fn queued(&self) -> usize {
        0
    }
    fn is_ready(&self) -> bool {
        !self.completions.is_empty()
    }
    fn submit(&mut self, _wait: Wait) -> io::Result<()> {
        Ok(())
    }
    fn reap(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
    fn close(&mut self, _is_used: bool) {}
}

fn operations() -> (InFlight<Told>, Group, u64) {
    let mut operations = InFlight::new(Told::default(), None);
    let group = operations.begin(std::iter::once(Op::accept(Socket::new(0)).call), None);
    let number = operations.ring_mut().asked[0].user_data;
    (operations, group, number)
}

fn tell(operations: &mut InFlight<Told>, user_data: u64, result: i32, more: bool) {
    operations.ring_mut().completions.push_back(Completion { user_data, result, more });
    operations.poll(Wait::No);
}

/// A descriptor without an owner, and its other end, which sees when it is closed.
fn brought() -> (i32, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    other.set_nonblocking(true).unwrap();
    (one.into_raw_fd(), other)
}

fn is_closed(mut other: &UnixStream) -> bool {
    std::io::Read::read(&mut other, &mut [0]).is_ok_and(|n| n == 0)
}

#[test]
fn results_come_in_order_and_the_last_one_ends_it() {
    for last in [-libc::EMFILE, 9] {
        let (mut operations, group, number) = operations();
        assert_eq!(operations.next(group, None), None);
        tell(&mut operations, number, 7, true);
        tell(&mut operations, number, 8, true);
        assert_eq!((operations.next(group, None), operations.is_done(group)), (Some(7), false));
        tell(&mut operations, number, last, false);
        assert!(operations.is_done(group));
        assert_eq!(operations.next(group, None), Some(8));
        assert_eq!(operations.next(group, None), (last > 0).then_some(last));
        assert_eq!((operations.next(group, None), operations.inflight()), (None, 0));
        operations.finish(group, |_, result| assert_eq!(result, last));
        // That number is no longer in use.
        tell(&mut operations, number, -1, false);
        assert_eq!((operations.stats().stale, operations.stats().completions), (1, 1));
    }
}

#[test]
fn what_an_abandoned_one_brings_is_closed() {
    let (mut operations, group, number) = operations();
    let (waits, waits_end) = brought();
    let (late, late_end) = brought();
    let (last, last_end) = brought();
    tell(&mut operations, number, waits, true);
    operations.abandon(group);
    assert!(is_closed(&waits_end) && !is_closed(&late_end));
    let cancels = |asked: &[Request]| matches!(asked[1].what, What::Cancel(n) if n == number);
    assert!(cancels(&operations.ring_mut().asked));
    tell(&mut operations, number, late, true);
    assert!(is_closed(&late_end) && operations.inflight() == 1);
    tell(&mut operations, number, last, false);
    assert!(is_closed(&last_end) && operations.inflight() == 0);
    // The series' slot is free, under another number.
    let next = operations.begin(std::iter::once(Op::accept(Socket::new(0)).call), None);
    let number = operations.ring_mut().asked.last().unwrap().user_data;
    assert_eq!(number as u32, 0);
    tell(&mut operations, number, -libc::ECANCELED, false);
    // Ended before it is abandoned.
    operations.abandon(next);
    assert_eq!((operations.inflight(), operations.stats().stale), (0, 0));
}
