//! Fibers on the caller's own thread: its loop's, or a temporary loop's.
//!
//! On a plain thread, `scope_here` runs its children on a loop of that very thread, whenever the
//! thread waits for one of them and at the end of the scope. The loop is borrowed (`borrowed`) when
//! the first child starts. While `f` itself runs, the children stand still: a child must not wait
//! for something that only `f` would do later, other than ending. When the operating system refuses
//! a loop, a child runs in the call that starts it.
//!
//! Invariant cited by unsafe blocks: 1. bodies started here run on the calling thread, and `Send`
//! is not needed for what never leaves it; scopes end before what their children borrow.
//!
//! Thread safety: everything here concerns the calling thread only.

use super::borrowed::{self, Borrowed, Loops};
use super::event_loop::{self, Loop};
use super::is_fiber;
use crate::task::{self, Scheduler, TaskRef};
use crate::thread::{Children, JoinHandle, Packet, Started};
use std::cell::OnceCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

type Body = Box<dyn FnOnce() + Send>;

/// Makes a body from a closure that stays on this thread.
///
/// # Safety
/// The body runs on the calling thread, before anything it borrows goes away.
pub(super) unsafe fn local<'a>(body: Box<dyn FnOnce() + 'a>) -> Body {
    // SAFETY: the types differ in lifetime and `Send` only, and the caller guarantees both.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + 'a>, Body>(body) }
}

/// Starts a fiber on the calling fiber's loop. Never suspends.
///
/// # Panics
/// When called on a thread, which includes a child of [`scope_here`] that runs on its caller.
///
/// ```
/// # use pumice_port::fiber::{IoMode, Runtime, is_fiber, spawn_here};
/// # use pumice_port::thread::{JoinHandle, sleep, yield_now};
/// # use std::time::Duration;
/// let runtime = Runtime::builder().loops(1).build()?;
/// let order = runtime.run("parent", || {
///     // On the same thread, so that it may share what is not `Send`.
///     let order = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
///     let own = order.clone();
///     let child: JoinHandle<()> = spawn_here("child", move || {
///         assert!(is_fiber());
///         own.borrow_mut().push("child");
///         sleep(Duration::from_micros(1)); // This fiber alone.
///         yield_now(); // To the fibers that can run.
///     });
///     order.borrow_mut().push("parent");
///     child.join().expect("it does not panic");
///     order.take()
/// });
/// assert_eq!(order, ["parent", "child"]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn spawn_here<T: 'static>(name: &str, f: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    let (_, scheduler) = task::current_fiber().expect("spawn_here is called on a fiber");
    let (packet, promise) = Packet::new();
    // SAFETY: invariant 1.
    let body = unsafe { local(Box::new(promise.body(f))) };
    let task = scheduler.spawn_here(name, body);
    JoinHandle::new(packet, Started::fiber(task), name)
}

/// Where the children of a scope run.
enum Home {
    /// With the calling fiber.
    Fiber(&'static dyn Scheduler),
    /// On this thread, while it waits.
    Thread {
        /// The children are independent of one another, see [`scope_independent`].
        apart: bool,
        /// Set by the first child; None: children run in the calls that start them.
        borrowed: OnceCell<Option<Rc<Borrowed>>>,
    },
}

impl Home {
    fn find(apart: bool) -> Home {
        match task::current_fiber() {
            Some((_, scheduler)) => Home::Fiber(scheduler),
            None => Home::Thread { apart, borrowed: OnceCell::new() },
        }
    }

    fn start(&self, name: &str, body: Body) -> Option<TaskRef> {
        match self {
            Home::Fiber(scheduler) => Some(scheduler.spawn_here(name, body)),
            Home::Thread { apart, borrowed } => {
                let loops = if *apart { Loops::Shared } else { Loops::Any };
                match borrowed.get_or_init(|| borrowed::borrow(loops)) {
                    Some(borrowed) => Some(borrowed.start(name, body)),
                    None => {
                        body();
                        None
                    }
                }
            }
        }
    }

    /// The loop that it has borrowed.
    fn borrowed(&self) -> Option<&Rc<Borrowed>> {
        match self {
            Home::Fiber(_) => None,
            Home::Thread { borrowed, .. } => borrowed.get()?.as_ref(),
        }
    }

    /// Waits until `done`, which becomes true when a child ends. `park` is how a fiber waits.
    fn wait(&self, done: &dyn Fn() -> bool, park: impl FnOnce()) {
        match self.borrowed() {
            Some(borrowed) if !is_fiber() => borrowed.drive(done),
            _ => park(),
        }
    }

    /// Ends the scope, whose children have ended. A borrowed loop is not returned while fibers that
    /// they started are alive.
    fn finish(&self) {
        if let Some(borrowed) = self.borrowed() {
            borrowed.finish();
        }
    }
}

/// Where children of [`scope_here`] are started.
///
/// Example: that of [`scope_here`].
pub struct Scope<'scope, 'env: 'scope> {
    children: Children,
    home: Home,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
    /// Not `Send`, not `Sync`.
    here: PhantomData<*mut ()>,
}

/// Runs `f`, which may start fibers on the caller's own thread that borrow from the caller; they
/// have ended on return. Suspends.
///
/// On a plain thread the children run while the caller waits for them: in
/// [`ScopedJoinHandle::join`] and when `f` has returned. So a child must not wait for what `f` does
/// after it has joined one. Fibers that children have started with [`spawn_here`] have ended, too,
/// when the outermost scope returns.
///
/// A plain thread borrows a loop of the process; when all sixteen are taken, one is made and closed
/// afterwards. Where the operating system refuses that (it takes three descriptors, and memory), or
/// the thread is destroying its thread-locals, each child of the scope runs on the caller in
/// [`Scope::spawn`]: a child that waits for a later one waits forever, and `spawn_here` panics.
///
/// # Panics
/// With the panic of `f`; or when a child that was not joined panicked or got no stack.
///
/// ```
/// # use pumice_port::fiber::{Scope, ScopedJoinHandle, scope_here};
/// # use pumice_port::thread::NotStarted;
/// let words = ["one", "three"];
/// let total = scope_here(|scope: &Scope<'_, '_>| {
///     let each: Vec<ScopedJoinHandle<'_, usize>> =
///         words.iter().map(|word| scope.spawn("length", || word.len())).collect();
///     each.into_iter().map(|child| match child.join() {
///         Ok(length) => length,
///         Err(panic) if panic.is::<NotStarted>() => panic!("out of memory"),
///         Err(panic) => std::panic::resume_unwind(panic),
///     }).sum::<usize>()
/// });
/// assert_eq!(total, 8);
/// ```
pub fn scope_here<'env, R>(f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
    scope(false, f)
}

/// As [`scope_here`] for children that do not wait for one another. On a plain thread they also run
/// in [`Scope::spawn`] when all loops are taken: none is made, so that descriptors do not grow with
/// the number of threads.
///
/// # Panics
/// As [`scope_here`].
pub fn scope_independent<'env, R>(
    f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
) -> R {
    scope(true, f)
}

pub(super) fn scope<'env, R>(
    apart: bool,
    f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
) -> R {
    let scope = Scope {
        children: Children::new(),
        home: Home::find(apart),
        scope: PhantomData,
        env: PhantomData,
        here: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.home.wait(&|| scope.children.ended(), || scope.children.wait());
    scope.home.finish();
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(_) if scope.children.any_panicked() => {
            panic!("a scoped fiber panicked or did not start")
        }
        Ok(value) => value,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a child, which begins to run when the caller waits. Does not suspend; see
    /// [`scope_here`] for when it runs the child.
    pub fn spawn<T: 'scope>(
        &'scope self,
        name: &str,
        f: impl FnOnce() -> T + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let (packet, body) = self.children.child(f);
        // SAFETY: invariant 1.
        let body = unsafe { local(Box::new(body)) };
        self.home.start(name, body);
        ScopedJoinHandle { packet: Some(packet), children: &self.children, home: &self.home }
    }
}

/// Waits for a child of [`scope_here`] and takes its result.
///
/// Example: that of [`scope_here`].
pub struct ScopedJoinHandle<'scope, T> {
    packet: Option<Arc<Packet<T>>>,
    children: &'scope Children,
    home: &'scope Home,
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        if let Some(packet) = self.packet.take()
            && Packet::abandon(packet)
        {
            self.children.note_panic();
        }
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the end of the child. Suspends.
    ///
    /// # Errors
    /// What the child panicked with; [`NotStarted`](crate::thread::NotStarted) if there was no
    /// memory for its stack.
    pub fn join(mut self) -> std::thread::Result<T> {
        let packet = self.packet.take().expect("joined once");
        self.home.wait(&|| packet.is_done(), || packet.wait());
        packet.take()
    }
    /// Whether the child has ended, so that `join` would not wait.
    pub fn is_finished(&self) -> bool {
        self.packet.as_ref().is_none_or(|packet| packet.is_done())
    }
}

/// Whether the calling fiber's loop is a real one.
pub(crate) fn current_loop() -> Option<&'static Loop> {
    task::current_fiber()?;
    event_loop::current()
}
