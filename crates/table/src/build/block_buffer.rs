//! Blocks in one vector, one after another, the last of them under construction.
//!
//! ```text
//! | finished blocks with their trailers | block under construction | room |
//! 0                                     start                      len    bytes.len()
//! ```
//!
//! A block that is stored as it is never moves: it is built, hashed and written from the same
//! place, and the vector goes to the file when it is long enough ([`BUFFER_BYTES_MAX`]). Blocks
//! that are compressed leave the vector one at a time ([`BlockBuffer::take_block`]), so it holds no
//! finished ones.
//!
//! One owner. Invariants: (1) `start <= len <= bytes.len()`; (2) the room is initialised, so that
//! an entry is copied into a slice of known length; its contents are arbitrary.

use crate::build::pipeline::worker::release_large;
use crate::handle::BLOCK_TRAILER_LEN;

/// Finished blocks are written when they have more bytes than this, or than the writer's buffer:
/// more than the writer would copy, and few enough to stay in the second-level cache until then.
pub(crate) const BUFFER_BYTES_MAX: usize = 128 << 10;

/// The first allocation, and the growth factor of the next one.
const ROOM_MIN: usize = 8 << 10;
const ROOM_GROWTH: usize = 4;
/// Room beyond this grows only by half: it is for a block of unusual size.
const USUAL_ROOM_MAX: usize = 1 << 20;
/// Extra room besides the requested: the rest of the block after a large entry, and the trailer,
/// must not cause another move.
const ROOM_AFTER: usize = 4 << 10;
/// The next allocation if finished blocks stay: enough for as many usual blocks as are written
/// together.
const BUFFER_ROOM: usize = BUFFER_BYTES_MAX + (32 << 10);

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct BlockBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl BlockBuffer {
    /// Bytes of the block under construction.
    #[inline]
    pub fn block_len(&self) -> usize {
        self.len - self.start
    }

    /// The block under construction.
    #[inline]
    pub fn block(&self) -> &[u8] {
        &self.bytes[self.start..self.len]
    }

    /// Where the block under construction begins, and where it ends so far.
    #[inline]
    pub fn bounds(&self) -> (usize, usize) {
        (self.start, self.len)
    }

    /// Where the room ends.
    #[inline]
    pub fn room_end(&self) -> usize {
        self.bytes.len()
    }

    /// Makes the first `count` bytes of the room part of the block, to be filled.
    ///
    /// # Panics
    /// If there is less room.
    #[inline(always)]
    pub fn extend_in_room(&mut self, count: usize) -> &mut [u8] {
        let start = self.len;
        self.len += count;
        &mut self.bytes[start..self.len]
    }

    /// Makes room for `bytes` more bytes.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        if self.bytes.len() - self.len < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let next = match self.bytes.len() {
            now if self.start > 0 && now < BUFFER_ROOM => BUFFER_ROOM,
            now if now < USUAL_ROOM_MAX => (ROOM_GROWTH * now).max(ROOM_MIN),
            now => now + now / 2,
        };
        let needed = self.len + bytes;
        // The room left by a block that was taken has room for most of the next ones.
        if needed <= self.bytes.capacity() {
            self.bytes.resize(self.bytes.capacity().min(needed + ROOM_AFTER), 0);
            return;
        }
        // An entry larger than the next allocation is most likely alone in its block.
        let wanted = if needed > next { needed + ROOM_AFTER } else { next };
        // Zeros from the allocator: room that is never used costs no page faults.
        let mut room = vec![0; wanted];
        room[..self.len].copy_from_slice(&self.bytes[..self.len]);
        self.bytes = room;
    }

    /// Changes the block with `change`, which gets the whole vector and where the block begins, and
    /// touches nothing before it.
    pub fn change_block<R>(&mut self, change: impl FnOnce(&mut Vec<u8>, usize) -> R) -> R {
        self.bytes.truncate(self.len);
        let result = change(&mut self.bytes, self.start);
        self.len = self.bytes.len();
        result
    }

    /// The vector, which holds the one block and nothing else, to be changed or exchanged. The next
    /// block begins at its start. Requires that no finished block is kept.
    pub fn take_block(&mut self) -> &mut Vec<u8> {
        debug_assert_eq!(self.start, 0, "blocks that are compressed do not stay");
        self.bytes.truncate(self.len);
        self.len = 0;
        &mut self.bytes
    }

    /// The block is finished and stays; `zeros` follow its trailer. The next one begins after it.
    pub fn keep_block(&mut self, trailer: &[u8; BLOCK_TRAILER_LEN], zeros: usize) {
        self.reserve(BLOCK_TRAILER_LEN + zeros);
        self.extend_in_room(BLOCK_TRAILER_LEN).copy_from_slice(trailer);
        if zeros > 0 {
            self.extend_in_room(zeros).fill(0);
        }
        self.start = self.len;
    }

    /// The finished blocks.
    pub fn finished(&self) -> &[u8] {
        &self.bytes[..self.start]
    }

    /// Takes the finished blocks away; the block under construction moves to the front.
    pub fn drop_finished(&mut self) {
        self.bytes.copy_within(self.start..self.len, 0);
        (self.start, self.len) = (0, self.block_len());
    }

    /// Clears everything, and frees the room if it was for a block of unusual size.
    pub fn clear(&mut self) {
        (self.start, self.len) = (0, 0);
        release_large(&mut self.bytes);
    }

    /// The block under construction is empty again.
    pub fn restart_block(&mut self) {
        self.len = self.start;
    }
}
