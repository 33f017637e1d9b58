//! Whether what clients of a key-value store saw could have happened one call after another, each
//! at some moment between its call and its return.
//!
//! Keys are judged one by one, as each is a register of its own. The search is that of Wing and
//! Gong, with Lowe's memory of states that were already reached: it takes the calls whose moment
//! may be next, and goes back where a call returned whose moment was never found.
//!
//! A line of a history is `KEY CALL RETURN KIND ARGUMENTS`:
//!
//! | kind | arguments |
//! |---|---|
//! | `get` | the value that came back, `nil` for none |
//! | `put` | the value |
//!
//! A return `-` means that nobody knows whether it happened: then its moment may be any time later,
//! or never.
//!
//! Thread safety: pure functions. Cost: as many states as calls that overlap allow, so clients
//! begin new keys before many calls are open.

use std::collections::{BTreeMap, BTreeSet};

/// What was asked, and what came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind<'a> {
    Get(&'a str),
    Put(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation<'a> {
    call: u64,
    /// `u64::MAX` if it is open.
    end: u64,
    kind: Kind<'a>,
}

/// A register that nobody wrote.
const NONE: &str = "nil";

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Keys.
    pub keys: usize,
    /// Operations of all keys.
    pub operations: usize,
    /// Those of them that nobody knows the outcome of.
    pub open: usize,
}

/// Judges a history.
///
/// # Errors
/// The key whose operations no order explains, or the line that is none.
pub fn judge(text: &str) -> Result<Judged, String> {
    let mut keys: BTreeMap<&str, Vec<Operation<'_>>> = BTreeMap::new();
    for line in text.lines() {
        let (key, operation) = parse(line).ok_or_else(|| format!("no operation: {line}"))?;
        keys.entry(key).or_default().push(operation);
    }
    let mut judged = Judged { keys: keys.len(), ..Judged::default() };
    for (key, operations) in &keys {
        judged.operations += operations.len();
        judged.open += operations.iter().filter(|operation| operation.end == u64::MAX).count();
        if !is_linearizable(operations) {
            return Err(format!("{key}: no order explains its {} operations", operations.len()));
        }
    }
    Ok(judged)
}

fn parse(line: &str) -> Option<(&str, Operation<'_>)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (&[key, call, end], rest) = words.split_first_chunk::<3>()?;
    let kind = match *rest {
        ["get", value] => Kind::Get(value),
        ["put", value] => Kind::Put(value),
        _ => return None,
    };
    let end = if end == "-" { u64::MAX } else { end.parse().ok()? };
    Some((key, Operation { call: call.parse().ok()?, end, kind }))
}

/// The register after the operation; None if its answer cannot be that of a register with `value`.
fn step<'a>(value: &'a str, kind: Kind<'a>) -> Option<&'a str> {
    match kind {
        Kind::Get(found) => (found == value).then_some(value),
        Kind::Put(new) => Some(new),
    }
}

/// Calls and returns in the order of time, as a list that operations are taken out of.
struct Events {
    /// The operation of each event, and whether it is its call. The first is the list's head.
    of: Vec<(usize, bool)>,
    next: Vec<usize>,
    before: Vec<usize>,
    /// The event of each operation's return.
    returns: Vec<usize>,
}

const HEAD: usize = 0;

impl Events {
    fn new(operations: &[Operation<'_>]) -> Events {
        let calls = operations.iter().enumerate().map(|(at, o)| (o.call, 0, at, true));
        let returns = operations.iter().enumerate().map(|(at, o)| (o.end, 1, at, false));
        let mut events: Vec<(u64, u8, usize, bool)> = calls.chain(returns).collect();
        // At one moment calls come first: then they overlap.
        events.sort_unstable();
        let mut of = vec![(usize::MAX, false)];
        of.extend(events.iter().map(|(.., at, is_call)| (*at, *is_call)));
        let mut returns = vec![HEAD; operations.len()];
        for (event, (at, is_call)) in of.iter().enumerate().skip(1) {
            if !is_call {
                returns[*at] = event;
            }
        }
        let count = of.len();
        let next = (1..=count).map(|event| event % count).collect();
        let before = (0..count).map(|event| (event + count - 1) % count).collect();
        Events { of, next, before, returns }
    }

    fn unlink(&mut self, event: usize) {
        let (before, next) = (self.before[event], self.next[event]);
        self.next[before] = next;
        self.before[next] = before;
    }

    /// Undoes the last [`Self::unlink`].
    fn relink(&mut self, event: usize) {
        let (before, next) = (self.before[event], self.next[event]);
        self.next[before] = event;
        self.before[next] = event;
    }
}

fn is_linearizable(operations: &[Operation<'_>]) -> bool {
    let mut events = Events::new(operations);
    let mut taken = vec![0u64; operations.len().div_ceil(64)];
    let mut reached: BTreeSet<(Vec<u64>, &str)> = BTreeSet::new();
    // What was taken: the event of its call, and the register before it.
    let mut stack: Vec<(usize, &str)> = Vec::new();
    let mut value = NONE;
    let mut event = events.next[HEAD];
    loop {
        if event == HEAD {
            return true;
        }
        let (at, is_call) = events.of[event];
        if is_call {
            let after = step(value, operations[at].kind);
            taken[at / 64] |= 1 << (at % 64);
            if let Some(after) = after
                && reached.insert((taken.clone(), after))
            {
                stack.push((event, value));
                value = after;
                events.unlink(event);
                events.unlink(events.returns[at]);
                event = events.next[HEAD];
            } else {
                taken[at / 64] &= !(1 << (at % 64));
                event = events.next[event];
            }
            continue;
        }
        if operations[at].end == u64::MAX {
            // All that is left is open: it may never have happened.
            return true;
        }
        let Some((call, old)) = stack.pop() else { return false };
        let at = events.of[call].0;
        taken[at / 64] &= !(1 << (at % 64));
        value = old;
        events.relink(events.returns[at]);
        events.relink(call);
        event = events.next[call];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        judge(&lines.join("\n")).is_ok()
    }

    #[test]
    fn calls_one_after_another_must_fit() {
        assert!(holds("k 1 2 put a\nk 3 4 get a\nk 5 6 put b\nk 7 8 get b"));
        assert!(holds("k 1 2 get nil"));
        assert!(!holds("k 1 2 put a\nk 3 4 get nil"));
        assert!(!holds("k 1 2 put a\nk 3 4 put b\nk 5 6 get a"));
    }

    #[test]
    fn calls_that_overlap_may_come_in_any_order() {
        assert!(holds("k 1 10 put a\nk 2 9 put b\nk 11 12 get a"));
        assert!(holds("k 1 10 put a\nk 2 9 put b\nk 11 12 get b"));
        // But all see the same one.
        assert!(!holds("k 1 10 put a\nk 2 9 put b\nk 11 12 get a\nk 13 14 get b"));
        // A read that has seen a write is not followed by one that has not.
        assert!(!holds("k 1 2 put a\nk 3 20 put b\nk 4 5 get b\nk 6 7 get a"));
        assert!(holds("k 1 2 put a\nk 3 20 put b\nk 4 5 get a\nk 6 7 get b"));
    }

    #[test]
    fn what_is_open_may_happen_late_once_or_never() {
        assert!(holds("k 1 - put a\nk 3 4 get nil\nk 5 6 get a"));
        assert!(holds("k 1 - put a\nk 3 4 get nil\nk 5 6 get nil"));
        assert!(!holds("k 1 - put a\nk 3 4 get a\nk 5 6 get nil"));
        assert!(!holds("k 5 - put a\nk 1 2 get a"));
        // It happens once: a later write is not undone by it.
        assert!(!holds("k 1 - put a\nk 3 4 get a\nk 5 6 put b\nk 7 8 get b\nk 9 10 get a"));
    }

    #[test]
    fn keys_are_judged_alone_and_lines_must_be_lines() {
        let judged = judge("k 1 2 put a\nj 1 2 get nil\nk 3 - put b");
        assert_eq!(judged, Ok(Judged { keys: 2, operations: 3, open: 1 }));
        assert!(judge("k 1 2 put a\nj 1 2 get a").is_err_and(|text| text.starts_with("j:")));
        assert!(judge("k 1 two put a").is_err());
        assert!(judge("k 1 2 add a").is_err());
    }

    /// Four writers that overlap all the time are judged in a moment.
    #[test]
    fn a_long_history_is_quickly_judged() {
        let mut text = String::new();
        let mut last = 0;
        for n in 0..400u64 {
            text.push_str(&format!("k {} {} put {n}\n", 10 * n, 10 * n + 35));
            last = n;
        }
        text.push_str(&format!("k {} {} get {last}\n", 10 * last + 40, 10 * last + 50));
        assert!(holds(&text));
        text.push_str(&format!("k {} {} get 3\n", 10 * last + 60, 10 * last + 70));
        assert!(!holds(&text));
    }
}
