#!/usr/bin/env python3
"""Figures of one engine on threads and on fibers: arms interleaved, medians, spread, CPU.

    docs/bench/fibers.py [--runs 5] [--seconds 10] [--scale 1.0] FIGURE...

FIGURE: locks fibers io direct multiget fillsync group cached pagecache seed, or all.
Environment: PUMICE (binary), ROCKSDB_SO (library), DISK (scratch folder on a real disk, for I/O), MEMORY (on tmpfs).
Each figure prints its commands, a table, and the ratios that were promised. --scale shrinks databases and caches alike.
"""
import re, subprocess

from arms import DISK, HOME, MEMORY, ENGINES, Arm, compare, db_bench, run_figures, with_rocksdb

def fill(folder, keys, value, extra=()):
    """A compacted database of `keys` keys per engine; a function from engine to flags."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = [f"--num={keys}", f"--value_size={value}", "--compression_type=none", "--bloom_bits=10", *extra]
    for engine in ENGINES:
        db_bench(["--benchmarks=fillseq,compact,waitforcompaction", f"--db={folder / engine}", "--disable_wal=1"]
                 + shape, engine)
    return lambda engine: shape + [f"--db={folder / engine}", "--use_existing_db=true"]


def lasting(seconds):
    return [f"--duration={seconds}", "--ops_between_duration_checks=20"]


def direct(o):
    keys = int(1_000_000 * o.scale)
    cache = keys * 1040 // 8
    base = fill(DISK / "direct", keys, 1024)
    common = lambda e: base(e) + [f"--cache_size={cache}", "--use_direct_reads=true"] + lasting(o.seconds)
    read = "readrandom[W1]"
    arms = with_rocksdb([
        Arm("64 threads", "pumice", read, ["--threads=64"]),
        Arm("64 fibers on 2 loops", "pumice", read, ["--threads=2", "--fibers=64"]),
        Arm("2 threads", "pumice", read, ["--threads=2"]),
        Arm("RocksDB, 64 threads", "rocksdb", read, ["--threads=64"]),
        Arm("RocksDB, 2 threads", "rocksdb", read, ["--threads=2"]),
    ])
    fibers = "64 fibers on 2 loops"
    compare("Random reads with direct I/O, database 8 times the cache", common, arms, [
        ("fibers over 2 threads (at least 2.0)", fibers, "2 threads", "rate"),
        ("fibers over 64 threads (at least 1.0)", fibers, "64 threads", "rate"),
        ("CPU per read, fibers over 64 threads (at most 0.6)", fibers, "64 threads", "cost"),
        ("fibers over RocksDB's 64 threads", fibers, "RocksDB, 64 threads", "rate"),
        ("CPU per read, fibers over RocksDB's 64 threads", fibers, "RocksDB, 64 threads", "cost"),
    ], o.runs)


def multiget(o):
    keys = int(1_000_000 * o.scale)
    base = fill(DISK / "multiget", keys, 1024)
    cache = keys * 1040 // 8
    common = lambda e: base(e) + [f"--cache_size={cache}", "--use_direct_reads=true"] + lasting(o.seconds)
    one, many, batch = "readrandom[W1]", "multireadrandom[W1]", ["--batch_size=16"]
    arms = with_rocksdb([
        Arm("one by one, thread", "pumice", one, ["--threads=1"]),
        Arm("multi_get of 16, thread", "pumice", many, ["--threads=1"] + batch),
        Arm("one by one, fiber", "pumice", one, ["--threads=1", "--fibers=1"]),
        Arm("multi_get of 16, fiber", "pumice", many, ["--threads=1", "--fibers=1"] + batch),
        Arm("RocksDB, one by one", "rocksdb", one, ["--threads=1"]),
        Arm("RocksDB, multi_get of 16", "rocksdb", many, ["--threads=1"] + batch),
    ])
    compare("multi_get of 16 with direct I/O against the same keys one by one (ops are keys)", common, arms, [
        ("on a thread (at least 1.6)", "multi_get of 16, thread", "one by one, thread", "rate"),
        ("on a fiber (at least 1.6)", "multi_get of 16, fiber", "one by one, fiber", "rate"),
        ("RocksDB", "RocksDB, multi_get of 16", "RocksDB, one by one", "rate"),
        ("on a thread over RocksDB's multi_get", "multi_get of 16, thread", "RocksDB, multi_get of 16", "rate"),
    ], o.runs)


def fillsync(o):
    DISK.mkdir(parents=True, exist_ok=True)
    common = lambda e: [f"--db={DISK / 'fillsync'}", "--num=1000000", f"--duration={o.seconds}",
                        "--ops_between_duration_checks=1"]
    for writers in (1, 64, 1000):
        fibers, threads, peer = f"{writers} fibers on 2 loops", f"{writers} threads", f"RocksDB, {writers} threads"
        arms = with_rocksdb([
            Arm(fibers, "pumice", "fillsync", ["--threads=2", f"--fibers={writers}"]),
            Arm(threads, "pumice", "fillsync", [f"--threads={writers}"]),
            Arm(peer, "rocksdb", "fillsync", [f"--threads={writers}"]),
        ])
        compare(f"fillsync, {writers} writers", common, arms, [
            ("fibers over threads", fibers, threads, "rate"),
            ("CPU per write, fibers over threads", fibers, threads, "cost"),
            ("fibers over RocksDB's threads", fibers, peer, "rate"),
        ], o.runs)


def group(o):
    """Writers in a group: writes per sync, from the statistics of a synced fill."""
    DISK.mkdir(parents=True, exist_ok=True)
    common = lambda e: [f"--db={DISK / 'group'}", "--num=1000000", f"--duration={o.seconds}", "--statistics",
                        "--ops_between_duration_checks=1"]
    arms = with_rocksdb([
        Arm("1000 fibers on 2 loops", "pumice", "fillsync", ["--threads=2", "--fibers=1000"]),
        Arm("1000 threads", "pumice", "fillsync", ["--threads=1000"]),
        Arm("RocksDB, 1000 threads", "rocksdb", "fillsync", ["--threads=1000"]),
    ])
    compare("Group commit under 1000 writers", common, arms, [], o.runs)
    for arm in arms:
        count = lambda name: int(m[1]) if (m := re.search(rf"^{name} COUNT : (\d+)", arm.output, re.M)) else 0
        own, other, synced = (count(f"rocksdb.{n}") for n in ("write.self", "write.other", "wal.synced"))
        extra = "; ".join(l for l in arm.output.splitlines() if "write.group" in l)
        print(f"- {arm.name}, last run: {own + other} writes, {own} led a group, {synced} syncs: "
              f"{(own + other) / max(own, 1):.1f} writes a group (above 8). {extra}")


def cached(o):
    keys = int(1_000_000 * o.scale)
    base = fill(MEMORY / "cached", keys, 100)
    common = lambda e: base(e) + ["--cache_size=2000000000"] + lasting(o.seconds)
    read = "readrandom[W1]"
    arms = with_rocksdb([
        Arm("2 threads", "pumice", read, ["--threads=2"]),
        Arm("2 fibers on 2 loops", "pumice", read, ["--threads=2", "--fibers=2"]),
        Arm("64 fibers on 2 loops", "pumice", read, ["--threads=2", "--fibers=64"]),
        Arm("RocksDB, 2 threads", "rocksdb", read, ["--threads=2"]),
    ])
    compare("Cached random reads", common, arms, [
        ("2 fibers over 2 threads (within 5 %)", "2 fibers on 2 loops", "2 threads", "rate"),
        ("64 fibers over 2 threads (within 5 %)", "64 fibers on 2 loops", "2 threads", "rate"),
        ("2 fibers over RocksDB's 2 threads", "2 fibers on 2 loops", "RocksDB, 2 threads", "rate"),
    ], o.runs)


def pagecache(o):
    keys = int(1_000_000 * o.scale)
    base = fill(DISK / "pagecache", keys, 1024)
    common = lambda e: base(e) + ["--cache_size=8388608"] + lasting(o.seconds)
    read = "readrandom[W1]"
    arms = with_rocksdb([
        Arm("2 threads (pread)", "pumice", read, ["--threads=2"]),
        Arm("2 fibers on 2 loops", "pumice", read, ["--threads=2", "--fibers=2"]),
        Arm("64 fibers on 2 loops", "pumice", read, ["--threads=2", "--fibers=64"]),
        Arm("RocksDB, 2 threads", "rocksdb", read, ["--threads=2"]),
    ])
    compare("Random reads out of the page cache", common, arms, [
        ("2 fibers over plain pread (at least 1.0)", "2 fibers on 2 loops", "2 threads (pread)", "rate"),
        ("64 fibers over plain pread (at least 1.0)", "64 fibers on 2 loops", "2 threads (pread)", "rate"),
        ("CPU per read, 2 fibers over plain pread", "2 fibers on 2 loops", "2 threads (pread)", "cost"),
    ], o.runs)


def seed(o):
    """The modern comparison of ../shared/spec/seed-features.md 6.6, its own flags, beside the thread benchmark."""
    keys, reads = int(2_000_000 * o.scale), int(320_000 * o.scale) // 80 * 80
    folder = DISK / "seed"
    fill(folder, keys, 1024)
    common = lambda e: [f"-db={folder / e}", "-use_existing_db=true", f"-num={keys}", "-value_size=1024",
                        "-compression_type=none", "-threads=8", "-batch_size=16", "-use_direct_reads=true",
                        f"-cache_size={int(402653184 * o.scale)}", f"-reads={reads}", "-statistics"]
    arms = with_rocksdb([
        Arm("1 job per thread", "pumice", "multireadrandomcoroutine", ["-coro_jobs_per_thread=1"]),
        Arm("10 jobs per thread", "pumice", "multireadrandomcoroutine", ["-coro_jobs_per_thread=10"]),
        Arm("8 threads", "pumice", "multireadrandom", []),
        Arm("RocksDB, 8 threads", "rocksdb", "multireadrandom", []),
    ])
    compare("multireadrandomcoroutine", common, arms, [
        ("10 jobs over threads", "10 jobs per thread", "8 threads", "rate"),
        ("10 jobs over 1 job", "10 jobs per thread", "1 job per thread", "rate"),
        ("10 jobs over RocksDB's threads", "10 jobs per thread", "RocksDB, 8 threads", "rate"),
    ], o.runs)


def port_bench(name):
    def run(_options):
        words = ["cargo", "bench", "--quiet", "-p", "pumice-port", "--bench", name]
        print(f"\n## {name}\n\n`{' '.join(words)}`\n", flush=True)
        subprocess.run(words, cwd=HOME, check=True, timeout=3600)
    return run


FIGURES = {
    "locks": port_bench("locks"), "fibers": port_bench("fibers"), "io": port_bench("io"), "direct": direct, "multiget": multiget,
    "fillsync": fillsync, "group": group, "cached": cached, "pagecache": pagecache, "seed": seed,
}

if __name__ == "__main__":
    run_figures(__doc__, FIGURES)
