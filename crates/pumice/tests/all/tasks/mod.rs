//! Threads and fibers: who waits for whom, stacks, budgets, resources that are refused.

mod budget;
mod deep_stack;
mod fibers;
mod no_stack;
mod refused;
mod waits;
