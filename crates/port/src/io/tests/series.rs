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

fn book() -> (InFlight<Told>, Group, u64) {
    let mut book = InFlight::new(Told::default(), None);
    let group = book.begin(std::iter::once(Op::accept(Socket::new(0)).call), None);
    let number = book.ring_mut().asked[0].user_data;
    (book, group, number)
}

fn tell(book: &mut InFlight<Told>, user_data: u64, result: i32, more: bool) {
    book.ring_mut().completions.push_back(Completion { user_data, result, more });
    book.poll(Wait::No);
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
        let (mut book, group, number) = book();
        assert_eq!(book.next(group, None), None);
        tell(&mut book, number, 7, true);
        tell(&mut book, number, 8, true);
        assert_eq!((book.next(group, None), book.is_done(group)), (Some(7), false));
        tell(&mut book, number, last, false);
        assert!(book.is_done(group));
        assert_eq!(book.next(group, None), Some(8));
        assert_eq!(book.next(group, None), (last > 0).then_some(last));
        assert_eq!((book.next(group, None), book.inflight()), (None, 0));
        book.finish(group, |_, result| assert_eq!(result, last));
        // That number is no longer in use.
        tell(&mut book, number, -1, false);
        assert_eq!((book.stats().stale, book.stats().completions), (1, 1));
    }
}

#[test]
fn what_an_abandoned_one_brings_is_closed() {
    let (mut book, group, number) = book();
    let (waits, waits_end) = brought();
    let (late, late_end) = brought();
    let (last, last_end) = brought();
    tell(&mut book, number, waits, true);
    book.abandon(group);
    assert!(is_closed(&waits_end) && !is_closed(&late_end));
    let cancels = |asked: &[Request]| matches!(asked[1].what, What::Cancel(n) if n == number);
    assert!(cancels(&book.ring_mut().asked));
    tell(&mut book, number, late, true);
    assert!(is_closed(&late_end) && book.inflight() == 1);
    tell(&mut book, number, last, false);
    assert!(is_closed(&last_end) && book.inflight() == 0);
    // Its slot is free, under another number.
    let next = book.begin(std::iter::once(Op::accept(Socket::new(0)).call), None);
    let number = book.ring_mut().asked.last().unwrap().user_data;
    assert_eq!(number as u32, 0);
    tell(&mut book, number, -libc::ECANCELED, false);
    // Ended before it is abandoned.
    book.abandon(next);
    assert_eq!((book.inflight(), book.stats().stale), (0, 0));
}
