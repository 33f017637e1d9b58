"""Write, space and read amplification of universal compaction, Pumice and RocksDB in turn.

usage: universal.py RUNS [PROGRAM [LIBRARY]]    (cargo build --release -p pumice-cli; cargo xtask peers)

Amplification: bytes that flushes and compactions wrote per byte of keys and values written; bytes of
tables per byte of distinct keys with one value each, on average and at most while writing.
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

RUNS = int(sys.argv[1])
PROGRAM = sys.argv[2] if len(sys.argv) > 2 else "target/release/pumice"
LIBRARY = sys.argv[3] if len(sys.argv) > 3 else os.environ["PUMICE_ROCKSDB_SO"]
NUM, VALUE = 150_000, 100
WRITES = 6 * NUM
COMMON = (
    f"--compaction_style=1 --num={NUM} --writes={WRITES} --value_size={VALUE} --key_size=16 "
    "--write_buffer_size=1048576 --target_file_size_base=4194304 --compression_type=none --disable_wal=1 "
    "--benchmark_write_rate_limit=6000000 --statistics=1 --max_background_jobs=4 --seed=7 --cache_size=16777216 "
    "--benchmarks=overwrite"
).split()
ROWS = {
    "defaults": [],
    "ratio 20, at most 50 % space": ["--universal_size_ratio=20", "--universal_max_size_amplification_percent=50"],
    "at most 25 % space": ["--universal_max_size_amplification_percent=25"],
    "one level": ["--num_levels=1"],
    "incremental": ["--universal_incremental=1", "--max_compaction_bytes=40000000"],
}


def tables(path):
    total = 0
    for name in os.listdir(path):
        if name.endswith(".sst"):
            try:
                total += os.path.getsize(os.path.join(path, name))
            except FileNotFoundError:
                pass
    return total


def run(flags, library):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = os.path.join(folder, "db")
        os.mkdir(path)
        command = [PROGRAM, "db_bench", f"--db={path}", *COMMON, *flags]
        if library:
            command.append(f"--engine={library}")
        seen, done = [], threading.Event()

        def watch():
            while not done.wait(0.05):
                seen.append(tables(path))

        watcher = threading.Thread(target=watch)
        watcher.start()
        out = subprocess.run(command, capture_output=True, text=True, timeout=120)
        done.set()
        watcher.join()
        if out.returncode:
            sys.exit(out.stdout + out.stderr)

    def ticker(name, text=out.stdout):
        return int(re.search(rf"^{re.escape(name)} COUNT : (\d+)", text, re.M).group(1))

    user = WRITES * (16 + VALUE)
    distinct = NUM * (1 - (1 - 1 / NUM) ** WRITES) * (16 + VALUE)
    return {
        "write": (ticker("rocksdb.flush.write.bytes") + ticker("rocksdb.compact.write.bytes")) / user,
        "space on average": statistics.mean(seen) / distinct,
        "space at most": max(seen) / distinct,
    }


for row, flags in ROWS.items():
    found = {"Pumice": [], "RocksDB": []}
    for _ in range(RUNS):
        found["Pumice"].append(run(flags, None))
        found["RocksDB"].append(run(flags, LIBRARY))
    for measure in found["Pumice"][0]:
        ours, theirs = ([one[measure] for one in found[who]] for who in ("Pumice", "RocksDB"))
        a, b = statistics.median(ours), statistics.median(theirs)
        spread = lambda l: f"{min(l):.3f}-{max(l):.3f}"
        print(f"| {row} | {measure} | {a:.3f} ({spread(ours)}) | {b:.3f} ({spread(theirs)}) | {a / b if b else 1:.3f} |", flush=True)
