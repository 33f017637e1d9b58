//! The compressed secondary cache: a second place for what a cache evicts.
//!
//! Contract of RocksDB's `CompressedSecondaryCache`. A block that its cache evicts is offered here.
//! The first time only a *dummy* is put under its key; if it is evicted again while that is there,
//! its bytes are kept, compressed if that makes them smaller. A lookup that finds bytes hands out
//! a copy; with `advise_erase`, when the block goes back into the cache, they are erased and a
//! dummy takes their place.
//!
//! ```text
//! saved: u64 checksum ‖ u8 kind ‖ u8 compression type ‖ payload
//! ```
//!
//! Every entry is charged with its bytes and its slot, so that dummies count too. RocksDB keeps
//! the entries in the order of their use, in shards; here they are in a table of the crate's own,
//! which has a clock and no shards.
//!
//! Invariants: (1) `usage` exceeds the capacity only while an insertion makes room for itself;
//! (2) bytes are handed out only if their checksum matches, which covers key and kind: bits that
//! flip in memory make an entry a missing one, never other contents.
//!
//! Costs: each task at work here has a codec's context, which is kept and not charged.
//!
//! Thread safety: all methods from any thread. A lock guards the list of idle contexts, for as long
//! as it takes to push or pop one. Not here: what a block is, and which lookups come here.

use std::sync::Arc;

use pumice_base::hash::hash64_seeded;
use pumice_base::{Error, Result};
use pumice_compress::{CompressionOptions, CompressionType, Compressor, Decompressor};
use pumice_port::sync::Mutex;

use super::tiered::{self, TieredAdmissionPolicy};
use super::{Cache, CacheOptions};
use crate::hash_table::EvictionHandler;
use crate::key::{CacheKey, Priority};
use crate::slot::Slot;

/// Mean charge of an entry, which limits the number of slots: many are dummies.
const ESTIMATED_ENTRY_CHARGE: usize = 512;
/// What each entry is charged besides its bytes.
const SLOT_BYTES: usize = size_of::<Slot<Saved>>();
/// Bytes before the payload: checksum, kind, compression type.
const HEAD_BYTES: usize = 10;
/// Buffers above this are not kept.
const KEPT_BUFFER_BYTES: usize = 1 << 20;
/// No block is larger.
const BLOCK_BYTES_MAX: usize = u32::MAX as usize;

/// How a compressed secondary cache is made: RocksDB's options of the name, as far as they matter
/// here.
///
/// ```
/// # use pumice_cache::CompressedSecondaryCacheOptions;
/// let options = CompressedSecondaryCacheOptions::new(32 << 20);
/// assert_eq!(options.compression_opts.max_compressed_bytes_per_kb, 1024);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CompressedSecondaryCacheOptions {
    /// Limit of the total charge of entries, bytes; 0: nothing is kept.
    pub capacity: usize,
    /// How blocks are compressed, LZ4 by default. Filters never are.
    pub compression_type: CompressionType,
    /// The codec's options. Bytes that compress to more than `max_compressed_bytes_per_kb` allows
    /// are kept as they are; the default here is any saving.
    pub compression_opts: CompressionOptions,
}

impl CompressedSecondaryCacheOptions {
    /// A cache of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        let compression_opts =
            CompressionOptions { max_compressed_bytes_per_kb: 1024, ..Default::default() };
        let compression_type = CompressionType::Lz4;
        CompressedSecondaryCacheOptions { capacity, compression_type, compression_opts }
    }
}

/// Bytes in the form of the head; none: a dummy.
struct Saved(Option<Box<[u8]>>);

/// What a task needs to compress and decompress.
struct Codec {
    compressor: Compressor,
    decompressor: Decompressor,
    buffer: Vec<u8>,
}

impl Codec {
    fn new(options: &CompressedSecondaryCacheOptions) -> Result<Self> {
        Ok(Codec {
            compressor: Compressor::new(options.compression_type, &options.compression_opts)?,
            decompressor: Decompressor::new(),
            buffer: Vec::new(),
        })
    }
}

/// What a lookup in a secondary cache found.
#[derive(Debug, PartialEq, Eq)]
pub enum SecondaryLookup<T> {
    /// The bytes, or what is made of them.
    Found(T),
    /// A dummy: the block was evicted once, or went back into the cache.
    Dummy,
    /// Nothing.
    Missing,
}

/// See the head of the module. Belongs to a cache: [`Cache::with_secondary`].
///
/// ```
/// # use pumice_cache::{
/// #     CacheKey, CompressedSecondaryCache, CompressedSecondaryCacheOptions, SecondaryLookup,
/// # };
/// # use pumice_compress::CompressionType;
/// let options = CompressedSecondaryCacheOptions {
///     compression_type: CompressionType::Snappy,
///     ..CompressedSecondaryCacheOptions::new(1 << 20)
/// };
/// let cache = CompressedSecondaryCache::new(&options)?;
/// let key = CacheKey(1, 2);
/// // The first eviction of a block leaves a dummy, the second one its bytes.
/// assert!(cache.is_first(&key) && !cache.is_first(&key));
/// cache.insert(&key, 0, &[7; 4000], true)?;
/// assert!(cache.usage() < 1000);
/// assert_eq!(cache.lookup(&key, 0, false), SecondaryLookup::Found(vec![7; 4000]));
/// # Ok::<(), pumice_base::Error>(())
/// ```
pub struct CompressedSecondaryCache {
    options: CompressedSecondaryCacheOptions,
    entries: Arc<Cache<Saved>>,
    idle: Mutex<Vec<Codec>>,
}

impl CompressedSecondaryCache {
    /// An empty one.
    ///
    /// # Errors
    /// The codec cannot be used: as [`Compressor::new`].
    pub fn new(options: &CompressedSecondaryCacheOptions) -> Result<Self> {
        let sizes = CacheOptions {
            estimated_entry_charge: ESTIMATED_ENTRY_CHARGE,
            // What does not fit is dropped.
            strict_capacity_limit: true,
            ..CacheOptions::new(options.capacity)
        };
        Ok(CompressedSecondaryCache {
            entries: Cache::new(sizes),
            idle: Mutex::new(vec![Codec::new(options)?]),
            options: options.clone(),
        })
    }

    /// A block is evicted that might be kept: true if only a dummy was put, because there was
    /// nothing under its key. False: the caller should go on with [`Self::insert`].
    pub fn is_first(&self, key: &CacheKey) -> bool {
        if self.entries.lookup(key).is_some() {
            return false;
        }
        self.put(key, Saved(None), SLOT_BYTES);
        true
    }

    /// Keeps `contents`, compressed if `compress` is set and it helps. Returns their bytes after
    /// compression if that was tried.
    ///
    /// # Errors
    /// The codec fails; nothing is kept.
    pub fn insert(
        &self,
        key: &CacheKey,
        kind: u8,
        contents: &[u8],
        compress: bool,
    ) -> Result<Option<usize>> {
        let tried = compress && self.options.compression_type != CompressionType::None;
        let saved: Box<[u8]> = self.with_codec(|codec| {
            let buffer = &mut codec.buffer;
            buffer.clear();
            buffer.resize(HEAD_BYTES, 0);
            let smaller = tried && codec.compressor.compress(contents, buffer)?;
            if !smaller {
                buffer.extend_from_slice(contents);
            }
            let used = if smaller { codec.compressor.kind() } else { CompressionType::None };
            buffer[8..HEAD_BYTES].copy_from_slice(&[kind, used as u8]);
            let sum = checksum(key, &buffer[8..]).to_le_bytes();
            buffer[..8].copy_from_slice(&sum);
            Ok::<_, Error>(buffer.as_slice().into())
        })?;
        let bytes = saved.len();
        self.put(key, Saved(Some(saved)), SLOT_BYTES + bytes);
        Ok(tried.then_some(bytes - HEAD_BYTES))
    }

    /// What is kept under `key`, of this kind. With `advise_erase` found bytes are erased, and a
    /// dummy takes their place.
    pub fn lookup(&self, key: &CacheKey, kind: u8, advise_erase: bool) -> SecondaryLookup<Vec<u8>> {
        let Some(found) = self.entries.lookup(key) else { return SecondaryLookup::Missing };
        let Some(saved) = &found.0 else { return SecondaryLookup::Dummy };
        let contents = self.open(key, kind, saved);
        drop(found);
        let Some(contents) = contents else {
            self.entries.erase(key);
            return SecondaryLookup::Missing;
        };
        if advise_erase {
            self.put(key, Saved(None), SLOT_BYTES);
        }
        SecondaryLookup::Found(contents)
    }

    /// Forgets all of `key`.
    pub fn erase(&self, key: &CacheKey) {
        self.entries.erase(key);
    }

    /// Sum of the charges of all entries, bytes.
    pub fn usage(&self) -> usize {
        self.entries.usage()
    }
    /// The limit of `usage`, bytes.
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }
    /// Changes the limit and evicts down to it.
    pub fn set_capacity(&self, capacity: usize) {
        self.entries.set_capacity(capacity);
    }
    /// Reserves `wanted` bytes in place of `now`: nothing is kept in them.
    pub(super) fn reserve(&self, now: &mut usize, wanted: usize) {
        tiered::reserve(self.entries.table(), now, wanted);
    }
    /// Number of entries, dummies included.
    pub fn occupancy(&self) -> usize {
        self.entries.occupancy()
    }

    /// Puts an entry in the place of any other; one that does not fit is dropped.
    fn put(&self, key: &CacheKey, saved: Saved, charge: usize) {
        if self.entries.insert(*key, saved, charge, Priority::Low).is_err() {
            self.entries.erase(key);
        }
    }

    /// The contents of what is kept under `key`, if it is intact and of this kind.
    fn open(&self, key: &CacheKey, kind: u8, saved: &[u8]) -> Option<Vec<u8>> {
        let (sum, rest) = saved.split_first_chunk()?;
        let ([found_kind, used], payload) = rest.split_first_chunk()?;
        if *found_kind != kind || u64::from_le_bytes(*sum) != checksum(key, rest) {
            return None;
        }
        let used = CompressionType::from_u8(*used)?;
        let mut contents = Vec::new();
        self.with_codec(|codec| {
            codec.decompressor.decompress(used, payload, &mut contents, BLOCK_BYTES_MAX)
        })
        .ok()?;
        Some(contents)
    }

    fn with_codec<R>(&self, f: impl FnOnce(&mut Codec) -> Result<R>) -> Result<R> {
        let idle = self.idle.lock().pop();
        let mut codec = match idle {
            Some(codec) => codec,
            None => Codec::new(&self.options)?,
        };
        let done = f(&mut codec);
        if codec.buffer.capacity() > KEPT_BUFFER_BYTES {
            codec.buffer = Vec::new();
        }
        self.idle.lock().push(codec);
        done
    }
}

/// Of the bytes after it.
fn checksum(key: &CacheKey, bytes: &[u8]) -> u64 {
    hash64_seeded(bytes, key.hash())
}

/// What the entries of a cache must do to go to a secondary cache.
pub trait Spill {
    /// The clock evicts the value: offers it to `secondary`, which takes it the first time if
    /// `at_once` is set.
    fn spill(&self, key: &CacheKey, secondary: &CompressedSecondaryCache, at_once: bool);
}

/// The secondary cache of a cache of `V`s.
pub(crate) struct Spilling<V> {
    cache: Arc<CompressedSecondaryCache>,
    spill: fn(&V, &CacheKey, &CompressedSecondaryCache, bool),
    policy: TieredAdmissionPolicy,
}

impl<V: Spill> Spilling<V> {
    pub(super) fn new(cache: Arc<CompressedSecondaryCache>, policy: TieredAdmissionPolicy) -> Self {
        Spilling { cache, spill: V::spill, policy }
    }
}

impl<V> EvictionHandler<V> for Spilling<V> {
    fn evicted(&self, key: &CacheKey, value: &V, was_hit: bool) {
        (self.spill)(value, key, &self.cache, self.policy.takes_at_once(was_hit));
    }
}

#[cfg(all(test, feature = "lz4", feature = "zstd"))]
mod tests;
