"""How long databases take to open, Pumice and RocksDB in turn.

usage: opening.py RUNS FOLDER [PROGRAM [LIBRARY]]    (cargo build --release -p pumice-cli; cargo xtask peers)

Rows: logs that a killed process left, in one column family and in twenty, and databases of many small tables with all of
them held open and with 1,000. What is printed: the median of the seconds of wall time and of processor time of a
process that opens the database, reads no key and closes it, the largest memory of the process, and their ratios.
PUMICE_OPENING=large adds a log of 1 GB and 100,000 tables.
"""
import os
import shutil
import statistics
import subprocess
import sys
import time

RUNS, FOLDER = int(sys.argv[1]), os.path.abspath(sys.argv[2])
PROGRAM = sys.argv[3] if len(sys.argv) > 3 else "target/release/pumice"
LIBRARY = sys.argv[4] if len(sys.argv) > 4 else os.environ["PUMICE_ROCKSDB_SO"]
LARGE = os.environ.get("PUMICE_OPENING") == "large"
IN_THE_LOG = ["--write_buffer_size=8589934592", "--avoid_flush_during_shutdown=1"]


def bench(path, benchmark, *flags):
    command = [PROGRAM, "db_bench", f"--db={path}", f"--benchmarks={benchmark}", "--compression_type=none", *flags]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {process.returncode}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def log(megabytes, families=1):
    entries = megabytes * 1_000_000 // 138
    few = [f"--num_column_families={families}"] if families > 1 else []

    def make(path):
        bench(path, "fillrandom", f"--num={entries}", *IN_THE_LOG, *few)

    return make, few


def tables(count):
    def make(path):
        # A memtable of 64 KiB, the least there is, becomes a table that is moved to the last level.
        bench(path, "fillseq", f"--num={count * 400}", "--write_buffer_size=65536", "--disable_wal=1",
              "--level0_slowdown_writes_trigger=1000", "--level0_stop_writes_trigger=1000")
        found = sum(name.endswith(".sst") for name in os.listdir(path))
        print(f"  {found} tables")

    return make


THOUSAND, TEN_THOUSAND = tables(1000), tables(10_000)
ROWS = {
    "log of 0.1 GB": (*log(100),),
    "log of 0.4 GB": (*log(400),),
    "log of 0.4 GB, 20 column families": (*log(400, 20),),
    "1,000 tables, all open": (THOUSAND, ["--open_files=-1"]),
    "1,000 tables, 100 open": (THOUSAND, ["--open_files=100"]),
    "10,000 tables, all open": (TEN_THOUSAND, ["--open_files=-1"]),
    "10,000 tables, 1,000 open": (TEN_THOUSAND, ["--open_files=1000"]),
}
if LARGE:
    ROWS["log of 1 GB"] = log(1000)
    ROWS["100,000 tables, 1,000 open"] = (tables(100_000), ["--open_files=1000"])


def opened(source, flags, engine):
    """Both engines open a copy: what an open changes is no part of the next one."""
    path = os.path.join(FOLDER, "copy")
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, path)
    more = [f"--engine={LIBRARY}"] if engine == "rocksdb" else []
    return bench(path, "levelstats", "--use_existing_db=1", "--disable_auto_compactions=1", *flags, *more)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    source = os.path.join(FOLDER, "source")
    made = None
    for name, (make, flags) in ROWS.items():
        if made is not make:
            shutil.rmtree(source, ignore_errors=True)
            make(source)
            made = make
        runs = {"pumice": [], "rocksdb": []}
        for turn in range(RUNS):
            order = list(runs) if turn % 2 == 0 else list(reversed(runs))
            for engine in order:
                runs[engine].append(opened(source, flags, engine))
        ours, theirs = ([statistics.median(column) for column in zip(*runs[engine])] for engine in ("pumice", "rocksdb"))
        ratios = sorted(b[0] / a[0] for a, b in zip(runs["pumice"], runs["rocksdb"]))
        print(f"{name}: wall {ours[0]:.3f} s, {theirs[0]:.3f} s, times {theirs[0] / ours[0]:.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f});"
              f" CPU {ours[1]:.2f}, {theirs[1]:.2f}; memory {ours[2]:.0f} MB, {theirs[2]:.0f} MB", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)


main()
