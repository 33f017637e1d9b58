//! The layout of a well-formed table: its blocks, and in them the fields that a reader trusts or
//! must not trust. Also recomputes the checksums of changed blocks and footers.
//!
//! A separate parser, for well-formed bytes only: it panics on others.

use std::collections::BTreeMap;

use pumice_base::checksum::{block_checksum, context_checksum};
use pumice_base::coding::{Decoder, get_fixed32, get_varint64};
use pumice_compress::{CompressionType, Decompressor, Dictionary};
use pumice_table::footer::{FOOTER_LEN, Footer};
use pumice_table::{BLOCK_TRAILER_LEN, BlockHandle, BlockKind, IndexType};

use crate::forge::entry_block;
use crate::kinds::Honest;
use crate::support;

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Varint,
    Fixed32,
    Bytes,
}

/// A part of the file.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub at: usize,
    pub len: usize,
    pub form: Form,
}

/// A block.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub kind: BlockKind,
    pub handle: BlockHandle,
}

impl Place {
    /// The part's bytes in the file, without the trailer.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.handle.offset as usize..(self.handle.offset + self.handle.size) as usize
    }
}

/// Names and values as they are stored, in the order of the names.
pub type Properties = BTreeMap<Vec<u8>, Vec<u8>>;

/// The parts of a well-formed table.
#[derive(Clone)]
pub struct Anatomy {
    pub properties: Properties,
    /// The metaindex: names and encoded handles.
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
    pub footer: Footer,
    pub places: Vec<Place>,
    pub delta_handles: bool,
    pub first_keys: bool,
}

/// An entry of a block: its parts by offset in the block.
struct Entry {
    fields: Vec<Field>,
    key: Vec<u8>,
    value: std::ops::Range<usize>,
}

impl Anatomy {
    pub fn of(honest: &Honest) -> Anatomy {
        let bytes = &honest.bytes;
        let footer_at = bytes.len() - FOOTER_LEN;
        let footer = Footer::decode(&bytes[footer_at..], footer_at as u64, "honest").unwrap();
        let table = support::open(honest.read.clone(), bytes).unwrap();
        let properties = table.properties();
        let index_type = properties.index_type().unwrap();
        let mut anatomy = Anatomy {
            properties: Properties::new(),
            meta: BTreeMap::new(),
            footer,
            places: vec![Place { kind: BlockKind::MetaIndex, handle: footer.metaindex }],
            delta_handles: properties.index_value_is_delta_encoded != 0,
            first_keys: index_type == IndexType::BinarySearchWithFirstKey,
        };
        let meta = contents(bytes, &anatomy.places[0]);
        let mut index = footer.index;
        for entry in entries(&meta) {
            anatomy.meta.insert(entry.key.clone(), meta[entry.value.clone()].to_vec());
            let name = String::from_utf8(entry.key).unwrap();
            let handle = BlockHandle::decode(&mut Decoder::new(&meta[entry.value])).unwrap();
            match name.as_str() {
                "rocksdb.index" => index = Some(handle),
                "rocksdb.properties" => {
                    anatomy.add(BlockKind::Properties, handle);
                    anatomy.properties = properties_of(bytes, handle);
                }
                "rocksdb.range_del" => anatomy.add(BlockKind::RangeDeletion, handle),
                "rocksdb.compression_dict" => anatomy.add(BlockKind::Dictionary, handle),
                name if name.starts_with("fullfilter") => anatomy.add(BlockKind::Filter, handle),
                name if name.starts_with("partitionedfilter") => {
                    anatomy.add_under(bytes, (BlockKind::FilterIndex, handle), BlockKind::Filter);
                }
                _ => {}
            }
        }
        let top = (BlockKind::Index, index.unwrap());
        if index_type == IndexType::TwoLevel {
            let from = anatomy.places.len();
            anatomy.add_under(bytes, top, BlockKind::Index);
            for partition in from + 1..anatomy.places.len() {
                anatomy.add_leaves(bytes, partition, BlockKind::Data);
            }
        } else {
            anatomy.add_under(bytes, top, BlockKind::Data);
        }
        anatomy
    }

    fn add(&mut self, kind: BlockKind, handle: BlockHandle) {
        self.places.push(Place { kind, handle });
    }

    /// Adds an index block and the blocks that it points to.
    fn add_under(&mut self, bytes: &[u8], top: (BlockKind, BlockHandle), below: BlockKind) {
        self.add(top.0, top.1);
        self.add_leaves(bytes, self.places.len() - 1, below);
    }

    fn add_leaves(&mut self, bytes: &[u8], number: usize, kind: BlockKind) {
        let place = self.places[number];
        let contents = contents(bytes, &place);
        for (_, handle) in self.index_entries(&contents, place.kind) {
            self.add(kind, handle);
        }
    }

    /// Fields and handles of an index block.
    fn index_entries(&self, block: &[u8], kind: BlockKind) -> Vec<(Vec<Field>, BlockHandle)> {
        let end = entries_end(block);
        let (mut at, mut list) = (0, Vec::new());
        let mut last = BlockHandle::default();
        while at < end {
            let mut fields = Vec::new();
            let mut varint = |at: &mut usize| {
                let (value, len) = get_varint64(&block[*at..]).unwrap();
                fields.push(Field { at: *at, len, form: Form::Varint });
                *at += len;
                value
            };
            let (shared, suffix) = (varint(&mut at), varint(&mut at));
            if !self.delta_handles {
                varint(&mut at);
            }
            let key_at = at;
            at += suffix as usize;
            let handle = if self.delta_handles && shared > 0 {
                let delta = varint(&mut at);
                let delta = (delta >> 1) as i64 ^ -((delta & 1) as i64);
                BlockHandle::new(last.end().unwrap(), last.size.wrapping_add_signed(delta))
            } else {
                BlockHandle::new(varint(&mut at), varint(&mut at))
            };
            if self.first_keys && kind == BlockKind::Index {
                let first = varint(&mut at) as usize;
                at += first;
            }
            fields.push(Field { at: key_at, len: suffix as usize, form: Form::Bytes });
            list.push((fields, handle));
            last = handle;
        }
        list
    }

    /// The fields of a block, by offset in the file.
    pub fn fields(&self, bytes: &[u8], place: &Place) -> Vec<Field> {
        let block = &bytes[place.range()];
        let mut fields = Vec::new();
        if bytes[place.range().end] != 0 {
            // The stored size, then the stream.
            fields.extend((0..4).map(|at| Field { at, len: 1, form: Form::Bytes }));
            let size = get_varint64(block).unwrap().1;
            fields.push(Field { at: 0, len: size, form: Form::Varint });
            fields.push(Field { at: size, len: block.len() - size, form: Form::Bytes });
        } else {
            match place.kind {
                BlockKind::Filter | BlockKind::Dictionary => {
                    let metadata = block.len().saturating_sub(5);
                    fields.extend((metadata..block.len()).map(one_byte));
                    fields.push(Field { at: 0, len: metadata, form: Form::Bytes });
                }
                BlockKind::Index | BlockKind::FilterIndex => {
                    let entries = self.index_entries(block, place.kind);
                    fields.extend(entries.into_iter().flat_map(|(fields, _)| fields));
                    fields.extend(words(entries_end(block), block.len()));
                }
                _ => {
                    fields.extend(entries(block).into_iter().flat_map(|entry| entry.fields));
                    let end = block.len() - 4;
                    fields.extend(words(restarts_at(block).0, restarts_at(block).1));
                    fields.extend((restarts_at(block).1..end).map(one_byte));
                    fields.extend(words(end, block.len()));
                }
            }
        }
        let base = place.handle.offset as usize;
        fields.iter_mut().for_each(|field| field.at += base);
        fields.push(one_byte(place.range().end));
        fields.retain(|field| field.len > 0);
        fields
    }

    /// Makes the checksum of a block right.
    pub fn seal(&self, bytes: &mut [u8], place: &Place) {
        let end = place.range().end;
        let context = context_checksum(self.footer.base_context, place.handle.offset);
        let sum = block_checksum(self.footer.checksum, &bytes[place.range()], bytes[end]);
        let sum = sum.wrapping_add(context).to_le_bytes();
        bytes[end + 1..end + BLOCK_TRAILER_LEN].copy_from_slice(&sum);
    }

    /// The table with these properties instead: they, a metaindex and a footer come after the
    /// blocks that are there.
    pub fn with_properties(&self, honest: &[u8], properties: &Properties) -> Vec<u8> {
        let mut bytes = honest[..honest.len() - FOOTER_LEN].to_vec();
        let handle = self.append(&mut bytes, BlockKind::Properties, properties);
        let mut meta = self.meta.clone();
        let mut value = Vec::new();
        handle.encode_to(&mut value);
        meta.insert(b"rocksdb.properties".to_vec(), value);
        let metaindex = self.append(&mut bytes, BlockKind::MetaIndex, &meta);
        let footer = Footer { metaindex, ..self.footer }.encode(bytes.len() as u64);
        bytes.extend_from_slice(&footer);
        bytes
    }

    /// Appends a block of these entries with its checksum.
    fn append(&self, bytes: &mut Vec<u8>, kind: BlockKind, entries: &Properties) -> BlockHandle {
        let entries: Vec<_> = entries.iter().collect();
        let block = entry_block(&entries);
        let handle = BlockHandle::new(bytes.len() as u64, block.len() as u64);
        bytes.extend_from_slice(&block);
        bytes.extend([0; BLOCK_TRAILER_LEN]);
        self.seal(bytes, &Place { kind, handle });
        handle
    }

    /// Makes the checksum of the footer right.
    pub fn seal_footer(&self, bytes: &mut [u8]) {
        if self.footer.format_version < 6 {
            return;
        }
        let at = bytes.len() - FOOTER_LEN;
        let footer = &mut bytes[at..];
        footer[5..9].fill(0);
        let context = get_fixed32(&footer[9..]).unwrap();
        let (body, last) = (&footer[..FOOTER_LEN - 1], footer[FOOTER_LEN - 1]);
        let sum = block_checksum(self.footer.checksum, body, last)
            .wrapping_add(context_checksum(context, at as u64));
        footer[5..9].copy_from_slice(&sum.to_le_bytes());
    }
}

fn properties_of(bytes: &[u8], handle: BlockHandle) -> Properties {
    let block = contents(bytes, &Place { kind: BlockKind::Properties, handle });
    let pair = |entry: Entry| (entry.key, block[entry.value].to_vec());
    entries(&block).into_iter().map(pair).collect()
}

fn one_byte(at: usize) -> Field {
    Field { at, len: 1, form: Form::Bytes }
}

fn words(from: usize, to: usize) -> impl Iterator<Item = Field> {
    (from..to).step_by(4).map(|at| Field { at, len: 4, form: Form::Fixed32 })
}

/// The uncompressed contents of a block that uses no dictionary.
fn contents(bytes: &[u8], place: &Place) -> Vec<u8> {
    let kind = CompressionType::from_u8(bytes[place.range().end]).unwrap();
    let mut out = Vec::new();
    let none: Option<&Dictionary> = None;
    let stored = &bytes[place.range()];
    Decompressor::new().decompress_with(kind, stored, none, &mut out, 1 << 20).unwrap();
    out
}

fn entries_end(block: &[u8]) -> usize {
    let packed = get_fixed32(&block[block.len() - 4..]).unwrap() & ((1 << 28) - 1);
    block.len() - 4 - 4 * packed as usize
}

/// Where the restart points of a block of entries begin and end.
fn restarts_at(block: &[u8]) -> (usize, usize) {
    let packed = get_fixed32(&block[block.len() - 4..]).unwrap();
    let mut end = block.len() - 4;
    if packed >> 31 == 1 {
        end -= 2 + usize::from(block[end - 2]) + 256 * usize::from(block[end - 1]);
    }
    (end - 4 * (packed & ((1 << 28) - 1)) as usize, end)
}

fn entries(block: &[u8]) -> Vec<Entry> {
    let (mut at, end) = (0, restarts_at(block).0);
    let (mut list, mut key) = (Vec::new(), Vec::new());
    while at < end {
        let mut fields = Vec::new();
        let mut varint = || {
            let (value, len) = get_varint64(&block[at..]).unwrap();
            fields.push(Field { at, len, form: Form::Varint });
            at += len;
            value as usize
        };
        let (shared, suffix, value) = (varint(), varint(), varint());
        key.truncate(shared);
        key.extend_from_slice(&block[at..at + suffix]);
        fields.push(Field { at, len: suffix, form: Form::Bytes });
        at += suffix;
        // The meaning of numbers in values, those of properties and handles.
        if let Some((_, len)) = get_varint64(&block[at..at + value]) {
            fields.push(Field { at, len, form: Form::Varint });
        }
        fields.push(Field { at, len: value, form: Form::Bytes });
        list.push(Entry { fields, key: key.clone(), value: at..at + value });
        at += value;
    }
    list
}
