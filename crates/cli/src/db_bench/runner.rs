//! Runs the workers of one benchmark: an OS thread each, or fibers spread over the loops.
//!
//! Thread safety: one run at a time, started and awaited by one thread. Every worker has ended when
//! a run returns, and has released the database.

use super::engine::{BenchDb, Result};
use super::stats::Stats;
use super::work::{self, Work};
use super::worker::{Shared, Worker};
use pumice::perf::{self, PerfLevel};
use pumice_port::fiber::Runtime;
use pumice_port::os::{MemoryNode, memory_nodes};
use pumice_port::thread::{JoinHandle, try_spawn};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Runs `shared.workers` workers on the loops of `fibers`, round robin, or else on threads; the
/// stats of all.
///
/// # Errors
/// The first failure, after all workers have ended; a worker that could not be started.
pub fn run<D: BenchDb>(
    shared: &Arc<Shared<D>>,
    fibers: Option<&Runtime>,
    work: Work,
    seed: u64,
) -> Result<Vec<Stats>> {
    let nodes = shared.flags.enable_numa.then(memory_nodes).flatten().unwrap_or_default();
    let start = |index: usize| -> Result<JoinHandle<Result<Stats>>> {
        let shared = shared.clone();
        // A loop has one node, whichever of its fibers runs.
        let place = fibers.map_or(index, |runtime| index % runtime.loops());
        let node = in_turn(&nodes, place).cloned();
        let body = move || run_one(&shared, work, index, seed + index as u64, node);
        match fibers {
            Some(runtime) => Ok(runtime.spawn_on(place, "bench", body)),
            None => try_spawn("bench", body).map_err(|error| error.to_string()),
        }
    };
    let mut handles = Vec::with_capacity(shared.workers);
    let mut refused = None;
    while handles.len() < shared.workers && refused.is_none() {
        match start(handles.len()) {
            Ok(handle) => handles.push(handle),
            Err(error) => refused = Some(error),
        }
    }
    if refused.is_some() {
        shared.abandon();
    }
    let started = handles.len();
    let results: Vec<_> = handles.into_iter().map(JoinHandle::join).collect();
    if let Some(error) = refused {
        return Err(format!(
            "only {started} of {} workers could be started: {error}",
            shared.workers
        ));
    }
    results.into_iter().map(|ended| ended.map_err(|error| error.to_string())?).collect()
}

/// The node of thread `place`: the nodes in turn, if there are any.
fn in_turn<T>(nodes: &[T], place: usize) -> Option<&T> {
    nodes.get(place.checked_rem(nodes.len())?)
}

fn run_one<D: BenchDb>(
    shared: &Shared<D>,
    work: Work,
    index: usize,
    seed: u64,
    node: Option<MemoryNode>,
) -> Result<Stats> {
    let bound = node.map_or(Ok(()), |node| node.bind_thread());
    let bound = bound.map_err(|error| format!("cannot bind a thread to its NUMA node: {error}"));
    let mut worker = Worker::start(shared, index, seed)?;
    let level = u8::try_from(shared.flags.perf_level).ok().and_then(PerfLevel::from_number);
    let level = level.unwrap_or_default();
    if level > PerfLevel::Disable {
        perf::set_level(level);
        perf::count_by_level(true);
    }
    // The others wait for this one at the gate, whatever became of it.
    let result = bound.and_then(|()| work::run(work, &mut worker));
    if level > PerfLevel::Disable {
        worker.stats.add_message(&format!("PERF_CONTEXT:\n{}", perf::context()));
    }
    worker.stats.stop();
    shared.finished.fetch_add(1, Ordering::Release);
    result.map(|()| worker.stats)
}

#[cfg(test)]
mod tests {
    use super::in_turn;

    // Plain #[test]: nothing in it waits.
    #[test]
    fn threads_take_nodes_in_turn() {
        let nodes = |places: [usize; 5]| places.map(|place| in_turn(&["a", "b"], place).copied());
        assert_eq!(nodes([0, 1, 2, 3, 7]), [Some("a"), Some("b"), Some("a"), Some("b"), Some("b")]);
        assert_eq!(in_turn::<&str>(&[], 3), None);
    }
}
