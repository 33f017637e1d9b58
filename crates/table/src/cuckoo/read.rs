//! The rows of a cuckoo table in key order. The table is in memory as a whole, as it is for
//! RocksDB, which maps it: buckets that follow each other in key order are anywhere in it.
//!
//! Thread safety: immutable. Suspends where the table is opened.

use pumice_base::coding::{get_fixed32, get_fixed64};
use pumice_base::key::{InternalKey, TRAILER_LEN, ValueType, pack};
use pumice_base::narrow::{low_u32, to_usize};
use pumice_base::{Result, UserKey};

use crate::cuckoo::names;
use crate::read::context::{Origin, TableReadContext};
use crate::translated::file::{OtherFile, read_exactly};
use crate::translated::image::{Image, Rows};
use crate::translated::layout::Layout;

/// What the properties say of the buckets.
#[derive(Clone, Copy, Debug)]
struct Shape {
    key_len: usize,
    user_key_len: usize,
    bucket_len: usize,
    buckets: usize,
    is_last_level: bool,
}

/// The rows of one table.
struct CuckooRows {
    bytes: Vec<u8>,
    shape: Shape,
    /// Buckets with rows, in key order.
    order: Vec<u32>,
    /// Where in `order` the blocks begin, and where the last one ends.
    places: Vec<usize>,
}

/// The image of a cuckoo table.
///
/// # Errors
/// Corruption, naming the file; I/O errors.
pub(crate) fn translate(context: &TableReadContext, file: OtherFile) -> Result<(Image, Origin)> {
    let (shape, empty_key) = shape(&file)?;
    let bytes = read_exactly(&*file.file, 0, shape.bucket_len * shape.buckets)?;
    let mut rows = CuckooRows { bytes, shape, order: Vec::new(), places: vec![0] };
    let used = (0..shape.buckets).filter(|bucket| rows.key(*bucket) != empty_key);
    rows.order = used.map(|bucket| low_u32(bucket as u64)).collect();
    let mut order = std::mem::take(&mut rows.order);
    let user = &context.comparator.user;
    let key = |bucket: u32| UserKey::new(&rows.key(bucket as usize)[..shape.user_key_len]);
    order.sort_unstable_by(|a, b| user.compare(key(*a), key(*b)));
    rows.order = order;
    let (mut layout, mut ikey) = (Layout::new(context, &file), Vec::new());
    for at in 0..rows.order.len() {
        if layout.is_full() {
            layout.end_block()?;
            rows.places.push(at);
        }
        let value = rows.row(at, &mut ikey);
        layout.add(&file, &ikey, value)?;
    }
    if !rows.order.is_empty() {
        layout.end_block()?;
        rows.places.push(rows.order.len());
    }
    layout.finish(file, Box::new(rows))
}

/// The shape, and the key of empty buckets.
fn shape(file: &OtherFile) -> Result<(Shape, Vec<u8>)> {
    let find = |name: &str, what: &str| {
        file.properties.collected(name).ok_or_else(|| file.bad(format_args!("{what} not found")))
    };
    let short = || file.bad("property of a cuckoo table that is too short");
    let number32 = |bytes: &[u8]| get_fixed32(bytes).ok_or_else(short);
    let number64 = |bytes: &[u8]| get_fixed64(bytes).ok_or_else(short);
    find(names::HASH_FUNCTIONS, "Number of hash functions")?;
    let empty_key = find(names::EMPTY_KEY, "Empty bucket value")?.to_vec();
    let user_key_len = number32(find(names::USER_KEY_LENGTH, "User key length")?)?;
    let value_len = number64(find(names::VALUE_LENGTH, "Value length")?)?;
    let table_size = number64(find(names::TABLE_SIZE, "Hash table size")?)?;
    let is_last_level = find(names::IS_LAST_LEVEL, "Is last level")?.first() != Some(&0);
    let block_size = number32(find(names::BLOCK_SIZE, "Cuckoo block size")?)?;
    let key_len = file.properties.fixed_key_len;
    let data = file.data_bytes()?;
    if file.properties.num_entries == 0 {
        let shape = Shape { key_len: 0, user_key_len: 0, bucket_len: 0, buckets: 0, is_last_level };
        return Ok((shape, empty_key));
    }
    let trailer = if is_last_level { 0 } else { TRAILER_LEN as u64 };
    let bucket_len = key_len.saturating_add(value_len);
    let buckets = table_size.saturating_add(u64::from(block_size.max(1)) - 1);
    if key_len != u64::from(user_key_len) + trailer
        || bucket_len == 0
        || bucket_len.checked_mul(buckets) != Some(data)
        || buckets > u64::from(u32::MAX)
        || empty_key.len() as u64 != key_len
    {
        return Err(file.bad(format_args!(
            "{buckets} buckets of {bucket_len} bytes, keys of {key_len} and user keys of \
             {user_key_len}, in data of {data}"
        )));
    }
    let shape = Shape {
        key_len: to_usize(key_len),
        user_key_len: user_key_len as usize,
        bucket_len: to_usize(bucket_len),
        buckets: to_usize(buckets),
        is_last_level,
    };
    Ok((shape, empty_key))
}

impl CuckooRows {
    fn key(&self, bucket: usize) -> &[u8] {
        let at = bucket * self.shape.bucket_len;
        &self.bytes[at..at + self.shape.key_len]
    }

    /// Row `at` in key order: its value, and its internal key in `ikey`.
    fn row(&self, at: usize, ikey: &mut Vec<u8>) -> &[u8] {
        let bucket = self.order[at] as usize;
        ikey.clear();
        ikey.extend_from_slice(self.key(bucket));
        if self.shape.is_last_level {
            ikey.extend_from_slice(&pack(0, ValueType::Value as u8).to_le_bytes());
        }
        let start = bucket * self.shape.bucket_len;
        let value = &self.bytes[start + self.shape.key_len..start + self.shape.bucket_len];
        // The bytes in the place of a deletion's value mean nothing.
        match InternalKey::new(ikey).sequence_and_type().1 == ValueType::Value as u8 {
            true => value,
            false => &[],
        }
    }
}

impl Rows for CuckooRows {
    fn visit(&self, block: usize, add: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut ikey = Vec::new();
        for at in self.places[block]..self.places[block + 1] {
            let value = self.row(at, &mut ikey);
            add(&ikey, value);
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.order.capacity() * size_of::<u32>()
            + self.places.capacity() * size_of::<usize>()
    }
}
