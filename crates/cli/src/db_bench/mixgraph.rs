//! `mixgraph`: gets, puts and scans whose keys, value sizes and scan lengths follow the
//! distributions that RocksDB's authors fitted to a social graph ("Characterizing, Modeling, and
//! Benchmarking RocksDB Key-Value Workloads at Facebook", FAST '20).
//!
//! Keys are either random, or a power law, or a power law within ranges whose popularity is a sum
//! of two exponentials. The ranges are the same for the same parameters, whatever the seed.
//!
//! Thread safety: each worker has its own; only the rate limiters are shared.

use super::engine::{BenchDb, Cursor, Reader, Result, Writer};
use super::flags::Flags;
use super::stats::Operation;
use super::worker::{Worker, during, wait_for};
use pumice_base::random::Rng;

/// Key ranges by popularity.
struct Ranges {
    /// End of each range's share of the numbers that are drawn.
    ends: Vec<u64>,
    keys_each: u64,
}

impl Ranges {
    /// As the flags say; None without such a model.
    fn new(flags: &Flags, num: u64) -> Option<Ranges> {
        let [a, b, c, d] = [
            flags.keyrange_dist_a,
            flags.keyrange_dist_b,
            flags.keyrange_dist_c,
            flags.keyrange_dist_d,
        ];
        if [a, b, c, d] == [0.0; 4] {
            return None;
        }
        let count = u64::try_from(flags.keyrange_num).unwrap_or(0).max(1);
        // From the least popular range; its share is one or a little more.
        let mut scale = 0.0;
        let mut shares: Vec<u64> = Vec::new();
        for range in (1..=count).rev() {
            let x = range as f64;
            let popularity = a * (b * x).exp() + c * (d * x).exp();
            let popularity = if popularity < 1e-16 { 0.0 } else { popularity };
            if scale == 0.0 && popularity > 0.0 {
                scale = (1.0 / popularity).floor() + 1.0;
            }
            shares.push((scale * popularity) as u64);
        }
        let total: u64 = shares.iter().sum();
        Rng::new(total).shuffle(&mut shares);
        let mut end = 0;
        let ends = shares.iter().map(|share| {
            end += share;
            end
        });
        Some(Ranges { ends: ends.collect(), keys_each: (num / count).max(1) })
    }

    fn key(&self, drawn: u64, flags: &Flags) -> u64 {
        let total = self.ends.last().copied().unwrap_or(0).max(1);
        let range = self.ends.partition_point(|end| *end <= drawn % total);
        let range = range.min(self.ends.len() - 1) as u64;
        let inside = drawn % self.keys_each;
        let u = inside as f64 / self.keys_each as f64;
        let offset = Rng::new(power_inverse(u, flags.key_dist_a, flags.key_dist_b));
        self.keys_each * range + { offset }.next_u64() % self.keys_each
    }
}

/// Where the power law `a * x ^ b` reaches `u`.
fn power_inverse(u: f64, a: f64, b: f64) -> u64 {
    (u / a).powf(1.0 / b).ceil() as u64
}

/// Where the generalized Pareto distribution leaves `u`.
fn pareto_inverse(u: f64, theta: f64, k: f64, sigma: f64) -> u64 {
    let value = match k == 0.0 {
        true => theta - sigma * u.ln(),
        false => theta + sigma * (u.powf(-k) - 1.0) / k,
    };
    value.ceil() as u64
}

/// Which operation comes, by the ratios of the flags.
struct Mix {
    ends: [u64; 3],
    ratios: [f64; 3],
}

impl Mix {
    fn new(flags: &Flags) -> Result<Mix> {
        let ratios = [flags.mix_get_ratio, flags.mix_put_ratio, flags.mix_seek_ratio];
        let sum: f64 = ratios.iter().sum();
        if ratios.iter().any(|ratio| *ratio < 0.0) || sum <= 0.0 {
            return Err("mix_get_ratio, mix_put_ratio and mix_seek_ratio: none is above 0".into());
        }
        let ratios = ratios.map(|ratio| ratio / sum);
        let mut end = 0;
        let ends = ratios.map(|ratio| {
            end += (1000.0 * ratio).ceil() as u64;
            end
        });
        Ok(Mix { ends, ratios })
    }

    fn kind(&self, drawn: u64) -> usize {
        let at = drawn % self.ends[2];
        self.ends.iter().position(|end| at < *end).unwrap_or(0)
    }
}

#[derive(Default)]
struct Counts {
    gets: u64,
    puts: u64,
    seeks: u64,
    found: u64,
    value_bytes: u64,
    scanned: u64,
    bytes: u64,
}

/// One worker's share.
pub fn run<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let shared = worker.shared;
    let (plan, flags) = (&shared.plan, &shared.flags);
    let mix = Mix::new(flags)?;
    let has_keys = flags.key_dist_a != 0.0 && flags.key_dist_b != 0.0;
    let ranges = Ranges::new(flags, plan.num).filter(|_| has_keys);
    let longest = usize::try_from(flags.mix_max_value_size).unwrap_or(0).clamp(1, 1 << 20) as u64;
    let (mut readers, mut writers) = (worker.readers(), worker.writers());
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let mut counts = Counts::default();
    let mut limit = worker.limit(plan.reads);
    while !limit.reached(1) {
        let db = worker.pick();
        let drawn = worker.read_key();
        let u = drawn as f64 / plan.num as f64;
        let number = match &ranges {
            _ if !has_keys => drawn,
            Some(ranges) => ranges.key(drawn, flags) % plan.num,
            None => {
                let seed = power_inverse(u, flags.key_dist_a, flags.key_dist_b);
                Rng::new(seed).next_u64() % plan.num
            }
        };
        if flags.sine_mix_rate {
            worker.follow_mix_sine(mix.ratios);
        }
        let key = keys.key(number);
        match mix.kind(drawn) {
            0 => {
                readers[db].select(worker.family(db, number));
                let found = during("get", readers[db].get(key))?;
                counts.gets += 1;
                counts.found += u64::from(found.is_some());
                counts.bytes += found.map_or(0, |len| (key.len() + len) as u64);
                pace(worker, counts.gets + counts.seeks, false);
                worker.finished(1, Operation::Read);
            }
            1 => {
                let len = pareto_inverse(u, flags.value_theta, flags.value_k, flags.value_sigma);
                let len = if len > longest { len % longest } else { len.max(10) };
                during("put", writers[db].put(key, values.value_of(len as usize)))?;
                counts.puts += 1;
                counts.value_bytes += len;
                pace(worker, counts.puts, true);
                worker.finished(1, Operation::Write);
            }
            _ => scan(worker, db, key, u, &mut counts)?,
        }
    }
    let average = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
    worker.stats.add_bytes(counts.bytes);
    worker.stats.set_message(format!(
        "( Gets:{} Puts:{} Seek:{}, reads {} in {} found, avg size: {:.1} value, {:.1} scan)\n",
        counts.gets,
        counts.puts,
        counts.seeks,
        counts.found,
        counts.gets + counts.seeks,
        average(counts.value_bytes, counts.puts),
        average(counts.scanned, counts.seeks),
    ));
    Ok(())
}

fn scan<D: BenchDb>(
    worker: &mut Worker<'_, D>,
    db: usize,
    key: &[u8],
    u: f64,
    counts: &mut Counts,
) -> Result<()> {
    let shared = worker.shared;
    let flags = &shared.flags;
    let mut cursor = shared.dbs[db].cursor(&shared.plan.read, [None, None])?;
    cursor.seek(key);
    counts.seeks += 1;
    counts.found += u64::from(cursor.valid() && cursor.key() == key);
    let longest = u64::try_from(flags.mix_max_scan_len).unwrap_or(0).max(1);
    let len = pareto_inverse(u, flags.iter_theta, flags.iter_k, flags.iter_sigma) % longest;
    for _ in 0..len {
        if !cursor.valid() {
            break;
        }
        counts.bytes += (cursor.key().len() + std::hint::black_box(cursor.value()).len()) as u64;
        counts.scanned += 1;
        cursor.next();
    }
    during("iterator", cursor.status())?;
    worker.finished(1, Operation::Seek);
    Ok(())
}

/// Waits for the limit of reads or writes, once in 100 of them.
fn pace<D: BenchDb>(worker: &Worker<'_, D>, count: u64, write: bool) {
    let shared = worker.shared;
    let limiter = if write { &shared.write_limiter } else { &shared.read_limiter };
    if let Some(limiter) = limiter
        && count.is_multiple_of(100)
    {
        wait_for(limiter, 100);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn operations_come_by_their_ratios() {
        let mut flags = Flags::default();
        for (name, value) in
            [("mix_get_ratio", "0.85"), ("mix_put_ratio", "0.14"), ("mix_seek_ratio", "0.01")]
        {
            assert!(flags.assign(name, value));
        }
        let mix = Mix::new(&flags).unwrap();
        let mut counts = [0; 3];
        (0..1000).for_each(|drawn| counts[mix.kind(drawn)] += 1);
        assert_eq!(counts, [850, 140, 10]);
        assert!(flags.assign("mix_get_ratio", "-1"));
        assert!(Mix::new(&flags).is_err());
    }

    #[pumice_test_macros::test]
    fn popular_ranges_are_drawn_more_often() {
        let mut flags = Flags::default();
        // The parameters of RocksDB's wiki page.
        for (name, value) in [
            ("keyrange_dist_a", "14.18"),
            ("keyrange_dist_b", "-2.917"),
            ("keyrange_dist_c", "0.0164"),
            ("keyrange_dist_d", "-0.08082"),
            ("keyrange_num", "30"),
            ("key_dist_a", "0.002312"),
            ("key_dist_b", "0.3467"),
        ] {
            assert!(flags.assign(name, value));
        }
        let ranges = Ranges::new(&flags, 30_000).unwrap();
        let mut counts = [0u64; 30];
        let mut rng = Rng::new(9);
        for _ in 0..20_000 {
            let key = ranges.key(rng.next_u64(), &flags);
            counts[(key / 1000) as usize] += 1;
        }
        counts.sort_unstable();
        assert!(counts[29] > 5 * counts[15] && counts[15] > counts[0], "{counts:?}");
        assert_eq!(pareto_inverse(1.0, 3.0, 0.5, 7.0), 3);
        assert!(Ranges::new(&Flags::default(), 10).is_none());
    }
}
