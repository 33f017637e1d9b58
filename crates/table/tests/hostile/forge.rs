//! Assembles tables from arbitrary blocks, with right checksums, as no builder would write them.
#![allow(dead_code)]

use std::collections::BTreeMap;

use pumice_base::ValueType;
use pumice_base::checksum::{ChecksumType, block_checksum};
use pumice_base::coding::{put_fixed32, put_varint32, put_varint64};
use pumice_base::key::internal_key;
use pumice_table::BlockHandle;
use pumice_table::footer::Footer;

/// A table under construction: format 5, XXH3, user keys and differences of handles in the index.
#[derive(Default)]
pub struct Forge {
    pub bytes: Vec<u8>,
    /// By name, as stored.
    pub properties: BTreeMap<Vec<u8>, Vec<u8>>,
    meta: BTreeMap<Vec<u8>, BlockHandle>,
}

/// An internal key of a value.
pub fn key(user: impl AsRef<[u8]>, sequence: u64) -> Vec<u8> {
    internal_key(user.as_ref(), sequence, ValueType::Value)
}

pub fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint64(&mut bytes, value);
    bytes
}

/// A block of these entries, each at a restart point.
pub fn entry_block<K: AsRef<[u8]>, V: AsRef<[u8]>>(entries: &[(K, V)]) -> Vec<u8> {
    let (mut block, mut restarts) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        let (key, value) = (key.as_ref(), value.as_ref());
        restarts.push(block.len() as u32);
        put_varint32(&mut block, 0);
        put_varint32(&mut block, key.len() as u32);
        put_varint32(&mut block, value.len() as u32);
        block.extend([key, value].concat());
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    restarts.iter().for_each(|at| put_fixed32(&mut block, *at));
    put_fixed32(&mut block, restarts.len() as u32);
    block
}

/// A block of `count` entries with one value whose keys grow: each is the previous one plus `step`
/// bytes `k`; only the first has the last eight bytes.
pub fn growing_block(first: &[u8], count: u32, step: u8, value: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for i in 0..count {
        let shared = if i == 0 { 0 } else { first.len() as u32 + (i - 1) * u32::from(step) };
        let suffix = if i == 0 { first.to_vec() } else { vec![b'k'; usize::from(step)] };
        put_varint32(&mut block, shared);
        put_varint32(&mut block, suffix.len() as u32);
        put_varint32(&mut block, value.len() as u32);
        block.extend([&suffix, value].concat());
    }
    put_fixed32(&mut block, 0);
    put_fixed32(&mut block, 1);
    block
}

/// An index block: user keys and whole handles.
pub fn index_block<K: AsRef<[u8]>>(entries: &[(K, BlockHandle)]) -> Vec<u8> {
    let (mut block, mut restarts) = (Vec::new(), Vec::new());
    for (key, handle) in entries {
        restarts.push(block.len() as u32);
        put_varint32(&mut block, 0);
        put_varint32(&mut block, key.as_ref().len() as u32);
        block.extend_from_slice(key.as_ref());
        handle.encode_to(&mut block);
    }
    restarts.iter().for_each(|at| put_fixed32(&mut block, *at));
    put_fixed32(&mut block, restarts.len() as u32);
    block
}

impl Forge {
    pub fn new() -> Forge {
        let mut forge = Forge::default();
        forge.set("rocksdb.index.key.is.user.key", varint(1));
        forge.set("rocksdb.index.value.is.delta.encoded", varint(1));
        forge.set("rocksdb.comparator", "leveldb.BytewiseComparator");
        forge.set("rocksdb.num.entries", varint(1));
        forge
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.properties.insert(name.as_bytes().to_vec(), value.as_ref().to_vec());
    }

    /// Appends a block that is not compressed.
    pub fn block(&mut self, contents: &[u8]) -> BlockHandle {
        self.packed(0, contents)
    }

    /// Appends a block as it is stored, of compression type `kind`.
    pub fn packed(&mut self, kind: u8, stored: &[u8]) -> BlockHandle {
        let handle = BlockHandle::new(self.bytes.len() as u64, stored.len() as u64);
        self.bytes.extend_from_slice(stored);
        self.bytes.push(kind);
        let sum = block_checksum(ChecksumType::Xxh3, stored, kind);
        put_fixed32(&mut self.bytes, sum);
        handle
    }

    /// Names a block in the metaindex.
    pub fn name(&mut self, name: &str, handle: BlockHandle) {
        self.meta.insert(name.as_bytes().to_vec(), handle);
    }

    /// Appends properties, metaindex and footer.
    pub fn finish(mut self, index: BlockHandle) -> Vec<u8> {
        let properties: Vec<_> = self.properties.clone().into_iter().collect();
        let properties = self.block(&entry_block(&properties));
        self.name("rocksdb.properties", properties);
        self.close(index)
    }

    /// As `finish`, without a properties block.
    pub fn close(mut self, index: BlockHandle) -> Vec<u8> {
        let encode = |handle: &BlockHandle| {
            let mut value = Vec::new();
            handle.encode_to(&mut value);
            value
        };
        let meta: Vec<_> = self.meta.iter().map(|(name, h)| (name.clone(), encode(h))).collect();
        let metaindex = self.block(&entry_block(&meta));
        self.foot(index, metaindex)
    }

    /// Appends the footer.
    pub fn foot(mut self, index: BlockHandle, metaindex: BlockHandle) -> Vec<u8> {
        let footer = Footer {
            checksum: ChecksumType::Xxh3,
            format_version: 5,
            base_context: 0,
            metaindex,
            index: Some(index),
        };
        let bytes = footer.encode(self.bytes.len() as u64);
        self.bytes.extend_from_slice(&bytes);
        self.bytes
    }
}

/// A table of one data block.
pub fn one_block(contents: &[u8]) -> Vec<u8> {
    let mut forge = Forge::new();
    let data = forge.block(contents);
    let index = forge.block(&index_block(&[(vec![0xff; 3], data)]));
    forge.finish(index)
}
