//! Threads and fibers: waits, stacks, quanta, refused resources.

mod deep_stack;
mod fibers;
mod no_stack;
mod quantum;
mod refused;
mod waits;
