//! Chooses the codec of each block where a compression manager, or the option `auto_skip`, says
//! that it is not always the same.
//!
//! | rule | blocks |
//! |---|---|
//! | rotation | get the codecs in turn, index blocks too |
//! | rejections | are not tried while most of the last ten tries were rejected; one in ten is |
//! | ratio | are not tried while tries do not get small enough on average; one of so many is |
//!
//! RocksDB counts the rejections in each thread. Here the emitter chooses, from blocks at least
//! [`LAG`] back, whose stored size is known by then whatever the pipeline, and draws from the
//! origin of the file. So the bytes of a table do not depend on who compresses, and at least the
//! first [`LAG`] data blocks are tried. Index blocks are always tried.
//!
//! One owner, the emitter. Invariants: (1) block `i` is in the window while `i >= blocks - LAG`;
//! (2) what became of it is noted before it leaves the window.

use pumice_base::narrow::to_usize;
use pumice_base::random::Rng;
use pumice_compress::{AUTO_SKIP_SAMPLE_EVERY, CompressionManager, CompressionType};

use crate::build::context::TableBuildContext;
use crate::build::pipeline::worker::{Outcome, Packed};
use crate::build::setup;
use crate::build::sizes::LAG;

/// Chooses codecs.
pub(crate) struct Chooser {
    /// The codec of blocks outside of a rotation.
    kind: CompressionType,
    /// Codecs that blocks get in turn; empty without a rotation.
    rotation: Vec<CompressionType>,
    /// Data blocks are in the rotation.
    rotates_data: bool,
    turn: usize,
    skips: Option<Skips>,
}

impl Chooser {
    /// The chooser of a table whose blocks otherwise have codec `kind`; `None` if all have.
    pub fn new(context: &TableBuildContext, kind: CompressionType) -> Option<Box<Self>> {
        let options = &context.compression_opts;
        let manager = context.compression_manager;
        let rule = match manager {
            _ if kind == CompressionType::None => return None,
            Some(CompressionManager::AutoSkip) => {
                Some(Rule::Rejections(Rejections::new(u64::from(setup::base_context(context)))))
            }
            _ if options.auto_skip => {
                let every = options.auto_skip_min_sample_every;
                Some(Rule::Ratio(Ratio::new(options.max_compressed_bytes_per_kb, every)))
            }
            _ => None,
        };
        let rotation = manager.map_or_else(Vec::new, |manager| manager.rotation(options));
        if rule.is_none() && rotation.is_empty() {
            return None;
        }
        Some(Box::new(Chooser {
            kind,
            rotates_data: !rotation.is_empty(),
            // Tables of few blocks begin with different codecs.
            turn: to_usize(context.original_file_number) % rotation.len().max(1),
            rotation,
            skips: rule.map(Skips::new),
        }))
    }

    /// The codec of the next data block, of `raw` bytes; none stores it as it is.
    pub fn data_block(&mut self, raw: usize) -> CompressionType {
        if self.skips.as_mut().is_some_and(|skips| skips.next(raw as u64)) {
            return CompressionType::None;
        }
        if self.rotates_data { self.next_in_turn() } else { self.kind }
    }

    /// The codec of the next block that is not data.
    pub fn other_block(&mut self) -> CompressionType {
        if self.rotation.is_empty() { self.kind } else { self.next_in_turn() }
    }

    fn next_in_turn(&mut self) -> CompressionType {
        let kind = self.rotation[self.turn];
        self.turn = (self.turn + 1) % self.rotation.len();
        kind
    }

    /// Data blocks have a dictionary of the one codec.
    pub fn use_dictionary(&mut self) {
        self.rotates_data = false;
    }

    /// What became of the data block `back` blocks before the next one: 1 for the last; at most
    /// [`LAG`].
    pub fn note(&mut self, back: usize, packed: Packed) {
        if let Some(skips) = &mut self.skips {
            skips.note(back, packed);
        }
    }
}

/// A data block, and its size when it was tried: `raw` if it was rejected, 0 if it was not tried.
#[derive(Clone, Copy, Default)]
struct Tried {
    raw: u64,
    packed: u64,
}

/// Decides which data blocks are not tried.
struct Skips {
    rule: Rule,
    blocks: usize,
    /// The last blocks, at block number modulo `LAG`.
    window: [Tried; LAG],
}

enum Rule {
    Rejections(Rejections),
    Ratio(Ratio),
}

impl Skips {
    fn new(rule: Rule) -> Self {
        Skips { rule, blocks: 0, window: [Tried::default(); LAG] }
    }

    /// The next block, of `raw` bytes, is not to be tried.
    fn next(&mut self, raw: u64) -> bool {
        let at = self.blocks % LAG;
        let before = std::mem::replace(&mut self.window[at], Tried { raw, packed: 0 });
        self.blocks += 1;
        match &mut self.rule {
            Rule::Rejections(rule) => {
                if before.packed > 0 {
                    rule.learn(before.packed == before.raw);
                }
                rule.skips()
            }
            Rule::Ratio(rule) => {
                if before.packed > 0 {
                    rule.learn(before);
                }
                rule.skips()
            }
        }
    }

    fn note(&mut self, back: usize, packed: Packed) {
        let Some(number) = self.blocks.checked_sub(back) else { return };
        debug_assert!(back <= LAG, "outside the window");
        let block = &mut self.window[number % LAG];
        block.packed = match packed.outcome {
            Outcome::Bypassed => 0,
            Outcome::Rejected => block.raw,
            Outcome::Compressed => packed.bytes as u64,
        };
    }
}

/// Tries that are counted together.
const TRIES: u32 = 10;
/// Above this many rejections of them blocks are not tried.
const REJECTED_MAX: u32 = 5;
/// One in this many blocks is tried all the same.
const EXPLORED: u64 = 10;

/// RocksDB's manager: the share of tries that were rejected.
struct Rejections {
    tried: u32,
    rejected: u32,
    /// Of the last `TRIES` that are complete.
    last_rejected: u32,
    rng: Rng,
}

impl Rejections {
    fn new(seed: u64) -> Self {
        Rejections { tried: 0, rejected: 0, last_rejected: 0, rng: Rng::new(seed) }
    }

    fn learn(&mut self, rejected: bool) {
        self.tried += 1;
        self.rejected += u32::from(rejected);
        if self.tried == TRIES {
            self.last_rejected = self.rejected;
            (self.tried, self.rejected) = (0, 0);
        }
    }

    fn skips(&mut self) -> bool {
        self.last_rejected > REJECTED_MAX && !self.rng.one_in(EXPLORED)
    }
}

/// The weight of a try in the average is one in this many, and so many are needed for one.
const WEIGHT: u64 = 8;

/// The option `auto_skip`: how small tries got on average.
struct Ratio {
    /// Bytes of a block in each 1024 at which compression is worth it.
    per_kb: u64,
    /// A block is tried after so many that were not.
    every: u32,
    tries: u64,
    /// Sums over the tries, older ones with less and less weight.
    raw: u64,
    packed: u64,
    /// Blocks since the last one that was tried.
    skipped: u32,
}

impl Ratio {
    fn new(per_kb: i32, every: u32) -> Self {
        let every = if every == 0 { AUTO_SKIP_SAMPLE_EVERY } else { every };
        // As in RocksDB a block that does not get smaller never counts as worth it.
        let per_kb = u64::from(per_kb.clamp(0, 1023).unsigned_abs());
        Ratio { per_kb, every, tries: 0, raw: 0, packed: 0, skipped: 0 }
    }

    fn is_worth_it(&self, raw: u64, packed: u64) -> bool {
        packed << 10 <= raw * self.per_kb
    }

    /// The tries so far got small enough, or are too few to tell.
    fn pays(&self) -> bool {
        self.tries < WEIGHT || self.is_worth_it(self.raw, self.packed)
    }

    fn learn(&mut self, block: Tried) {
        if !self.pays() && self.is_worth_it(block.raw, block.packed) {
            // The data has changed.
            (self.tries, self.raw, self.packed) = (0, 0, 0);
        }
        self.tries += 1;
        self.raw = self.raw - self.raw / WEIGHT + block.raw;
        self.packed = self.packed - self.packed / WEIGHT + block.packed;
    }

    fn skips(&mut self) -> bool {
        if self.pays() || self.skipped >= self.every {
            self.skipped = 0;
            return false;
        }
        self.skipped += 1;
        true
    }
}

#[cfg(test)]
mod tests;
