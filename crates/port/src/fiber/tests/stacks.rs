//! Stacks of fibers that have ended: what they keep in memory, and for how long.

use super::limits::{dig, in_child_of, is_child};
use super::*;
use crate::fiber::coroutine::{Fiber, Ran};
use crate::fiber::stack::{
    ALWAYS_KEPT, Given, KEPT_STACK_BYTES, KEPT_STACKS, LOOK_NANOS, StackPool, TRIMMED_EVERY,
    look_down,
};

const STACK_BYTES: usize = 512 << 10;

fn pool() -> StackPool {
    let mut pool = StackPool::new();
    pool.open(STACK_BYTES).unwrap();
    pool
}

/// Runs `body` on a stack of the pool.
fn run(pool: &mut StackPool, body: impl FnOnce() + Send + 'static) {
    let Given::Whole(stack) = pool.take() else { panic!("no stack") };
    let mut fiber = Fiber::new(stack, Box::new(body));
    assert_eq!(fiber.resume(), Ran::Ended);
    pool.put(fiber.into_stack());
}

/// Takes that many stacks at one time and puts them back.
fn use_at_once(pool: &mut StackPool, count: usize) {
    let taken: Vec<_> = (0..count).map(|_| pool.take()).collect();
    for given in taken {
        let Given::Whole(stack) = given else { panic!("no stack") };
        pool.put(stack);
    }
}

fn kept(pool: &StackPool) -> usize {
    pool.free().iter().map(|stack| stack.depth()).max().unwrap_or(0)
}

/// Steps over the paint: one frame of 128 KiB, of which only the far end is touched, then more.
#[inline(never)]
fn leap() -> u64 {
    let mut frame = std::mem::MaybeUninit::<[u64; 16 << 10]>::uninit();
    let far = frame.as_mut_ptr().cast::<u64>();
    // SAFETY: the first word of the frame, which is its deepest.
    unsafe { std::hint::black_box(far).write(1) };
    dig(40) + std::hint::black_box(far).addr() as u64
}

#[test]
fn a_stack_keeps_little_in_memory() {
    let mut pool = pool();
    for depth in [1, 100, 2, 400, 300, 3, 200] {
        run(&mut pool, move || assert!(dig(depth) > 0));
        assert_eq!(pool.free().len(), 1);
        assert!(kept(&pool) <= KEPT_STACK_BYTES, "{} after {depth} frames", kept(&pool));
    }
    // Shallow fibers leave the paint alone, and memory beyond an undisturbed paint is freed in the
    // end.
    for _ in 0..3 {
        run(&mut pool, || assert!(leap() > 0));
        for _ in 0..TRIMMED_EVERY {
            run(&mut pool, || assert!(dig(2) > 0));
        }
        assert!(kept(&pool) <= KEPT_STACK_BYTES, "{}", kept(&pool));
    }
}

/// How deep a stack has been is found by looking at what was used of it, however large it is.
#[test]
fn a_measure_costs_what_was_used() {
    const MIB: usize = 1 << 20;
    for bytes in [16 << 10, 256 << 10, 5 * MIB, 64 * MIB, 1 << 30, 1 << 36, 1 << 40, 1 << 44] {
        let mut pool = StackPool::new();
        pool.open(bytes).unwrap();
        for frames in [2, 9, 200, 20_000] {
            // A frame has somewhat more than a kilobyte; unoptimised ones have a few.
            if frames * 8 * 1024 > bytes && bytes > 16 << 10 {
                continue;
            }
            let frames = if bytes == 16 << 10 { 2 } else { frames };
            let Given::Whole(stack) = pool.take() else { panic!("no stack of {bytes}") };
            let mut fiber = Fiber::new(stack, Box::new(move || assert!(dig(frames) > 0)));
            assert_eq!(fiber.resume(), Ran::Ended);
            let stack = fiber.into_stack();
            let (depth, looked) = look_down(stack.low(), stack.usable());
            let most = (frames * 8 * 1024).max(64 << 10);
            assert!((frames * 1024..most).contains(&depth), "{bytes}: {frames}, {depth}");
            assert!(looked <= depth + 72 * MIB, "{bytes}: {looked} for {depth}");
        }
    }
}

/// A stack of any size, or the error that there is no room for it.
#[test]
fn fibers_run_or_are_refused_whatever_their_stack() {
    let sizes = (10..usize::BITS).flat_map(|bit| [(1usize << bit) - 1, 1 << bit]);
    let mut ran = [0, 0];
    for bytes in sizes.chain([0, usize::MAX]) {
        let Ok(runtime) = Runtime::builder().loops(1).stack_bytes(bytes).build() else { continue };
        // Two at once: there may be no room for the second one.
        for _ in 0..3 {
            let two = [runtime.spawn("first", || dig(2)), runtime.spawn("second", || dig(2))];
            two.into_iter().for_each(|fiber| ran[usize::from(fiber.join().is_ok())] += 1);
        }
    }
    assert!(ran[1] > 100, "{ran:?}");
}

#[test]
fn stacks_are_given_back_with_time() {
    let mut pool = pool();
    assert_eq!(pool.look_at(), None);
    use_at_once(&mut pool, KEPT_STACKS + 500);
    assert_eq!(pool.free().len(), KEPT_STACKS, "the rest was freed at once");
    let mut now = 5_000;
    // The first look begins a period during which 100 stacks are in use.
    assert!(pool.look_at().is_some_and(|at| at <= now));
    pool.look(now);
    assert_eq!((pool.free().len(), pool.look_at()), (KEPT_STACKS, Some(now + LOOK_NANOS)));
    use_at_once(&mut pool, 100);
    pool.look(now + LOOK_NANOS - 1);
    assert_eq!(pool.free().len(), KEPT_STACKS);
    let mut look_until = |pool: &mut StackPool, count| {
        let mut looks = 0;
        while pool.free().len() > count {
            let at = pool.look_at().expect("there is something to give back");
            assert!(at > now, "each look is at a later time");
            now = at;
            let before = pool.free().len();
            pool.look(now);
            assert!(before - pool.free().len() <= 16, "a few at a time");
            looks += 1;
            assert!(looks < 1000);
        }
        now
    };
    // All except those 100 and the ones always kept; and these too once they are unused.
    let then = look_until(&mut pool, 100 + ALWAYS_KEPT);
    assert!(then < 3 * LOOK_NANOS);
    assert_eq!(pool.free().len(), 100 + ALWAYS_KEPT);
    let then = look_until(&mut pool, ALWAYS_KEPT);
    assert!(then < 6 * LOOK_NANOS);
    assert_eq!((pool.free().len(), pool.look_at()), (ALWAYS_KEPT, None));
}

/// Memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() << 12
}

/// Four thousand deep fibers at one time, and then a great many small ones.
#[test]
fn memory_comes_back_after_many_deep_fibers() {
    if !is_child() {
        let output = in_child_of("stacks", "memory_comes_back_after_many_deep_fibers");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        return;
    }
    const FIBERS: usize = 4096;
    let rt = runtime(1);
    let (gate, waiting) = (Arc::new(Event::new()), Arc::new(AtomicUsize::new(0)));
    let start = || {
        let (gate, waiting) = (Arc::clone(&gate), Arc::clone(&waiting));
        rt.spawn("deep", move || {
            dig(100);
            waiting.fetch_add(1, Ordering::Relaxed);
            gate.wait();
        })
    };
    let before = resident();
    let handles: Vec<_> = (0..FIBERS).map(|_| start()).collect();
    while waiting.load(Ordering::Relaxed) < FIBERS {
        std::thread::yield_now();
    }
    let most = resident() - before;
    gate.set();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    // The last of them has been taken apart.
    rt.run("after", || ());
    let left = resident() - before;
    (0..40_000).for_each(|_| rt.run("small", || ()));
    let later = resident() - before;
    eprintln!("{} KiB at most, {} after, {} later", most >> 10, left >> 10, later >> 10);
    assert!(most > FIBERS * (100 << 10));
    let bound = KEPT_STACKS * KEPT_STACK_BYTES + (8 << 20);
    assert!(left < bound && later < bound, "{left} and {later} bytes are left");
    // The stacks are unused: the sleeping loop wakes by itself.
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while resident() - before > 8 << 20 {
        assert!(std::time::Instant::now() < limit, "{} bytes stay", resident() - before);
        std::thread::sleep(Duration::from_millis(10));
    }
}
