//! Threads and fibers: waits, stacks, budgets, refused resources.

mod budget;
mod deep_stack;
mod fibers;
mod no_stack;
mod refused;
mod waits;
