//! Benchmarks of operands that are not merged.
//!
//! Thread safety: as of each worker's loop.

use super::engine::{BenchDb, Reader, Result, Writer};
use super::worker::{Worker, during};
use pumice_port::time::now_micros;

/// The bytes of the operands of `key`, if it is there.
pub fn read<R: Reader>(reader: &mut R, key: &[u8]) -> Result<Option<usize>> {
    let mut bytes = 0;
    let found = reader.operands(key, &mut |operand| bytes += operand.len())?;
    Ok(found.then_some(bytes))
}

/// Numbers of all lists.
const NUMBERS: u32 = 100_000;
/// The numbers of a list begin after a multiple of this, and end before the next.
const LIST: u32 = 100;
/// The number that is looked for.
const SOUGHT: u32 = 1;
/// Operands that are printed.
const SHOWN: usize = 4;

/// `getmergeoperands`: merges sorted lists of numbers into one key, and looks for a number, first
/// in the merged list and then in the operands, as RocksDB's db_bench does, with its lines.
pub fn sorted_lists<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let db = worker.pick();
    let (reader, writer) = (&mut worker.readers()[db], &mut worker.writers()[db]);
    let key = b"my_key";
    for before in (0..NUMBERS - LIST).step_by(LIST as usize) {
        let numbers: Vec<String> = (before + 1..before + LIST).map(|n| n.to_string()).collect();
        during("merge", writer.merge(key, numbers.join(",").as_bytes()))?;
    }
    println!("--- Get API call --- ");
    let (began, mut merged) = (now_micros(), Vec::new());
    during("get", reader.read(key, &mut merged))?;
    println!("Found key? {}", u8::from(has(&merged, SOUGHT)));
    println!("Get: {} seconds", seconds_since(began));
    let sample = &merged[..merged.len().min(10)];
    println!("Sample data from Get API call: {}", String::from_utf8_lossy(sample));
    println!("--- GetMergeOperands API --- ");
    let (began, mut found, mut lists) = (now_micros(), false, Vec::new());
    let mut search = |operand: &[u8]| {
        found = found || has(operand, SOUGHT);
        if lists.len() < SHOWN {
            lists.push(String::from_utf8_lossy(operand).into_owned());
        }
    };
    during("getmergeoperands", reader.operands(key, &mut search))?;
    println!("Found key? {}", u8::from(found));
    println!("Get Merge operands: {} seconds ", seconds_since(began));
    print!("Sample data from GetMergeOperands API call: ");
    for (number, list) in lists.iter().enumerate() {
        println!("List: {number} : {list}");
    }
    Ok(())
}

/// Whether the sorted `list` has `number`.
fn has(list: &[u8], number: u32) -> bool {
    let text = String::from_utf8_lossy(list);
    let numbers: Vec<u32> = text.split(',').filter_map(|number| number.parse().ok()).collect();
    numbers.binary_search(&number).is_ok()
}

fn seconds_since(began: u64) -> f64 {
    (now_micros() - began) as f64 / 1e6
}
