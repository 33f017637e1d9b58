//! Which part of io_uring came with which kernel, and the fallback where it is missing.
//!
//! Nothing is decided by the kernel's version number: distributions backport parts into older ones,
//! and sandboxes refuse parts of newer ones. Each part is requested, and the fallback is used where
//! it is refused. The versions say what to expect; tests simulate older kernels with them
//! ([`machine::play_kernel`]).
//!
//! Thread safety: constants.

use crate::machine;

/// A part of io_uring that this crate uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Nop,
    Fsync,
    PollAdd,
    ReadFixed,
    RegisterBuffers,
    RegisterFiles,
    AsyncCancel,
    NoDrop,
    CompletionSize,
    Read,
    Write,
    Send,
    Receive,
    Probe,
    ExtArg,
    MultishotPoll,
    WorkersMax,
    SubmitAll,
    CoopTaskrun,
    TaskrunFlag,
    MultishotAccept,
    PollFirst,
    SingleIssuer,
    DeferTaskrun,
    NoSubmissionArray,
}

/// How a part is detected, which kernel introduced it, and the fallback without it.
pub(super) struct Row {
    pub(super) part: Part,
    pub(super) since: (u8, u8),
    /// As docs/port/uring.md has it.
    #[cfg_attr(not(test), expect(dead_code, reason = "it is for readers"))]
    pub(super) without: &'static str,
}

const fn row(part: Part, since: (u8, u8), without: &'static str) -> Row {
    Row { part, since, without }
}

const THREADS: &str = "no ring: the pool of threads";

/// Oldest first.
///
/// | kind of part | found out by |
/// |---|---|
/// | operation | IORING_REGISTER_PROBE when the ring is made |
/// | feature | what io_uring_setup answers |
/// | flag of io_uring_setup | EINVAL: then with fewer flags, at last with none |
/// | registration | its error |
/// | receive that waits first | a ring that was made with SingleIssuer, which is younger |
/// | accept that repeats | EINVAL of the first one: then without, for that listener |
/// | enter itself | a no-op that makes the full round trip when the ring is made |
pub(super) const TABLE: [Row; 25] = [
    row(Part::Nop, (5, 1), THREADS),
    row(Part::Fsync, (5, 1), THREADS),
    row(Part::PollAdd, (5, 1), THREADS),
    row(Part::ReadFixed, (5, 1), "direct reads into ordinary buffers"),
    row(Part::RegisterBuffers, (5, 1), "direct reads into ordinary buffers"),
    row(Part::RegisterFiles, (5, 1), THREADS),
    row(Part::AsyncCancel, (5, 5), THREADS),
    row(Part::NoDrop, (5, 5), THREADS),
    row(Part::CompletionSize, (5, 5), "a completion queue of the kernel's own size"),
    row(Part::Read, (5, 6), THREADS),
    row(Part::Write, (5, 6), THREADS),
    row(Part::Send, (5, 6), THREADS),
    row(Part::Receive, (5, 6), THREADS),
    row(Part::Probe, (5, 6), THREADS),
    row(Part::ExtArg, (5, 11), "the loop waits by poll(2)"),
    row(Part::MultishotPoll, (5, 13), "the loop waits by poll(2)"),
    row(Part::WorkersMax, (5, 15), "as many kernel threads as the kernel likes"),
    row(Part::SubmitAll, (5, 18), "an operation refused at once costs another enter"),
    row(Part::CoopTaskrun, (5, 19), "completions interrupt the thread"),
    row(Part::TaskrunFlag, (5, 19), "completions interrupt the thread"),
    row(Part::MultishotAccept, (5, 19), "accept4(2), and a poll when no connection waits"),
    row(Part::PollFirst, (5, 19), "a receive is tried before it waits"),
    row(Part::SingleIssuer, (6, 0), "completions run at any entry into the kernel"),
    row(Part::DeferTaskrun, (6, 1), "completions run at any entry into the kernel"),
    row(Part::NoSubmissionArray, (6, 6), "an index is written for each request"),
];

/// The flags of a ring used only by its own thread: from all of them down to none.
pub(super) const OWN_FLAGS: [&[Part]; 5] = [
    &[
        Part::CompletionSize,
        Part::SubmitAll,
        Part::TaskrunFlag,
        Part::SingleIssuer,
        Part::DeferTaskrun,
        Part::NoSubmissionArray,
    ],
    &[
        Part::CompletionSize,
        Part::SubmitAll,
        Part::TaskrunFlag,
        Part::SingleIssuer,
        Part::DeferTaskrun,
    ],
    &[Part::CompletionSize, Part::SubmitAll, Part::TaskrunFlag, Part::CoopTaskrun],
    &[Part::CompletionSize],
    &[],
];

/// The same for a ring that is borrowed to one thread after another.
pub(super) const BORROWED_FLAGS: [&[Part]; 4] = [
    &[
        Part::CompletionSize,
        Part::SubmitAll,
        Part::TaskrunFlag,
        Part::CoopTaskrun,
        Part::NoSubmissionArray,
    ],
    &[Part::CompletionSize, Part::SubmitAll, Part::TaskrunFlag, Part::CoopTaskrun],
    &[Part::CompletionSize],
    &[],
];

/// Whether a test simulates a kernel older than the part.
#[inline]
pub(super) fn is_missing(part: Part) -> bool {
    machine::played_kernel().is_some_and(|version| since(part) > version)
}

fn since(part: Part) -> (u8, u8) {
    TABLE.iter().find(|row| row.part == part).map_or((0, 0), |row| row.since)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_page_has_every_row() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/port/uring.md");
        let page = std::fs::read_to_string(page).unwrap();
        for Row { part, since: (major, minor), without } in &TABLE {
            let line = format!("| {part:?} | {major}.{minor} | {without} |");
            assert!(page.lines().any(|other| other == line), "{line}");
        }
        assert!(TABLE.is_sorted_by_key(|row| row.since));
        for flags in [OWN_FLAGS.as_slice(), &BORROWED_FLAGS] {
            assert!(flags.last().is_some_and(|least| least.is_empty()), "the last has none");
        }
    }
}
