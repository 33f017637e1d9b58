//! Plain threads share a few loops: descriptors do not grow with threads, and none is no error.

use super::limits::{in_child_of, is_child};
use super::*;
use crate::io::{Op, run};
use crate::machine::{self, Resource};
use crate::os::{self, BatchRead, File, OpenFlags, PooledBuffer};
use std::sync::Barrier;

const BLOCKS: usize = 64;
const BLOCK: usize = 512;

fn file() -> File {
    let name = format!("pumice-lent-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let bytes: Vec<u8> = (0..BLOCKS * BLOCK).map(|at| (at / BLOCK) as u8).collect();
    std::fs::write(&path, bytes).unwrap();
    let file = File::open(&path, OpenFlags::READ).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

/// Reads every block, through the ring if there is one, together.
fn read_all(file: &File) -> bool {
    let fd = file.as_raw();
    let mut sums = [0usize; BLOCKS];
    let on_fibers: Vec<bool> = scope_here(|scope| {
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
        let output = in_child_of("lent", "many_threads_share_a_few_loops");
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
                read_all(&file);
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
    assert!(read_all(&file), "a loop is free again");
    // Without a loop, and without a descriptor for one, reads are done all the same.
    let lost = machine::Resource::Descriptor;
    let (held, go) = (Barrier::new(17), Barrier::new(17));
    let none = std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                scope_here(|_| {
                    held.wait();
                    go.wait();
                });
            });
        }
        held.wait();
        let taken = read_all(&file);
        machine::refuse(lost, Resource::Descriptor.usual_errno(), 0, u64::MAX);
        let refused = read_all(&file);
        machine::refuse(lost, 0, 0, 0);
        go.wait();
        [taken, refused]
    });
    assert_eq!(none, [false, false], "all loops are taken");
    assert!(read_all(&file));
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
