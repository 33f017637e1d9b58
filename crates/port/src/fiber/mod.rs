//! Fibers: tasks with stacks of their own that share one thread and give it up only where they wait.

pub(crate) mod coroutine;
