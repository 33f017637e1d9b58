//! LCS: the longest common subsequence of two strings.
//!
//! Takes memory and time in proportion to the product of both lengths, which is bounded. Thread
//! safety: see the module above.

use super::args::{integer, upper};
use super::{Access, Call, READONLY, Row};
use crate::keyspace::encoding::Kind;
use crate::keyspace::txn::Found;
use crate::keyspace::{Failure, Outcome};

/// See the module's head.
pub const ROWS: &[Row] = &[Row::new(
    "string",
    "lcs",
    -3,
    READONLY,
    "7.0.0",
    "Finds the longest common subsequence of two strings.",
    lcs,
)
.keys(1, 2, 1)
.access(Access::View)];

/// Bytes of the table at most.
const TABLE_BYTES: usize = 256 << 20;

#[derive(Default)]
struct Options {
    len: bool,
    matches: bool,
    min_match: usize,
    with_len: bool,
}

fn options(args: &[&[u8]]) -> Outcome<Options> {
    let mut options = Options::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match upper(arg).as_slice() {
            b"LEN" => options.len = true,
            b"IDX" => options.matches = true,
            b"WITHMATCHLEN" => options.with_len = true,
            b"MINMATCHLEN" => {
                let least = integer(rest.next().ok_or(Failure::SYNTAX)?)?;
                options.min_match = usize::try_from(least).unwrap_or(0);
            }
            _ => return Err(Failure::SYNTAX),
        }
    }
    if options.len && options.matches {
        const BOTH: &str = "ERR If you want both the length and indexes, please just use IDX.";
        return Err(Failure::text(BOTH));
    }
    Ok(options)
}

/// A common run: first and last index in each.
type Match = ([usize; 2], [usize; 2]);

fn lcs(call: &mut Call<'_, '_>) -> Outcome<()> {
    const TYPES: Failure = Failure::text("ERR The specified keys must contain string values");
    let mut texts = Vec::new();
    for key in &call.args[1..3] {
        let found = call.txn.find(key)?;
        if found.as_ref().is_some_and(|found| found.kind() != Kind::String) {
            return Err(TYPES);
        }
        texts.push(found.as_ref().map_or_else(Vec::new, |f: &Found| f.string().to_vec()));
    }
    let options = options(&call.args[3..])?;
    let (a, b) = (&texts[0], &texts[1]);
    if (a.len() + 1).saturating_mul(b.len() + 1).saturating_mul(4) > TABLE_BYTES {
        const TOO_LONG: &str =
            "ERR Insufficient memory, transient memory for LCS exceeds the limit";
        return Err(Failure::text(TOO_LONG));
    }
    let table = table(a, b);
    let len = table[(a.len() + 1) * (b.len() + 1) - 1] as usize;
    if options.len {
        call.out.count(len);
        return Ok(());
    }
    let (common, matches) = walk(a, b, &table, len);
    if !options.matches {
        call.out.bulk(&common);
        return Ok(());
    }
    let length = |m: &Match| m.0[1] - m.0[0] + 1;
    let shown: Vec<_> = matches.iter().filter(|m| length(m) >= options.min_match).collect();
    call.out.map(2);
    call.out.bulk(b"matches");
    call.out.array(shown.len());
    for found in shown {
        call.out.array(2 + usize::from(options.with_len));
        for range in [found.0, found.1] {
            call.out.array(2);
            range.iter().for_each(|&at| call.out.count(at));
        }
        if options.with_len {
            call.out.count(length(found));
        }
    }
    call.out.bulk(b"len");
    call.out.count(len);
    Ok(())
}

/// Lengths for all pairs of prefixes.
fn table(a: &[u8], b: &[u8]) -> Vec<u32> {
    let width = b.len() + 1;
    let mut table = vec![0_u32; (a.len() + 1) * width];
    for i in 1..=a.len() {
        pumice_port::fiber::maybe_yield();
        for j in 1..=b.len() {
            table[i * width + j] = if a[i - 1] == b[j - 1] {
                table[(i - 1) * width + j - 1] + 1
            } else {
                table[(i - 1) * width + j].max(table[i * width + j - 1])
            };
        }
    }
    table
}

/// The subsequence and the runs it is made of, the last one first.
fn walk(a: &[u8], b: &[u8], table: &[u32], len: usize) -> (Vec<u8>, Vec<Match>) {
    let width = b.len() + 1;
    let (mut i, mut j) = (a.len(), b.len());
    let mut common = Vec::with_capacity(len);
    let mut matches: Vec<Match> = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            common.push(a[i - 1]);
            (i, j) = (i - 1, j - 1);
            match matches.last_mut() {
                Some((x, y)) if x[0] == i + 1 && y[0] == j + 1 => (x[0], y[0]) = (i, j),
                _ => matches.push(([i, i], [j, j])),
            }
        } else if table[(i - 1) * width + j] > table[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    common.reverse();
    (common, matches)
}
