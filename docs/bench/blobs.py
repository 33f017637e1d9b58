"""Values in blob files, Pumice and RocksDB in turn.

usage: blobs.py RUNS FOLDER [PROGRAM [LIBRARY]]    (cargo build --release -p pumice-cli; cargo xtask peers)

For values of 1, 4 and 64 KiB, PUMICE_BLOBS_MB megabytes of them (256): fillrandom; overwrite and a full compaction, with
garbage collection; then readrandom, seekrandom of ten entries and readseq, with a block cache of 32 MB, no blob cache and warm pages.
What is printed: the median of the operations per second of each engine, the median of the ratios of two neighbouring runs with
the smallest and the largest (above 1 Pumice is faster), bytes of write calls while filling and overwriting for each byte
of values, and bytes of the directory at the end for each byte of values.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys

RUNS, FOLDER = int(sys.argv[1]), os.path.abspath(sys.argv[2])
PROGRAM = sys.argv[3] if len(sys.argv) > 3 else "target/release/pumice"
LIBRARY = sys.argv[4] if len(sys.argv) > 4 else os.environ["PUMICE_ROCKSDB_SO"]
MEGABYTES = int(os.environ.get("PUMICE_BLOBS_MB", "256"))
FLAGS = ["--enable_blob_files=1", "--min_blob_size=512", "--blob_file_size=33554432", "--enable_blob_garbage_collection=1",
         "--compression_type=none", "--write_buffer_size=16777216", "--cache_size=33554432", "--seek_nexts=10"]
PARTS = [("fillrandom", []), ("overwrite,compact", ["--use_existing_db=1"]),
         ("readrandom", ["--use_existing_db=1"]), ("seekrandom", ["--use_existing_db=1"]),
         ("readseq", ["--use_existing_db=1"])]


def bench(engine, path, part, flags):
    """Seconds that the benchmarks of a part took together, its operations, and the bytes of write calls."""
    more = [f"--engine={LIBRARY}"] if engine == "rocksdb" else []
    command = [PROGRAM, "db_bench", f"--db={path}", f"--benchmarks={part}", "--report_cpu=1", *FLAGS, *flags, *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stderr}")
    found = re.findall(r"^(\w+) +: +[\d.]+ micros/op \d+ ops/sec ([\d.]+) seconds (\d+) operations", done.stdout, re.M)
    seconds = sum(float(took) for _, took, _ in found)
    written = re.search(r"wrote ([\d.]+) MB", done.stderr + done.stdout)
    return seconds, int(found[0][2]), float(written.group(1)) if written else float("nan")


def run(engine, path, size):
    count = MEGABYTES * (1 << 20) // size
    figures, written = [], 0.0
    shutil.rmtree(path, ignore_errors=True)
    for number, (part, flags) in enumerate(PARTS):
        fewer = ["--reads=" + str(min(count, 20_000))] if "random" in part and number > 1 else []
        seconds, operations, bytes_written = bench(
            engine, path, part, [f"--num={count}", f"--value_size={size}", "--seed=17", *flags, *fewer])
        figures.append(operations / max(seconds, 1e-6))
        written += bytes_written if number < 2 else 0.0
    space = sum(entry.stat().st_size for entry in os.scandir(path))
    shutil.rmtree(path, ignore_errors=True)
    return figures, written * 1e6 / (count * size), space / (count * size)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for size in (1024, 4096, 65536):
        runs = {"pumice": [], "rocksdb": []}
        for turn in range(RUNS):
            order = list(runs) if turn % 2 == 0 else list(reversed(runs))
            for engine in order:
                runs[engine].append(run(engine, os.path.join(FOLDER, engine), size))
        for number, (part, _) in enumerate(PARTS):
            ours, theirs = ([one[0][number] for one in runs[engine]] for engine in ("pumice", "rocksdb"))
            ratios = sorted(a / b for a, b in zip(ours, theirs))
            print(f"{size} {part}: {statistics.median(ours):.0f}, {statistics.median(theirs):.0f} ops/s,"
                  f" times {statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})", flush=True)
        for at, what in ((1, "written"), (2, "space")):
            ours, theirs = (statistics.median(one[at] for one in runs[engine]) for engine in ("pumice", "rocksdb"))
            print(f"{size} {what}: {ours:.2f}, {theirs:.2f} of the values", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)


main()
