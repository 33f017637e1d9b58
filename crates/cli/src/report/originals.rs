//! Published figures of the five original works, from other machines, shown unchanged.
//!
//! Thread safety: constants.

use super::plan::Section;

/// A published table: lines of cells, the first one headings.
pub struct Original {
    /// The table's heading.
    pub title: &'static str,
    /// Lines; cells are parted by `|`.
    pub lines: &'static str,
}

/// What was done then, and what was measured.
pub fn of(section: Section) -> (&'static str, &'static [Original]) {
    match section {
        Section::Compression => (COMPRESSION, &[FILLS, JOBS]),
        Section::Control => (CONTROL, &[]),
        Section::Filters => (FILTERS, &[BUILDS, READS]),
        Section::Priorities => (PRIORITIES, &[LATENCIES]),
        Section::Coroutines => (COROUTINES, &[UPSTREAM]),
        Section::Server => (SERVER, &[]),
        Section::Core => (CORE, &[]),
        Section::Engines => (ENGINES, &[]),
        Section::Growth => (GROWTH, &[]),
    }
}

const COMPRESSION: &str = "The original (RocksDB's pull request 13910, in 10.7) lets several \
    threads compress the blocks of one table through a ring of slots. Published: with zstd and 5 \
    threads 58 % more throughput for 25 % more CPU, where the code before it gave 38 % for 73 %.";
const CONTROL: &str = "The original tunes the rate limiter by its drains and turns compaction off \
    while flushes need it, under writes that follow a sine of 50 to 200 MB/s over 350 s (64 cores, \
    NVMe). Published as pictures: by default compactions write above 700 MB/s and the users' curve \
    breaks off at the peak; with compaction disabled it is followed; with the stock tuned limiter \
    stalls remain; with the rule compactions write 160 to 180 MB/s, the sine is mostly kept, and \
    writes stall only above 64 GiB of debt.";
const FILTERS: &str = "The original simplified how filter blocks are built (pull request 12931) \
    and let filter partitions be cut where they are full instead of where index partitions are \
    (12939, \"decoupled\").";
const PRIORITIES: &str = "The original (pull request 3763, in 5.14) lowers the CPU priority of \
    background threads. Published: p99 of reads down by 93 to 94 %, p50 up by 18 to 22 %.";
const COROUTINES: &str = "The original ran RocksDB on stackful coroutines. Published as pictures: \
    random reads and synced writes about equal to threads, unsynced writes slower; a network \
    server with 1,000 clients on 8 virtual CPUs twice the throughput of a thread pool on 64 cores.";
const SERVER: &str = "The strongest claim of the coroutine work is about servers: 1,000 clients, \
    twice the throughput of a thread pool.";
const CORE: &str =
    "The everyday operations, which none of the five pieces of work may make slower.";
const ENGINES: &str = "Engines that people choose between, under the same driver: the keys, the \
    values and their order are the same.";
const GROWTH: &str = "Cost of an operation as the database outgrows the cache.";

const FILLS: Original = Original {
    title: "fillseq of 10 M keys: ops/s, and CPU seconds of 10 runs",
    lines: "\
codec|threads|before|CPU s|after|CPU s
none|1|1,999,603|72.1|1,964,361|72.7
none|2|1,871,094|148.3|1,914,033|105.0
none|3|1,882,907|147.7|1,978,567|100.2
lz4|1|1,987,858|94.7|2,041,703|92.9
lz4|2|1,590,192|182.7|1,903,210|121.6
lz4|3|1,896,294|174.7|1,973,906|122.2
lz4|4|1,949,174|172.3|1,952,605|123.0
lz4|6|1,912,517|175.9|1,957,524|124.3
lz4|8|1,930,585|176.7|1,986,274|129.1
zstd|1|1,239,379|129.8|1,233,748|130.4
zstd|2|1,171,742|226.1|1,675,226|158.4
zstd|3|1,832,574|214.2|1,929,878|159.8
zstd|4|1,887,124|212.5|1,916,403|161.0
zstd|6|1,920,936|211.7|1,942,526|166.2
zstd|8|1,885,544|214.9|1,966,704|171.6
zstd level 4|1|883,630|161.1|889,905|161.0
zstd level 4|4|1,878,206|243.2|1,942,240|193.2
zstd level 4|8|1,885,002|245.9|1,922,367|205.2
zstd level 6|1|710,767|189.4|713,870|188.9
zstd level 6|4|1,706,377|277.3|1,832,314|219.7
zstd level 6|8|1,866,736|275.1|1,949,631|229.3
zstd level 8|1|529,047|237.9|530,324|238.0
zstd level 8|4|1,401,379|330.6|1,479,767|271.6
zstd level 8|8|1,895,601|321.6|1,949,631|275.6
lz4, with pull request 13850|1|1,954,445|95.1|2,048,214|93.2
lz4, with pull request 13850|3|1,687,043|186.6|1,922,049|122.9
lz4, with pull request 13850|5|1,708,196|188.3|1,980,165|122.5
zstd, with pull request 13850|1|1,220,649|131.2|1,245,165|128.8
zstd, with pull request 13850|3|1,658,100|227.1|1,956,961|158.7
zstd, with pull request 13850|5|1,685,074|226.1|1,970,458|161.0",
};

const JOBS: Original = Original {
    title: "Jobs at once, zstd level 8, 166 cores: 8 threads against 1",
    lines: "\
jobs|wall|CPU|jobs/s with 8|with 1
10|-75 %|+12 %|1.9|0.5
50|-27 %|+89 %|3.1|2.3
100|-5 %|+24 %|3.25|3.1
150|+2 %|+4 %|3.3|3.4
500|no difference|+1 %|3.3|3.3",
};

const BUILDS: Original = Original {
    title: "fillrandom, mean ops/s of 20 runs",
    lines: "\
partitioned / prefix / whole keys|first change: before|after|second: before|after
0/0/1|928,176|935,586|924,851|923,691
0/8/0|926,801|930,171|922,973|921,398
0/8/1|894,397|910,727|908,756|902,259
1/0/1|922,007|929,795|916,901|917,932
1/8/0|917,285|921,924|907,298|912,755
1/8/1|887,340|903,393|892,433|899,754",
};

const READS: Original = Original {
    title: "Reads, ops/s",
    lines: "\
cache MB|decoupled, 4 KiB|coupled, 4 KiB|coupled, 8 KiB
3|15,593|15,158|12,826
6|16,295|16,693|14,134
10|20,427|20,813|18,459
20|27,035|26,836|27,384
30|33,250|31,810|33,846
60|35,518|32,585|35,329
100|36,612|31,805|35,292
300|35,780|31,492|35,481
1000|34,145|31,551|35,411
1200|35,060|31,037|34,322",
};

const LATENCIES: Original = Original {
    title: "Microseconds of a read, best P99 of 10 runs",
    lines: "\
row|average|std. deviation|P50|P75|P99|P99.9|P99.99
zstd|32.3|19.51|1.41|5.27|144.77|6,835.64|24,890.69
zstd, CPU priority lowered|6.51|12.78|1.67|3.30|8.98|30.08|23,877.45
zstd level 6, tiny dictionary|19.1|18.53|1.37|2.92|129.14|526.23|20,604.76
the same, lowered|6.11|18.61|1.65|3.27|9.02|31.65|17,240.06",
};

const UPSTREAM: Original = Original {
    title: "RocksDB's own figures of its coroutine reads (11.8, 8 threads, 11 GB, ops/s; theirs)",
    lines: "\
reads|threads|1 job a thread|2|5|10
Get, direct, 10 % in the cache|41 k|37 k|69 k|125 k|144 k
Get, direct, 90 % in the cache|390 k|330 k|540 k|767 k|849 k
MultiGet of 16, direct, 10 %|65 k|145 k to 166 k|||
Get, page cache, 10 %|403 k|291 k||447 k|",
};
