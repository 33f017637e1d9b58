//! Plain threads share a few loops: descriptors do not grow with threads, and having none is not an
//! error.

use super::limits::{in_child_of, is_child};
use super::*;
use crate::fiber::borrowed::kept_stacks;
use crate::fiber::stack::{ALWAYS_KEPT, BORROWED_STACKS};
use crate::io::{Op, run};
use crate::machine::{self, Resource};
use crate::os::{self, BatchRead, File, OpenFlags, PooledBuffer};
use std::sync::Barrier;
use std::sync::atomic::Ordering::SeqCst;

const BLOCKS: usize = 64;
const BLOCK: usize = 512;

fn file() -> File {
    let name = format!("pumice-borrowed-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let bytes: Vec<u8> = (0..BLOCKS * BLOCK).map(|at| (at / BLOCK) as u8).collect();
    std::fs::write(&path, bytes).unwrap();
    let file = File::open(&path, OpenFlags::READ).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

/// Reads all blocks together, through the ring if there is one; returns whether children were
/// fibers. `apart` runs the children independently of each other.
fn read_all(file: &File, apart: bool) -> bool {
    let fd = file.as_raw();
    let mut sums = [0usize; BLOCKS];
    let on_fibers: Vec<bool> = scope::scope(apart, |scope| {
        let read = |(at, sum): (usize, &mut usize)| {
            let mut buf = PooledBuffer::take(BLOCK);
            let offset = (at * BLOCK) as u64;
            let n = match run(Op::read(fd, &mut buf[..BLOCK], offset)) {
                Some(n) => n.unwrap() as usize,
                None => file.read_at(&mut buf[..BLOCK], offset).unwrap(),
            };
            assert_eq!(n, BLOCK);
            *sum = buf[..BLOCK].iter().map(|byte| *byte as usize).sum();
            is_fiber()
        };
        let children: Vec<_> =
            sums.iter_mut().enumerate().map(|to| scope.spawn("reads", move || read(to))).collect();
        children.into_iter().map(|child| child.join().unwrap()).collect()
    });
    assert!((0..BLOCKS).all(|at| sums[at] == at * BLOCK));
    let mut bufs = [[0u8; BLOCK]; BLOCKS];
    let mut reads: Vec<_> = bufs
        .iter_mut()
        .enumerate()
        .map(|(at, buf)| BatchRead { file, buf, offset: (at * BLOCK) as u64, result: Ok(0) })
        .collect();
    os::read_batch(&mut reads);
    assert!(reads.iter().all(|read| *read.result.as_ref().unwrap() == BLOCK));
    assert!(bufs.iter().enumerate().all(|(at, buf)| *buf == [at as u8; BLOCK]));
    assert!(on_fibers.iter().all(|on| *on == on_fibers[0]), "all of a call, or none");
    on_fibers[0]
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn many_threads_share_a_few_loops() {
    const THREADS: usize = 300;
    if !is_child() {
        let output = in_child_of("borrowed", "many_threads_share_a_few_loops");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        return;
    }
    let file = file();
    let before = descriptors();
    let (all, end) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                all.wait();
                read_all(&file, true);
                all.wait();
                end.wait();
            });
        }
        all.wait();
        // All have read and none has ended.
        all.wait();
        let held = descriptors() - before;
        assert!((3..=3 * 16).contains(&held), "{held} descriptors for {THREADS} threads");
        end.wait();
    });
    assert!(read_all(&file, true), "a loop is free again");
    let lost = Resource::Descriptor;
    let (held, go) = (Barrier::new(17), Barrier::new(17));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                scope_here(|scope| {
                    drop(scope.spawn("holds the loop", || ()));
                    held.wait();
                    go.wait();
                });
            });
        }
        held.wait();
        let before = descriptors();
        machine::refuse(lost, 0, 0, 0);
        assert!(!read_all(&file, true), "all loops are taken");
        assert_eq!(machine::asked(lost), (0, 0));
        assert!(read_all(&file, false), "one more is made");
        assert_eq!(descriptors(), before, "and closed");
        read_without_descriptors(&file);
        go.wait();
    });
    assert!(read_all(&file, true));
    crate::testing::close_idle_loops();
    assert_eq!(descriptors(), before);
    read_without_descriptors(&file);
    assert!(read_all(&file, true));
}

/// Without a loop, and without a descriptor for one, reads still work.
fn read_without_descriptors(file: &File) {
    let lost = Resource::Descriptor;
    machine::refuse(lost, lost.usual_errno(), 0, u64::MAX);
    assert!(!read_all(file, false));
    assert_ne!(machine::asked(lost).1, 0, "descriptors were asked for");
    assert!(!read_all(file, true));
    machine::refuse(lost, 0, 0, 0);
}

/// However many scopes are open, their children wait for one another.
#[test]
fn children_of_many_scopes_wait_for_later_ones() {
    const THREADS: usize = 20;
    in_time(|| {
        let all = Barrier::new(THREADS);
        let life = || {
            scope_here(|scope| {
                let told = Event::new();
                scope_here(|inner| {
                    inner.spawn("waits", || told.wait());
                    inner.spawn("tells", || told.set());
                    all.wait();
                });
                let started = scope.spawn("c", late_five).join().unwrap();
                assert_eq!(started.join().unwrap(), 5);
            });
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(life))));
    });
}

#[test]
fn a_scope_in_a_scope_shares_the_loop() {
    let order = std::cell::RefCell::new(Vec::new());
    scope_here(|outer| {
        let child = outer.spawn("outer", || order.borrow_mut().push("outer"));
        scope_here(|inner| {
            inner.spawn("inner", || order.borrow_mut().push("inner")).join().unwrap();
        });
        child.join().unwrap();
    });
    assert_eq!(*order.borrow(), ["outer", "inner"]);
}

/// Runs `test` on a thread of its own, which must end within a minute.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (told, end) = std::sync::mpsc::channel();
    let life = std::thread::spawn(move || {
        test();
        told.send(()).unwrap();
    });
    let waited = end.recv_timeout(Duration::from_secs(60));
    assert_ne!(waited, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "it waits for ever");
    life.join().unwrap();
}

/// A fiber that a child starts on the same loop may outlive the child, but not the borrowing of the
/// loop: the next thread that borrows it would resume what must stay here.
#[test]
fn a_loop_goes_back_when_its_last_fiber_has_ended() {
    in_time(|| {
        let here = std::thread::current().id();
        let ended = std::rc::Rc::new(std::cell::Cell::new(None));
        let own = std::rc::Rc::clone(&ended);
        let grandchild = move || {
            late();
            own.set(Some(std::thread::current().id()));
        };
        scope_here(|scope| drop(scope.spawn("c", || drop(spawn_here("d", grandchild)))));
        assert_eq!(ended.get(), Some(here));
    });
}

fn late_five() -> thread::JoinHandle<i32> {
    spawn_here("five", || late() as i32 + 4)
}

#[test]
fn a_thread_joins_a_fiber_that_its_child_has_started() {
    in_time(|| {
        let behind = scope_here(|scope| scope.spawn("c", late_five).join().unwrap());
        assert!(behind.is_finished());
        assert_eq!(behind.join().unwrap(), 5);
        // While the loop is borrowed, and by two scopes.
        scope_here(|scope| {
            let within = scope.spawn("c", late_five).join().unwrap();
            assert_eq!(within.join().unwrap(), 5);
            let inner = scope_here(|inner| inner.spawn("c", late_five).join().unwrap());
            assert_eq!(inner.join().unwrap(), 5);
            drop(scope.spawn("not joined", late_five));
        });
    });
}

/// Also when a panic ends the scope.
#[test]
fn a_scope_that_panics_ends_with_its_last_fiber() {
    in_time(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&ended);
        let scope = std::panic::AssertUnwindSafe(|| {
            scope_here(|scope| {
                let child = || drop(spawn_here("d", move || own.fetch_add(late(), SeqCst)));
                scope.spawn("c", child).join().unwrap();
                panic!("of the scope");
            })
        });
        std::panic::catch_unwind(scope).unwrap_err();
        assert_eq!(ended.load(SeqCst), 1);
    });
}

/// Waits more than once.
fn late() -> usize {
    (0..3).for_each(|_| thread::sleep(Duration::from_millis(1)));
    1
}

/// Nothing trims the stacks of a loop that is not borrowed.
#[test]
fn a_loop_goes_back_with_few_stacks() {
    if !is_child() {
        let output = in_child_of("borrowed", "a_loop_goes_back_with_few_stacks");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        return;
    }
    for fibers in [200, 10, 300] {
        let together = Event::new();
        scope_here(|scope| {
            (0..fibers).for_each(|_| drop(scope.spawn("waits", || together.wait())));
            drop(scope.spawn("tells", || together.set()));
        });
        let kept = kept_stacks();
        // Fewer if that took so long that the loop itself gave some back.
        let few = kept.iter().all(|kept| (ALWAYS_KEPT..=BORROWED_STACKS).contains(kept));
        assert!(few && kept.len() == 1, "{kept:?}");
    }
}
