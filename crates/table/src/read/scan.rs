//! Walks a block towards a key without assembling the keys on the way.
//!
//! In a prefix-compressed block an entry that shares more bytes with its predecessor than the
//! predecessor shares with the target compares as the predecessor did; only the others need their
//! suffix compared. The entry table, where there is one, tells where to begin. Only for user keys
//! that order as bytes and for blocks without separated values.
//!
//! Invariants while walking: (1) the previous entry's user key is below the target's or equal to
//! it; (2) `matched` is the length of their common prefix; (3) if they are equal, `trailer` holds
//! the previous entry's stored trailer.

use pumice_base::key::{InternalKey, TRAILER_LEN};
use pumice_base::planted::{self, Bug};

use crate::data_block_hash::Bucket;
use crate::read::block::{Block, Entry, GlobalSeqno, TableHit};

/// Where a walk ended.
pub(crate) enum Landing {
    /// At an entry at or after the target.
    At(Position),
    /// The entry of that number in the entry table is the first after the target, and no entry is a
    /// version of the target's user key. The block's bytes were not examined.
    Above(usize),
    /// No entry is a version of the target's user key, and an entry is after the target. Only
    /// [`find_version`] ends here.
    Absent,
    /// Every entry from the start point on is before the target.
    End,
    /// The keys have to be assembled to continue.
    Undecided,
    /// The block is damaged.
    Damaged,
}

/// The first entry at or after the target.
pub(crate) struct Position {
    /// Offset of the entry.
    pub offset: usize,
    /// The entry.
    pub entry: Entry,
    /// The entry's user key is the target's; then `trailer` is its stored trailer.
    pub equal: bool,
    /// Stored trailer of this entry if `equal`, else of the entry before if that one was equal.
    pub trailer: [u8; TRAILER_LEN],
    head: Head,
}

/// Where the bytes come from that an entry shares with its predecessor.
#[derive(Clone, Copy)]
enum Head {
    /// The target, followed by the trailer of the position.
    Target,
    /// The entry table, under that number.
    Table(usize),
}

/// What follows the entry at a position.
pub(crate) enum Next {
    /// An older version of the user key; the position moved there.
    SameKey,
    /// Another user key.
    OtherKey,
    /// The end of the block.
    End,
    /// The block is damaged.
    Damaged,
}

/// How an entry's user key compares with the target's.
enum Step {
    Less,
    Equal([u8; TRAILER_LEN]),
    Greater,
    Undecided,
    Damaged,
}

/// State between two entries; see the head.
struct Walk<'a> {
    data: &'a [u8],
    target: &'a [u8],
    matched: usize,
    previous_len: usize,
    equal: bool,
    trailer: [u8; TRAILER_LEN],
}

/// Finds the first entry at or after internal key `target` in a block whose user keys order as
/// bytes.
#[inline]
pub(crate) fn find(block: &Block, target: InternalKey<'_>, global: GlobalSeqno) -> Landing {
    let user = target.user_key();
    if block.separated() {
        return Landing::Undecided;
    }
    match block.search_table(user.as_bytes()) {
        Some(TableHit::Walk(at)) => {
            // The bytes that the entry shares with the previous one must be among those that the
            // table compared.
            let Some(entry) = block.entry(at, 0, false) else { return Landing::Damaged };
            if entry.shared > block.table_depth().min(user.len()) {
                return Landing::Undecided;
            }
            walk(block, at, entry.shared, target, global)
        }
        Some(TableHit::Above(number)) => Landing::Above(number),
        Some(TableHit::End) => Landing::End,
        None => find_by_restarts(block, target, global),
    }
}

#[inline(never)]
fn find_by_restarts(block: &Block, target: InternalKey<'_>, global: GlobalSeqno) -> Landing {
    let less = |key: &[u8]| {
        let key = InternalKey::new(key);
        let order = key.user_key().as_bytes().cmp(target.user_key().as_bytes());
        order.then_with(|| target.trailer().cmp(&global.apply(key.trailer()))).is_lt()
    };
    match block.seek_restart(less) {
        Some(restart) => walk(block, block.restart(restart), 0, target, global),
        None => Landing::Damaged,
    }
}

/// `find` for point lookups: lands at an entry only if it is a version of the target's user key.
/// Without an entry table the hash index of the block, if it has one, says where to look.
#[inline]
pub(crate) fn find_version(block: &Block, target: InternalKey<'_>, global: GlobalSeqno) -> Landing {
    if block.has_entry_table() || block.separated() {
        return find(block, target, global);
    }
    find_by_hash(block, target, global)
}

#[inline(never)]
fn find_by_hash(block: &Block, target: InternalKey<'_>, global: GlobalSeqno) -> Landing {
    let restart = match block.hash_bucket(target.user_key().as_bytes()) {
        Bucket::Unknown => return find_by_restarts(block, target, global),
        Bucket::Restart(restart) => restart,
        // The key may still continue in the next block, if it sorts after all keys of this one,
        // which the last interval tells.
        Bucket::Absent => block.num_restarts() - 1,
    };
    let landing = match walk_interval(block, restart, target, global) {
        // The bucket was another key's. The key may still continue in the next block.
        Landing::End if restart + 1 < block.num_restarts() => {
            walk_interval(block, block.num_restarts() - 1, target, global)
        }
        landing => landing,
    };
    match landing {
        Landing::At(position) if !position.equal => Landing::Absent,
        landing => landing,
    }
}

/// Walks over one restart interval.
fn walk_interval(
    block: &Block,
    restart: usize,
    target: InternalKey<'_>,
    global: GlobalSeqno,
) -> Landing {
    let (start, end) = (block.restart(restart), block.restart(restart + 1));
    walk_until(block, start, end, 0, target, global)
}

/// The position of the entry with that number in the entry table; no version of the target.
pub(crate) fn table_position(block: &Block, number: usize) -> Option<Position> {
    let offset = block.table_entry(number)?;
    let entry = block.entry(offset, 0, false)?;
    let head = Head::Table(number);
    Some(Position { offset, entry, equal: false, trailer: [0; TRAILER_LEN], head })
}

/// `find`, walking from the entry at `offset`, of whose key `matched` bytes are those of the
/// target and all entries before are below it.
#[inline]
fn walk(
    block: &Block,
    offset: usize,
    matched: usize,
    target: InternalKey<'_>,
    global: GlobalSeqno,
) -> Landing {
    walk_until(block, offset, block.keys_end(), matched, target, global)
}

/// `walk` over the entries that begin before `end`.
#[inline(always)]
fn walk_until(
    block: &Block,
    offset: usize,
    end: usize,
    matched: usize,
    target: InternalKey<'_>,
    global: GlobalSeqno,
) -> Landing {
    let target_trailer = target.trailer();
    let mut walk = Walk {
        data: block.data(),
        target: target.user_key().as_bytes(),
        matched,
        previous_len: 0,
        equal: false,
        trailer: [0; TRAILER_LEN],
    };
    let head = Head::Target;
    let mut at = offset;
    while at < end {
        let Some(entry) = block.entry(at, 0, false) else { return Landing::Damaged };
        match walk.step(&entry) {
            Step::Less => {}
            Step::Equal(stored) => {
                walk.trailer = stored;
                let stored_trailer = u64::from_le_bytes(stored);
                let wrong = planted::is(Bug::GlobalSeqnoNotCompared);
                let known = if wrong { stored_trailer } else { global.apply(stored_trailer) };
                if known <= target_trailer {
                    let position =
                        Position { offset: at, entry, equal: true, trailer: stored, head };
                    return Landing::At(position);
                }
            }
            Step::Greater => {
                let trailer = walk.trailer;
                return Landing::At(Position { offset: at, entry, equal: false, trailer, head });
            }
            Step::Undecided => return Landing::Undecided,
            Step::Damaged => return Landing::Damaged,
        }
        at = entry.next;
    }
    Landing::End
}

impl Walk<'_> {
    #[inline(always)]
    fn step(&mut self, entry: &Entry) -> Step {
        let user_len = entry.shared + entry.suffix_len - TRAILER_LEN;
        if entry.shared > self.matched {
            return self.step_beyond(entry, user_len);
        }
        // The user key is target[..shared] and a part of the suffix.
        if entry.suffix_len < TRAILER_LEN {
            return Step::Damaged;
        }
        let suffix_end = entry.suffix_at + entry.suffix_len;
        let Some(suffix) = self.data.get(entry.suffix_at..suffix_end - TRAILER_LEN) else {
            return Step::Damaged;
        };
        let rest = &self.target[entry.shared..];
        let common = crate::prefix::common_prefix(suffix, rest);
        self.matched = entry.shared + common;
        self.previous_len = user_len;
        self.equal = false;
        match (suffix.get(common), rest.get(common)) {
            (Some(a), Some(b)) if a < b => Step::Less,
            (None, Some(_)) => Step::Less,
            (None, None) => {
                self.equal = true;
                match self.data.get(suffix_end - TRAILER_LEN..).and_then(<[u8]>::first_chunk) {
                    Some(stored) => Step::Equal(*stored),
                    None => Step::Damaged,
                }
            }
            _ => Step::Greater,
        }
    }

    /// The entry shares more with its predecessor than that one shares with the target.
    #[inline]
    fn step_beyond(&mut self, entry: &Entry, user_len: usize) -> Step {
        if self.equal {
            // Shared bytes reach into the predecessor's trailer.
            if user_len > self.target.len() {
                return Step::Greater;
            }
            if user_len < self.target.len() {
                return Step::Damaged;
            }
            return match extend_trailer(self.data, self.trailer, entry, user_len) {
                Some(stored) => Step::Equal(stored),
                None => Step::Damaged,
            };
        }
        if self.matched < self.previous_len {
            // The byte that put the predecessor below the target is shared.
            self.previous_len = user_len;
            return if user_len > self.matched { Step::Less } else { Step::Damaged };
        }
        // The predecessor is a proper prefix of the target.
        if user_len == self.previous_len { Step::Less } else { Step::Undecided }
    }
}

/// The stored trailer of an entry that shares `previous`' bytes; its user key is `user_len` long
/// and all of it is shared.
fn extend_trailer(
    data: &[u8],
    previous: [u8; TRAILER_LEN],
    entry: &Entry,
    user_len: usize,
) -> Option<[u8; TRAILER_LEN]> {
    let kept = entry.shared.checked_sub(user_len)?;
    let mut stored = previous;
    let suffix = data.get(entry.suffix_at..entry.suffix_at + entry.suffix_len)?;
    stored.get_mut(kept..)?.get_mut(..suffix.len())?.copy_from_slice(suffix);
    (kept + suffix.len() == TRAILER_LEN).then_some(stored)
}

impl Position {
    /// Puts the stored internal key into `out`, given the target that was searched for; `None` if
    /// the key has to be assembled from the entries before.
    pub fn assemble(
        &self,
        block: &Block,
        target: InternalKey<'_>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let user = target.user_key().as_bytes();
        out.clear();
        let shared = self.entry.shared;
        match self.head {
            Head::Target if self.equal => {
                out.extend_from_slice(user);
                out.extend_from_slice(&self.trailer);
                return Some(());
            }
            Head::Target => {
                out.extend_from_slice(&user[..shared.min(user.len())]);
                out.extend_from_slice(self.trailer.get(..shared.saturating_sub(user.len()))?);
            }
            Head::Table(number) => block.table_key_head(number, shared, out)?,
        }
        let suffix_end = self.entry.suffix_at + self.entry.suffix_len;
        out.extend_from_slice(block.data().get(self.entry.suffix_at..suffix_end)?);
        Some(())
    }

    /// Moves to the next older version of the same user key. Requires `equal`.
    pub fn next_version(&mut self, block: &Block, user_target: &[u8]) -> Next {
        debug_assert!(self.equal);
        let at = self.entry.next;
        if at >= block.keys_end() {
            return Next::End;
        }
        let Some(entry) = block.entry(at, 0, false) else { return Next::Damaged };
        let user_len = entry.shared + entry.suffix_len - TRAILER_LEN;
        if user_len != user_target.len() {
            return Next::OtherKey;
        }
        let stored = if entry.shared >= user_len {
            extend_trailer(block.data(), self.trailer, &entry, user_len)
        } else {
            let suffix_end = entry.suffix_at + entry.suffix_len;
            let suffix = block.data().get(entry.suffix_at..suffix_end - TRAILER_LEN);
            if suffix != Some(&user_target[entry.shared..]) {
                return Next::OtherKey;
            }
            block.data().get(suffix_end - TRAILER_LEN..).and_then(<[u8]>::first_chunk).copied()
        };
        let Some(stored) = stored else { return Next::Damaged };
        (self.offset, self.entry, self.trailer) = (at, entry, stored);
        Next::SameKey
    }
}
