//! What a call costs its caller: allocations and stack, counted by a program in C.

use std::collections::BTreeMap;

use super::programs::{compiled, folder_with, printed};
use super::shared_library;

/// The most stack of a get, a put or a move of an iterator: threads of Go and of Java have little.
const STACK_BYTES_MAX: usize = 64 << 10;
/// Of so many calls the program counts the allocations.
const CALLS: u64 = 10_000;

/// (allocations in 10,000 calls, bytes of stack) by name of the call.
fn costs() -> BTreeMap<String, (u64, usize)> {
    let scratch = tempfile::tempdir().expect("a folder is made");
    let scratch = scratch.path();
    let ours = folder_with(&shared_library(), &scratch.join("ours"));
    let program = compiled("costs", scratch, &ours, &["-O2"]);
    let text = printed(&program, &ours, &scratch.join("data"), &[]);
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, "allocations", allocations, "stack", stack] = words[..] else {
            panic!("{line}");
        };
        let number = |text: &str| text.parse::<u64>().expect("a number");
        (name.to_string(), (number(allocations), number(stack) as usize))
    };
    text.lines().map(line).collect()
}

#[test]
fn calls_need_little_of_the_callers_stack_and_heap() {
    let costs = costs();
    assert_eq!(costs.len(), 21, "{costs:?}");
    for (name, (_, stack)) in &costs {
        assert!(*stack <= STACK_BYTES_MAX, "{name} uses {stack} bytes of stack");
    }
    let allocations = |name: &str| costs[name].0;
    let moves = costs.keys().filter(|name| {
        ["next_", "prev_", "seek_", "first_last_"].iter().any(|move_| name.starts_with(move_))
    });
    let free = ["get_pinned_table", "get_pinned_memtable", "get_missing_table"];
    let free = free.iter().map(|name| name.to_string()).chain(moves.cloned());
    for name in free.collect::<Vec<_>>() {
        assert_eq!(allocations(&name), 0, "{name} allocates");
    }
    // The caller frees the value: one block of malloc.
    for name in ["get_table", "get_memtable"] {
        assert_eq!(allocations(name), CALLS, "{name}");
    }
    // The memtable's arena grows by blocks.
    for name in ["put", "put_without_log", "delete", "write"] {
        assert!(allocations(name) <= CALLS / 100, "{name}: {}", allocations(name));
    }
}
