//! Which writers join a group, in which order, up to which size; and many threads at once.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pumice_base::Error;
use pumice_base::random::Rng;

use super::*;

/// Limit of a group in these tests.
const GROUP_BYTES_MAX: usize = 1 << 20;

fn batch(rep: Vec<u8>, options: WriteOptions) -> QueuedBatch {
    QueuedBatch::plain(rep, options)
}

fn incomplete(result: &Result<()>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == pumice_base::ErrorKind::Incomplete)
}

/// Queues `batch` on a thread of its own; returns once it is in the queue.
fn enqueue(
    queue: &Arc<WriteQueue>,
    batch: QueuedBatch,
) -> pumice_port::thread::JoinHandle<(bool, Vec<u8>, Result<()>)> {
    let before = queue.state.lock().order.len();
    let own = Arc::clone(queue);
    let handle =
        pumice_port::thread::spawn("waiter", move || match own.join(batch, || Ok(true), |_| ()) {
            Joined::Leader(batch, mut leader) => {
                own.leave(&mut leader);
                (true, batch.rep, Ok(()))
            }
            Joined::Done(rep, result) => (false, rep, result),
        });
    while queue.state.lock().order.len() == before {
        pumice_port::thread::yield_now();
    }
    handle
}

#[pumice_test_macros::test]
fn a_leader_takes_followers_in_order_until_one_does_not_fit() {
    let plain = WriteOptions::default();
    let sync = WriteOptions { sync: true, ..plain };
    let unlogged = WriteOptions { disable_wal: true, ..plain };
    let hurried = WriteOptions { no_slowdown: true, ..plain };
    let low = WriteOptions { low_pri: true, ..plain };
    // (leader, waiting, how many join)
    let cases: [(WriteOptions, Vec<WriteOptions>, usize); 7] = [
        (plain, vec![plain, plain, plain], 3),
        (plain, vec![plain, sync, plain], 1),
        (sync, vec![plain, sync, plain], 3),
        (plain, vec![unlogged, plain], 0),
        (unlogged, vec![unlogged, plain], 1),
        (plain, vec![plain, hurried], 1),
        (plain, vec![low], 0),
    ];
    for (options, waiting, along) in cases {
        let queue = Arc::new(WriteQueue::new(GROUP_BYTES_MAX));
        let mut leader = queue.try_lead().unwrap();
        assert!(queue.try_lead().is_none());
        let handles: Vec<_> = waiting
            .iter()
            .enumerate()
            .map(|(n, own)| enqueue(&queue, batch(vec![n as u8; 20], *own)))
            .collect();
        let mut taken = Vec::new();
        queue.take_followers(&leader, 20, &options, &mut taken);
        let order: Vec<u8> = taken.iter().map(|f| f.batch.rep[0]).collect();
        assert_eq!(order, (0..along as u8).collect::<Vec<_>>(), "{options:?} {waiting:?}");
        queue.finish(&mut leader, taken, &Err(Error::aborted("told")));
        for (n, handle) in handles.into_iter().enumerate() {
            let (led, rep, result) = handle.join().unwrap();
            assert_eq!(rep, vec![n as u8; 20]);
            assert_eq!((led, result.is_err()), (n >= along, n < along));
        }
        assert!(queue.try_lead().is_some(), "the last to leave frees the queue");
    }
}

#[pumice_test_macros::test]
fn groups_are_limited_in_bytes() {
    let take = |bytes: usize, waiting: &[usize]| {
        let queue = Arc::new(WriteQueue::new(GROUP_BYTES_MAX));
        let mut leader = queue.try_lead().unwrap();
        let handles: Vec<_> = waiting
            .iter()
            .map(|bytes| enqueue(&queue, batch(vec![0; *bytes], WriteOptions::default())))
            .collect();
        let mut taken = Vec::new();
        queue.take_followers(&leader, bytes, &WriteOptions::default(), &mut taken);
        let count = taken.len();
        queue.finish(&mut leader, taken, &Ok(()));
        for handle in handles {
            handle.join().unwrap().2.unwrap();
        }
        count
    };
    assert_eq!(take(100, &[(GROUP_BYTES_MAX / SMALL_LEADER_SHARE), 1]), 1);
    assert_eq!(take(100, &[(GROUP_BYTES_MAX / SMALL_LEADER_SHARE) + 1]), 0);
    assert_eq!(take(GROUP_BYTES_MAX - 10, &[10, 1]), 1);
    assert_eq!(take(2 * GROUP_BYTES_MAX, &[1]), 0);
}

#[pumice_test_macros::test]
fn an_exclusive_entry_is_never_taken_along_and_is_alone() {
    let queue = Arc::new(WriteQueue::new(GROUP_BYTES_MAX));
    let mut leader = queue.try_lead().unwrap();
    let alone = QueuedBatch::exclusive();
    let first = enqueue(&queue, alone);
    let second = enqueue(&queue, batch(vec![1], WriteOptions::default()));
    let mut taken = Vec::new();
    queue.take_followers(&leader, 0, &WriteOptions::default(), &mut taken);
    assert!(taken.is_empty());
    queue.leave(&mut leader);
    assert!(first.join().unwrap().0);
    assert!(second.join().unwrap().0);
}

/// Every batch is written exactly once, by one leader at a time, with the options it needs.
#[pumice_test_macros::test]
fn threads_with_mixed_options_write_every_batch_once() {
    const THREADS: u64 = 8;
    const EACH: u64 = 4000;
    let queue = Arc::new(WriteQueue::new(GROUP_BYTES_MAX));
    let leaders = Arc::new(AtomicUsize::new(0));
    let written = Arc::new(AtomicU64::new(0));
    let sum = Arc::new(AtomicU64::new(0));
    let handles: Vec<_> = (0..THREADS)
        .map(|thread| {
            let queue = Arc::clone(&queue);
            let (leaders, written, sum) =
                (Arc::clone(&leaders), Arc::clone(&written), Arc::clone(&sum));
            pumice_port::thread::spawn("writer", move || {
                let mut rng = Rng::new(thread);
                for n in 0..EACH {
                    let options = WriteOptions {
                        sync: rng.one_in(4),
                        disable_wal: false,
                        low_pri: rng.one_in(7),
                        ..WriteOptions::default()
                    };
                    let exclusive = rng.one_in(50);
                    let id = thread * EACH + n;
                    let rep = id.to_le_bytes().to_vec();
                    let mine = QueuedBatch { exclusive, ..QueuedBatch::plain(rep, options) };
                    let rep = match queue.join(mine, || Ok(true), |_| ()) {
                        Joined::Done(rep, result) => {
                            assert!(!exclusive);
                            result.unwrap();
                            rep
                        }
                        Joined::Leader(batch, mut leader) => {
                            assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0);
                            let mut followers = Vec::new();
                            if !exclusive {
                                queue.take_followers(&leader, 8, &options, &mut followers);
                            }
                            for Follower { batch, .. } in &followers {
                                assert!(!batch.exclusive);
                                assert!(options.sync || !batch.options.sync);
                                assert_eq!(options.low_pri, batch.options.low_pri);
                            }
                            let reps =
                                std::iter::once(&batch).chain(followers.iter().map(|f| &f.batch));
                            for one in reps {
                                let id = u64::from_le_bytes(one.rep[..].try_into().unwrap());
                                sum.fetch_add(id, Ordering::Relaxed);
                                written.fetch_add(1, Ordering::Relaxed);
                            }
                            leaders.fetch_sub(1, Ordering::SeqCst);
                            queue.finish(&mut leader, followers, &Ok(()));
                            batch.rep
                        }
                    };
                    assert_eq!(rep, id.to_le_bytes());
                }
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
    let total = THREADS * EACH;
    assert_eq!(written.load(Ordering::Relaxed), total);
    assert_eq!(sum.load(Ordering::Relaxed), total * (total - 1) / 2);
    assert!(queue.try_lead().is_some());
    let state = queue.state.lock();
    assert!(state.entries.len() <= THREADS as usize, "entries are used again");
    assert_eq!(state.free.len(), state.entries.len());
}

/// A writer that does not want to wait does not wait behind a leader that does.
#[pumice_test_macros::test]
fn a_stall_refuses_those_that_do_not_wait_and_nobody_else() {
    let plain = WriteOptions::default();
    let hurried = WriteOptions { no_slowdown: true, ..plain };
    let queue = Arc::new(WriteQueue::new(GROUP_BYTES_MAX));
    let mut leader = queue.try_lead().unwrap();
    let patient = enqueue(&queue, batch(vec![1], plain));
    let before = enqueue(&queue, batch(vec![2], hurried));
    let last = enqueue(&queue, batch(vec![3], plain));
    queue.begin_stall(&leader);
    let (led, rep, result) = before.join().unwrap();
    assert!(!led && rep == [2] && incomplete(&result));
    let own = Arc::clone(&queue);
    let refused = pumice_port::thread::spawn("hurried", move || {
        match own.join(batch(vec![4], hurried), || Ok(true), |_| ()) {
            Joined::Done(rep, result) => (rep, result),
            Joined::Leader(..) => panic!("leads"),
        }
    });
    let (rep, result) = refused.join().unwrap();
    assert!(rep == [4] && incomplete(&result));
    queue.end_stall();
    let after = enqueue(&queue, batch(vec![5], hurried));
    let mut taken = Vec::new();
    queue.take_followers(&leader, 8, &plain, &mut taken);
    assert_eq!(taken.iter().map(|f| f.batch.rep[0]).collect::<Vec<_>>(), [1, 3]);
    queue.finish(&mut leader, taken, &Ok(()));
    for handle in [patient, last] {
        assert!(!handle.join().unwrap().0);
    }
    assert!(after.join().unwrap().0, "a stall that is over refuses no writer");
}
