//! Fibers: tasks with stacks of their own that share one thread and give it up only where they wait.

pub(crate) mod coroutine;

/// The reactor of the calling fiber's loop. No loops yet: helper `fiber` replaces this.
pub(crate) fn with_reactor<R>(_use: impl FnOnce(&crate::io::Reactor) -> R) -> Option<R> {
    None
}

/// Runs `f`, which may block, off the loop. No loops yet: helper `fiber` replaces this.
pub fn offload<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    f()
}
