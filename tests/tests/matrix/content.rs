//! What a database of the matrix holds: written in three steps, each flushed, the first compacted
//! into several files of the last level, so that reads meet several files on several levels.
//!
//! Keys are groups of common 8-byte prefix, and a few shorter ones. The middle step is written
//! under snapshots, so that its file keeps several versions of a key, and has range deletions.

use pumice_base::random::Rng;
use pumice_testkit::{Model, Op, Store};

use super::variant::Variant;

const GROUPS: u64 = 200;
const KEYS_PER_GROUP: u64 = 15;
const SHORT_KEYS: u64 = 20;
const CF: usize = 0;

/// The seed of a variant's content.
pub fn seed(variant: &Variant) -> u64 {
    variant.0.iter().fold(7, |seed, value| seed * 11 + *value as u64)
}

/// Numbers of groups are below this.
pub const GROUP_NUMBERS: u64 = 2 * GROUPS;

/// The common start of a group's keys: eight bytes.
pub fn group(number: u64) -> Vec<u8> {
    format!("grp{number:05}").into_bytes()
}

/// The number of the n-th group that is written: two neighbours, between which a separator may be
/// the prefix of the second, then two that never are.
fn written(n: u64) -> u64 {
    n / 2 * 4 + n % 2
}

/// The number of the n-th group that is never written.
fn unwritten(n: u64) -> u64 {
    written(n) + 2
}

fn key(group_number: u64, member: u64) -> Vec<u8> {
    let mut key = group(group_number);
    key.extend_from_slice(format!(":{:03}", member * 2).as_bytes());
    key
}

fn short_key(number: u64) -> Vec<u8> {
    format!("s{:02}", number * 2).into_bytes()
}

/// Keys that are nowhere: between those of a group, of groups that are not, short ones.
pub fn absent_keys(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for _ in 0..150 {
        let (n, member) = (rng.uniform(GROUPS), rng.uniform(KEYS_PER_GROUP));
        let mut between = group(written(n));
        between.extend_from_slice(format!(":{:03}", member * 2 + 1).as_bytes());
        keys.push(between);
        keys.push(key(unwritten(n), member));
    }
    keys.extend((0..SHORT_KEYS).map(|n| format!("s{:02}", n * 2 + 1).into_bytes()));
    keys.extend([&b""[..], b"g", b"grp", b"zzz"].map(<[u8]>::to_vec));
    keys
}

fn value(key: &[u8], version: u64, rng: &mut Rng) -> Vec<u8> {
    let name = String::from_utf8_lossy(key);
    let mut text = format!("{{\"key\":\"{name}\",\"version\":{version},\"amount\":");
    for _ in 0..1 + rng.uniform(4) {
        text += &format!("{:08x},", rng.uniform(1 << 32));
    }
    text += "\"currency\":\"NOK\"}";
    text.into_bytes()
}

struct Writer<'a> {
    rng: Rng,
    store: &'a mut dyn Store,
    model: &'a mut Model,
    keys: Vec<Vec<u8>>,
    version: u64,
}

impl Writer<'_> {
    fn write(&mut self, batch: &[Op]) -> Result<(), String> {
        self.store.write(batch)?;
        self.model.apply(batch);
        Ok(())
    }

    /// Puts every key once, in random order.
    fn everything(&mut self) -> Result<(), String> {
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.rng.uniform(at as u64 + 1) as usize);
        }
        for some in order.chunks(100) {
            let batch: Vec<Op> = some.iter().map(|at| self.put(*at)).collect();
            self.write(&batch)?;
        }
        Ok(())
    }

    fn put(&mut self, at: usize) -> Op {
        let key = self.keys[at].clone();
        let value = value(&key, self.version, &mut self.rng);
        Op::Put { cf: CF, key, value }
    }

    /// Puts some keys and deletes others.
    fn some(&mut self, puts: u64, deletes: u64) -> Result<(), String> {
        self.version += 1;
        let mut batch = Vec::new();
        for number in 0..puts + deletes {
            let at = self.rng.uniform(self.keys.len() as u64) as usize;
            batch.push(match number < puts {
                true => self.put(at),
                false => Op::Delete { cf: CF, key: self.keys[at].clone() },
            });
            if batch.len() == 50 {
                self.write(&std::mem::take(&mut batch))?;
            }
        }
        self.write(&batch)
    }

    /// Deletes ranges that start within one group and may end in another.
    fn ranges(&mut self, count: u64) -> Result<(), String> {
        for _ in 0..count {
            let number = written(self.rng.uniform(GROUPS));
            let begin = key(number, self.rng.uniform(KEYS_PER_GROUP));
            let end = key(number + self.rng.uniform(4), KEYS_PER_GROUP);
            self.write(&[Op::DeleteRange { cf: CF, begin, end }])?;
        }
        Ok(())
    }
}

/// Writes a variant's content, to the model too, which then has what must be read.
pub fn write(variant: &Variant, store: &mut dyn Store, model: &mut Model) -> Result<(), String> {
    let mut keys: Vec<Vec<u8>> = (0..GROUPS)
        .flat_map(|n| (0..KEYS_PER_GROUP).map(move |member| key(written(n), member)))
        .collect();
    if variant.takes_short_keys() {
        keys.extend((0..SHORT_KEYS).map(short_key));
    }
    let rng = Rng::new(seed(variant));
    let mut writer = Writer { rng, store, model, keys, version: 0 };
    writer.everything()?;
    writer.store.flush(CF)?;
    writer.store.compact(CF, None, None)?;
    writer.some(700, 300)?;
    writer.store.snapshot(1)?;
    writer.ranges(6)?;
    writer.some(300, 100)?;
    writer.store.snapshot(2)?;
    writer.some(200, 50)?;
    writer.store.flush(CF)?;
    writer.store.release(1);
    writer.store.release(2);
    writer.some(100, 50)?;
    writer.ranges(2)?;
    writer.store.flush(CF)
}

/// What a variant's database must hold.
pub fn expected(variant: &Variant) -> Result<Model, String> {
    let mut model = Model::new(1);
    write(variant, &mut Model::new(1), &mut model)?;
    Ok(model)
}
