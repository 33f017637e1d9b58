//! The texts that `sst_dump` prints about a table: properties and raw dump, byte for byte those of
//! RocksDB 7.8 as far as that version knows the table's features.
//!
//! Pure functions of an open table; nothing here is fast. Keys and values are printed as raw bytes,
//! so texts are byte strings. The text of a table is in memory as a whole, in proportion to its
//! blocks: overlapping data blocks, and crafted keys that grow, are Corruption.

use pumice_base::key::InternalKey;
use pumice_base::{Error, Result};

use crate::handle::{BlockHandle, BlockKind};
use crate::metaindex::{self, MetaIndex};
use crate::options::IndexType;
use crate::properties::{TableProperties, UNKNOWN_COLUMN_FAMILY, UNKNOWN_SEQNO};
use crate::read::block::{Expanded, GlobalSeqno};
use crate::read::cached_block::CachedBlock;
use crate::read::context::TableReadOptions;
use crate::read::cursor::BlockCursor;
use crate::read::file::BlockRead;
use crate::read::table::Table;
use crate::seqno_to_time_mapping::SeqnoToTimeMapping;
use crate::unique_id::external_unique_id;

const RULE: &str = "--------------------------------------\n";
const SHORT_RULE: &str = "------------------------------\n";

/// What `--show_properties` prints.
pub fn properties_text(properties: &TableProperties) -> String {
    let mut out = format!("Table Properties:\n{SHORT_RULE}  ");
    out.push_str(&indented(properties));
    out.push_str("Raw user collected properties\n");
    out.push_str(SHORT_RULE);
    for (name, value) in collected(properties) {
        out.push_str(&format!("  # {}: 0x{}\n", String::from_utf8_lossy(&name), hex(&value)));
    }
    out
}

/// One `name: value` line per property, each followed by the indent of the next.
fn indented(properties: &TableProperties) -> String {
    let line = |(name, value): (String, String)| format!("{name}: {value}\n  ");
    property_texts(properties).into_iter().map(line).collect()
}

/// The properties as ldb's `dump --path` prints them: a line `name=value` each.
pub fn property_lines(properties: &TableProperties) -> String {
    let line = |(name, value): (String, String)| format!("{name}={value}\n");
    property_texts(properties).into_iter().map(line).collect()
}

/// What `--show_properties` prints in addition to what RocksDB 7.8 knows: the range of sequence
/// numbers, where it is recorded, and where the meta blocks begin. Names are Pumice's.
pub fn newer_properties_text(p: &TableProperties) -> String {
    let mut out = String::new();
    if p.key_smallest_seqno != UNKNOWN_SEQNO {
        out.push_str(&format!("  smallest sequence number: {}\n", p.key_smallest_seqno));
    }
    if p.key_largest_seqno != UNKNOWN_SEQNO {
        out.push_str(&format!("  largest sequence number: {}\n", p.key_largest_seqno));
    }
    if p.tail_start_offset > 0 {
        out.push_str(&format!("  tail start offset: {}\n", p.tail_start_offset));
    }
    out
}

/// What `--list_meta_blocks` prints: name, offset and size of each.
///
/// # Errors
/// Corruption and I/O errors of the metaindex.
pub fn meta_blocks_text(table: &Table) -> Result<String> {
    let mut out = format!("Meta Blocks:\n{SHORT_RULE}");
    for (name, handle) in meta_blocks(table)? {
        out.push_str(&format!("  {name}: {} {}\n", handle.offset, handle.size));
    }
    Ok(out)
}

fn meta_blocks(table: &Table) -> Result<Vec<(String, BlockHandle)>> {
    let handle = table.footer.metaindex;
    let contents = table.file.read(handle, BlockKind::MetaIndex, BlockRead::ONCE)?;
    MetaIndex::decode_all(contents)
        .map_err(|what| table.file.bad_block(handle, BlockKind::MetaIndex, what))
}

/// Collected properties, with the two counters that RocksDB counts among them.
pub fn collected(properties: &TableProperties) -> Vec<(Vec<u8>, Vec<u8>)> {
    const COUNTERS: [&[u8]; 2] = [b"rocksdb.deleted.keys", b"rocksdb.merge.operands"];
    properties
        .encode()
        .into_iter()
        .filter(|(name, _)| {
            properties.user_collected.contains_key(name) || COUNTERS.contains(&name.as_slice())
        })
        .collect()
}

/// Names and values of the properties, in the order in which they are printed.
fn property_texts(p: &TableProperties) -> Vec<(String, String)> {
    let or_na = |text: &str| if text.is_empty() { "N/A".to_string() } else { text.to_string() };
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| lines.push((name.to_string(), value));
    add("# data blocks", p.num_data_blocks.to_string());
    add("# entries", p.num_entries.to_string());
    add("# deletions", p.num_deletions.to_string());
    add("# merge operands", p.num_merge_operands.to_string());
    add("# range deletions", p.num_range_deletions.to_string());
    add("raw key size", p.raw_key_size.to_string());
    add("raw average key size", format!("{:.6}", p.average_key_bytes()));
    add("raw value size", p.raw_value_size.to_string());
    add("raw average value size", format!("{:.6}", p.average_value_bytes()));
    add("data block size", p.data_size.to_string());
    let index = format!(
        "index block size (user-key? {}, delta-value? {})",
        p.index_key_is_user_key, p.index_value_is_delta_encoded
    );
    add(&index, p.index_size.to_string());
    if p.index_partitions != 0 {
        add("# index partitions", p.index_partitions.to_string());
        add("top-level index size", p.top_level_index_size.to_string());
    }
    add("filter block size", p.filter_size.to_string());
    add("# entries for filter", p.num_filter_entries.to_string());
    let total = p.data_size.saturating_add(p.index_size).saturating_add(p.filter_size);
    add("(estimated) table size", total.to_string());
    add("filter policy name", or_na(&p.filter_policy));
    add("prefix extractor name", or_na(&p.prefix_extractor));
    let unknown = p.column_family_id == UNKNOWN_COLUMN_FAMILY;
    let id = if unknown { "N/A".to_string() } else { p.column_family_id.to_string() };
    add("column family ID", id);
    add("column family name", or_na(&p.column_family_name));
    add("comparator name", or_na(&p.comparator));
    add("merge operator name", or_na(&p.merge_operator));
    add("property collectors names", or_na(&p.property_collectors));
    add("SST file compression algo", or_na(&p.compression));
    add("SST file compression options", or_na(&p.compression_options));
    add("creation time", p.creation_time.to_string());
    add("time stamp of earliest key", p.oldest_key_time.to_string());
    add("file creation time", p.file_creation_time.to_string());
    add("slow compression estimated data size", p.slow_compression_size.to_string());
    add("fast compression estimated data size", p.fast_compression_size.to_string());
    add("DB identity", p.db_id.clone());
    add("DB session identity", p.db_session_id.clone());
    add("DB host id", p.db_host_id.clone());
    add("original file number", p.original_file_number.to_string());
    add("unique ID", external_unique_id(p).map_or("N/A".to_string(), |id| hex_words(&id)));
    let times = SeqnoToTimeMapping::decode(&p.seqno_time_map);
    add("Sequence number to time mapping", times.map_or("N/A".to_string(), |times| times.text()));
    lines
}

fn hex_words(words: &[u64]) -> String {
    let texts: Vec<_> = words.iter().map(|word| hex(&word.to_le_bytes())).collect();
    texts.join("-")
}

/// What `--command=raw` writes into its file; with `sequences` the sequence number and the type of
/// each entry of data blocks, too, as `scan` prints them.
///
/// # Errors
/// Corruption and I/O errors of the table.
pub fn raw_text(table: &Table, sequences: bool) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let meta = meta_blocks(table)?;
    footer_text(table, &meta, &mut out);
    metaindex_text(&meta, &mut out);
    put(&mut out, &format!("Table Properties:\n{RULE}  {}\n", indented(&table.properties)));
    let blocks = index_text(table, &mut out)?;
    tombstone_text(table, &mut out);
    data_text(table, &blocks, sequences, &mut out)?;
    Ok(out)
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Stored bytes of all index blocks, without trailers.
///
/// # Errors
/// Corruption and I/O errors of the table.
pub fn index_bytes(table: &Table) -> Result<u64> {
    let bytes = index_handle(table, &meta_blocks(table)?).size;
    if table.properties.index_type()? != IndexType::TwoLevel {
        return Ok(bytes);
    }
    let top = table.meta(&table.index, BlockKind::Index, &TableReadOptions::default())?;
    let wrong = || Error::corruption(format!("no index in {}", table.file.name()));
    let top = top.get().as_index().ok_or_else(wrong)?;
    Ok(top.handles().fold(bytes, |sum, part| sum.saturating_add(part.size)))
}

fn index_handle(table: &Table, meta: &[(String, BlockHandle)]) -> BlockHandle {
    let in_meta = meta.iter().find(|(name, _)| name == metaindex::INDEX).map(|(_, h)| *h);
    table.footer.index.or(in_meta).unwrap_or_default()
}

fn footer_text(table: &Table, meta: &[(String, BlockHandle)], out: &mut Vec<u8>) {
    let index = index_handle(table, meta);
    put(
        out,
        &format!(
            "Footer Details:\n{RULE}  metaindex handle: {}\n  index handle: {}\n  \
             table_magic_number: {}\n  format version: {}\n  \n",
            hex_handle(table.footer.metaindex),
            hex_handle(index),
            crate::footer::BLOCK_BASED_MAGIC,
            table.footer.format_version
        ),
    );
}

fn metaindex_text(meta: &[(String, BlockHandle)], out: &mut Vec<u8>) {
    put(out, &format!("Metaindex Details:\n{RULE}"));
    for (name, handle) in meta {
        let what = match name.as_str() {
            metaindex::PROPERTIES => "Properties",
            metaindex::DICTIONARY => "Compression dictionary",
            metaindex::RANGE_DELETIONS => "Range deletion",
            name if name.contains("filter.rocksdb.") => "Filter",
            _ => continue,
        };
        put(out, &format!("  {what} block handle: {}\n", hex_handle(*handle)));
    }
    put(out, "\n");
}

/// Prints the index and returns the handles of the data blocks.
fn index_text(table: &Table, out: &mut Vec<u8>) -> Result<Vec<BlockHandle>> {
    put(out, &format!("Index Details:\n{RULE}"));
    put(out, "  Block key hex dump: Data block handle\n  Block key ascii\n\n");
    let mut handles = Vec::new();
    let options = TableReadOptions::default();
    let top = table.meta(&table.index, BlockKind::Index, &options)?;
    let wrong = || Error::corruption(format!("no index in {}", table.file.name()));
    let top = top.get().as_index().ok_or_else(wrong)?;
    let mut print = |index: &crate::read::index::IndexBlock| {
        let mut key = Vec::new();
        for i in 0..index.len() {
            index.user_key_into(i, &mut key);
            let handle = index.handle(i);
            put(out, &format!("  HEX    {}: {}\n  ASCII  ", hex(&key), hex_handle(handle)));
            for byte in &key {
                out.extend_from_slice(&[*byte, b' ']);
            }
            put(out, "\n  ------\n");
            handles.push(handle);
        }
    };
    if table.index_partitioned {
        for i in 0..top.len() {
            let partition = table.block(top.handle(i), BlockKind::Index, &options)?;
            print(table.index_in(&partition)?);
        }
    } else {
        print(top);
    }
    put(out, "\n");
    Ok(handles)
}

fn tombstone_text(table: &Table, out: &mut Vec<u8>) {
    let Some(tombstones) = table.range_tombstones_ref() else { return };
    put(out, &format!("Range deletions:\n{RULE}"));
    for tombstone in tombstones.tombstones() {
        entry_text(&tombstone.stored_start(), "", &tombstone.stored_end(), out);
    }
    put(out, "\n");
}

fn data_text(
    table: &Table,
    handles: &[BlockHandle],
    sequences: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    if handles.is_empty() {
        return Ok(());
    }
    let mut sizes = Vec::new();
    let mut keys = Expanded::as_text();
    let mut end = 0;
    for (i, handle) in handles.iter().enumerate() {
        put(out, &format!("Data Block # {} @ {}\n{RULE}", i + 1, hex_handle(*handle)));
        let bad = |what: &str| table.file.bad_block(*handle, BlockKind::Data, what);
        if handle.offset < end {
            return Err(bad("blocks out of order"));
        }
        end = handle.end().unwrap_or(u64::MAX);
        let contents = table.file.read(*handle, BlockKind::Data, BlockRead::ONCE)?;
        let block: CachedBlock = table.decode(contents, *handle, BlockKind::Data)?;
        keys.allow(&block.block);
        let mut cursor = BlockCursor::new(GlobalSeqno::default());
        cursor.seek_to_first(&block.block);
        while cursor.valid() {
            keys.add(cursor.key()).map_err(bad)?;
            let (sequence, tag) = InternalKey::new(cursor.key()).sequence_and_type();
            let note = format!(" seq:{sequence}, type:{tag}");
            let note = if sequences { note.as_str() } else { "" };
            entry_text(
                InternalKey::new(cursor.key()).user_key().as_bytes(),
                note,
                cursor.value(&block.block),
                out,
            );
            cursor.next(&block.block);
        }
        if cursor.damaged() {
            return Err(bad("malformed entry"));
        }
        put(out, "\n");
        sizes.push(handle.size);
    }
    let total: u64 = sizes.iter().sum();
    put(
        out,
        &format!(
            "Data Block Summary:\n{RULE}  # data blocks: {}\n  min data block size: {}\n  \
             max data block size: {}\n  avg data block size: {:.6}\n",
            sizes.len(),
            sizes.iter().min().copied().unwrap_or(0),
            sizes.iter().max().copied().unwrap_or(0),
            total as f64 / sizes.len() as f64
        ),
    );
    Ok(())
}

fn entry_text(key: &[u8], note: &str, value: &[u8], out: &mut Vec<u8>) {
    put(out, &format!("  HEX    {}{note}: {}\n  ASCII  ", hex(key), hex(value)));
    spaced(key, out);
    put(out, ": ");
    spaced(value, out);
    put(out, "\n  ------\n");
}

/// Bytes with a space after each; NUL in two characters.
fn spaced(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        if *byte == 0 {
            out.extend_from_slice(b"\\0 ");
        } else {
            out.extend_from_slice(&[*byte, b' ']);
        }
    }
}

fn hex_handle(handle: BlockHandle) -> String {
    let mut bytes = Vec::new();
    handle.encode_to(&mut bytes);
    hex(&bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
