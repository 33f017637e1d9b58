//! Models of SharedWork: each piece is done once, and its owner sees it done.

use super::locks::Watched;
use super::{holds, is_caught};
use crate::sync::SharedWork;
use crate::sync::planted::Planted;
use loom::thread;
use std::sync::Arc;

/// Pieces that are numbers; doing piece n counts at place n.
struct Job {
    work: SharedWork<usize>,
    done: Vec<Watched>,
}

fn shared(pieces: usize, helpers: usize) -> impl Fn() + Sync + Send {
    move || {
        let done = (0..pieces).map(|_| Watched::new()).collect();
        let job = Arc::new(Job { work: SharedWork::new(0..pieces), done });
        let help = |job: &Arc<Job>| {
            let job = Arc::clone(job);
            thread::spawn(move || job.work.help(|piece| job.done[*piece].add()))
        };
        let helpers: Vec<_> = (0..helpers).map(|_| help(&job)).collect();
        let back = job.work.finish(|piece| job.done[*piece].add());
        assert!(job.done.iter().all(|done| done.get() == 1), "each piece is done once");
        assert_eq!(back, (0..pieces).collect::<Vec<_>>());
        helpers.into_iter().for_each(|helper| drop(helper.join().unwrap()));
    }
}

#[test]
fn the_owner_sees_what_a_helper_did() {
    holds(4, shared(2, 1));
}

#[test]
fn two_helpers_and_the_owner_do_each_piece_once() {
    holds(2, shared(3, 2));
}

#[test]
fn an_owner_that_does_not_wait_is_caught() {
    is_caught(Planted::SharedWorkNotAwaited, "Causality violation", 3, shared(2, 1));
}
