//! Writes a cuckoo table: rows are kept until the end, and then given their buckets.
//!
//! A key may be in each of the buckets that each hash function gives to it. Readers go through them
//! in order and stop at an empty one. Invariant: all of them before the one where a row is are
//! used; so a row goes into the first that is empty, and a bucket that is used stays so.
//!
//! Thread safety: one owner.

use pumice_base::key::{InternalKey, ValueType, pack};
use pumice_base::narrow::{len_u32, low_u32, round_down_u64, to_usize};
use pumice_base::{Error, InternalKeyComparator, Result};

use crate::build::context::TableBuildContext;
use crate::cuckoo::hash::{CuckooHash, IDENTITY_LEN};
use crate::cuckoo::names;
use crate::footer::OtherFormat;
use crate::formats::CuckooFormat;
use crate::properties::TableProperties;
use crate::row_builder::{FileOutput, RowFormat, Rows};

/// Hash functions at most.
const FUNCTIONS_MAX: u32 = 64;
/// Hash functions at first.
const FUNCTIONS_MIN: u32 = 2;
/// Rows and buckets have numbers below this.
const NUMBER_MAX: u32 = i32::MAX.cast_unsigned();
/// What fills empty buckets and the places of the values of deletions.
const FILL: u8 = b'a';

/// The rows of a cuckoo table under construction.
pub(crate) struct CuckooTable {
    format: CuckooFormat,
    comparator: InternalKeyComparator,
    user_key_len: usize,
    /// Bytes of each value; `None` before the first.
    value_len: Option<usize>,
    /// The internal keys, one after another.
    keys: Vec<u8>,
    values: Vec<u8>,
    /// The number of each row's value in `values`; `None` for a deletion.
    value_numbers: Vec<Option<u32>>,
    /// Every row is a value of sequence 0.
    is_last_level: bool,
    /// The bounds of the user keys in bytewise order.
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl CuckooTable {
    /// A table without rows.
    pub fn new(format: CuckooFormat, context: &TableBuildContext) -> Self {
        CuckooTable {
            format,
            comparator: context.comparator.clone(),
            user_key_len: 0,
            value_len: None,
            keys: Vec::new(),
            values: Vec::new(),
            value_numbers: Vec::new(),
            is_last_level: true,
            smallest: Vec::new(),
            largest: Vec::new(),
        }
    }

    fn rows(&self) -> usize {
        self.value_numbers.len()
    }

    fn ikey(&self, row: usize) -> &[u8] {
        let len = self.user_key_len + pumice_base::key::TRAILER_LEN;
        &self.keys[row * len..][..len]
    }

    fn user_key(&self, row: usize) -> &[u8] {
        &self.ikey(row)[..self.user_key_len]
    }

    /// The key as it is stored.
    fn key(&self, row: usize) -> &[u8] {
        if self.is_last_level { self.user_key(row) } else { self.ikey(row) }
    }

    /// The value of a row; that of a deletion is empty.
    fn value(&self, row: usize) -> &[u8] {
        let len = self.value_len.unwrap_or(0);
        let number = self.value_numbers[row];
        number.map_or(&[], |number| &self.values[number as usize * len..][..len])
    }

    fn key_len(&self) -> usize {
        match (self.rows(), self.is_last_level) {
            (0, _) => 0,
            (_, true) => self.user_key_len,
            (_, false) => self.user_key_len + pumice_base::key::TRAILER_LEN,
        }
    }

    /// Buckets for that many rows, without those at the end that only blocks reach into.
    fn table_size(&self, rows: usize) -> u64 {
        let wanted = rows as f64 / self.format.hash_table_ratio;
        if self.format.use_module_hash {
            return round_down_u64(wanted).max(1);
        }
        let mut size = 2;
        while (size as f64) < wanted && size <= u64::from(NUMBER_MAX) {
            size *= 2;
        }
        size
    }

    /// Whether the first hash is the first bytes of the key. Shorter keys are hashed, as the
    /// properties say: RocksDB would read on behind them, where its reader has other bytes.
    fn is_identity_first(&self) -> bool {
        self.format.identity_as_first_hash && self.user_key_len >= IDENTITY_LEN
    }

    fn block_size(&self) -> u32 {
        self.format.cuckoo_block_size.max(1)
    }

    /// A user key that no row has.
    fn unused_user_key(&self) -> Result<Vec<u8>> {
        step(&self.smallest, 0, u8::wrapping_sub)
            .or_else(|| step(&self.largest, u8::MAX, u8::wrapping_add))
            .ok_or_else(|| Error::not_supported("Unable to find unused key"))
    }

    /// Checks a row against those before.
    fn check_row(&self, key: InternalKey<'_>, value: &[u8]) -> Result<()> {
        if self.rows() >= NUMBER_MAX as usize - 1 {
            return Err(Error::not_supported("Number of keys in a file must be < 2^32-1"));
        }
        let tag = key.sequence_and_type().1;
        if tag != ValueType::Value as u8 && tag != ValueType::Deletion as u8 {
            return Err(Error::not_supported(format!("Unsupported key type {tag}")));
        }
        let user = key.user_key();
        if self.rows() > 0 {
            if user.as_bytes().len() != self.user_key_len {
                return Err(Error::not_supported("all keys have to be the same size"));
            }
            let last = InternalKey::new(self.ikey(self.rows() - 1));
            if self.comparator.user.same_user_key(last.user_key(), user) {
                return Err(Error::not_supported("Same key is being inserted again."));
            }
        }
        let differs = self.value_len.is_some_and(|len| len != value.len());
        if tag == ValueType::Value as u8 && differs {
            return Err(Error::not_supported("all values have to be the same size"));
        }
        Ok(())
    }
}

/// The neighbour of a number of any length, big-endian; `None` if there is none: all bytes are
/// `end`.
fn step(from: &[u8], end: u8, change: fn(u8, u8) -> u8) -> Option<Vec<u8>> {
    let at = from.iter().rposition(|byte| *byte != end)?;
    let mut next = from.to_vec();
    next[at..].iter_mut().for_each(|byte| *byte = change(*byte, 1));
    Some(next)
}

impl RowFormat for CuckooTable {
    fn format(&self) -> OtherFormat {
        OtherFormat::Cuckoo
    }

    fn describe(&self, properties: &mut TableProperties) {
        properties.num_data_blocks = 1;
    }

    fn add(&mut self, _out: &mut FileOutput, ikey: &[u8], value: &[u8]) -> Result<()> {
        let key = InternalKey::new(ikey);
        let user = key.user_key().as_bytes();
        self.check_row(key, value)?;
        if self.rows() == 0 {
            self.user_key_len = user.len();
            self.smallest = user.to_vec();
            self.largest = user.to_vec();
        }
        if user < self.smallest.as_slice() {
            self.smallest = user.to_vec();
        } else if user > self.largest.as_slice() {
            self.largest = user.to_vec();
        }
        self.is_last_level &= key.trailer() == pack(0, ValueType::Value as u8);
        self.keys.extend_from_slice(ikey);
        let is_value = key.sequence_and_type().1 == ValueType::Value as u8;
        let number = match is_value {
            false => None,
            true => {
                let len = *self.value_len.get_or_insert(value.len());
                let number = self.values.len().checked_div(len).unwrap_or(0);
                self.values.extend_from_slice(value);
                Some(len_u32(number))
            }
        };
        self.value_numbers.push(number);
        Ok(())
    }

    fn finish(&mut self, out: &mut FileOutput) -> Result<()> {
        let (rows, value_len) = (self.rows(), self.value_len.unwrap_or(0));
        let placed = if rows == 0 { None } else { Some(Placement::of(self)?) };
        let mut unused = Vec::new();
        if let Some(placed) = &placed {
            unused = self.unused_user_key()?;
            if !self.is_last_level {
                unused.extend_from_slice(&pack(0, ValueType::Value as u8).to_le_bytes());
            }
            let fill = vec![FILL; value_len];
            for bucket in &placed.buckets {
                let Some(row) = bucket.row() else {
                    out.append(&unused)?;
                    out.append(&fill)?;
                    continue;
                };
                out.append(self.key(row))?;
                let is_deletion = self.value_numbers[row].is_none();
                out.append(if is_deletion { &fill } else { self.value(row) })?;
            }
        }
        out.end_data();
        let key_len = self.key_len();
        let properties = out.properties_mut();
        properties.fixed_key_len = key_len as u64;
        properties.raw_key_size = (rows * key_len) as u64;
        properties.raw_value_size = (rows * value_len) as u64;
        let (size, functions) = match &placed {
            Some(placed) => (placed.hash.table_size, placed.functions),
            None => (if self.format.use_module_hash { 0 } else { 2 }, FUNCTIONS_MIN),
        };
        let flag = |on: bool| [u8::from(on)];
        properties.collect(names::EMPTY_KEY, &unused);
        properties.collect(names::HASH_FUNCTIONS, &functions.to_le_bytes());
        properties.collect(names::TABLE_SIZE, &size.to_le_bytes());
        properties.collect(names::VALUE_LENGTH, &(value_len as u64).to_le_bytes());
        let is_last_level = rows > 0 && self.is_last_level;
        properties.collect(names::IS_LAST_LEVEL, &flag(is_last_level));
        properties.collect(names::BLOCK_SIZE, &self.block_size().to_le_bytes());
        properties.collect(names::IDENTITY_FIRST, &flag(self.is_identity_first()));
        properties.collect(names::USE_MODULE, &flag(self.format.use_module_hash));
        properties.collect(names::USER_KEY_LENGTH, &len_u32(self.user_key_len).to_le_bytes());
        Ok(())
    }

    fn rows(&self) -> Option<Rows<'_>> {
        Some(Box::new((0..self.rows()).map(|row| (self.ikey(row), self.value(row)))))
    }

    fn estimated_bytes(&self, _out: &FileOutput) -> u64 {
        let bucket = self.user_key_len + pumice_base::key::TRAILER_LEN;
        let bucket = bucket + self.value_len.unwrap_or(0);
        match self.rows() {
            0 => 0,
            rows => self.table_size(rows).saturating_mul(bucket as u64),
        }
    }
}

/// A bucket of the table under construction.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The number of its row; `NUMBER_MAX` if it is empty.
    row: u32,
    /// The last search that came here.
    seen: u32,
}

impl Bucket {
    fn row(self) -> Option<usize> {
        (self.row != NUMBER_MAX).then_some(self.row as usize)
    }
}

/// A bucket that a search came to.
#[derive(Clone, Copy, Debug)]
struct Step {
    bucket: usize,
    depth: u32,
    /// The step whose row may move here; of the first ones themselves.
    from: usize,
}

/// Which row is in which bucket.
struct Placement<'a> {
    table: &'a CuckooTable,
    hash: CuckooHash,
    functions: u32,
    buckets: Vec<Bucket>,
    searches: u32,
}

impl<'a> Placement<'a> {
    /// Gives each row of `table` a bucket.
    fn of(table: &'a CuckooTable) -> Result<Self> {
        let ratio = table.format.hash_table_ratio;
        if ratio.is_nan() || ratio <= 0.0 {
            let text = format!("hash_table_ratio {ratio} of a CuckooTable is not above 0");
            return Err(Error::invalid_argument(text));
        }
        let table_size = table.table_size(table.rows());
        let buckets = table_size.saturating_add(u64::from(table.block_size()) - 1);
        if buckets >= u64::from(NUMBER_MAX) {
            return Err(Error::not_supported(format!("CuckooTable of {buckets} buckets")));
        }
        let mut placement = Placement {
            table,
            hash: CuckooHash {
                identity_first: table.is_identity_first(),
                use_module: table.format.use_module_hash,
                table_size,
            },
            functions: FUNCTIONS_MIN,
            buckets: vec![Bucket { row: NUMBER_MAX, seen: 0 }; to_usize(buckets)],
            searches: 0,
        };
        for row in 0..table.rows() {
            placement.place(row)?;
        }
        Ok(placement)
    }

    /// The buckets where a row may be, in the order of readers.
    fn buckets_of(&self, row: usize) -> impl Iterator<Item = usize> + use<'a> {
        let (hash, table) = (self.hash, self.table);
        let block = table.block_size() as usize;
        (0..self.functions).flat_map(move |function| {
            let first = to_usize(hash.bucket(table.user_key(row), function));
            first..first + block
        })
    }

    fn place(&mut self, row: usize) -> Result<()> {
        let bucket = loop {
            let empty = self.buckets_of(row).find(|at| self.buckets[*at].row().is_none());
            if let Some(bucket) = empty.or_else(|| self.make_space(row)) {
                break bucket;
            }
            if self.functions >= FUNCTIONS_MAX {
                return Err(Error::not_supported("Too many collisions. Unable to hash."));
            }
            // The rows that have places keep them.
            self.functions += 1;
        };
        self.buckets[bucket].row = low_u32(row as u64);
        Ok(())
    }

    /// Moves rows, each to another of its buckets, so that one of `row` may be used again.
    fn make_space(&mut self, row: usize) -> Option<usize> {
        self.searches += 1;
        let mut steps: Vec<Step> = Vec::new();
        for bucket in self.buckets_of(row) {
            if self.first_visit(bucket) {
                steps.push(Step { bucket, depth: 0, from: steps.len() });
            }
        }
        let mut at = 0;
        while at < steps.len() && steps[at].depth < self.table.format.max_search_depth {
            let Step { bucket, depth, .. } = steps[at];
            let moved = self.buckets[bucket].row().expect("the search ends at an empty bucket");
            for bucket in self.buckets_of(moved) {
                if !self.first_visit(bucket) {
                    continue;
                }
                steps.push(Step { bucket, depth: depth + 1, from: at });
                if self.buckets[bucket].row().is_none() {
                    return Some(self.shift(&steps));
                }
            }
            at += 1;
        }
        None
    }

    fn first_visit(&mut self, bucket: usize) -> bool {
        std::mem::replace(&mut self.buckets[bucket].seen, self.searches) != self.searches
    }

    /// Moves the rows along the way to the last of `steps`; where the way begins.
    fn shift(&mut self, steps: &[Step]) -> usize {
        let mut at = steps.len() - 1;
        while steps[at].depth > 0 {
            let from = steps[at].from;
            self.buckets[steps[at].bucket].row = self.buckets[steps[from].bucket].row;
            at = from;
        }
        steps[at].bucket
    }
}
