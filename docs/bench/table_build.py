#!/usr/bin/env python3
"""Building and reading tables against RocksDB: arms interleaved, medians, spread, CPU.

    docs/bench/table_build.py [--runs 5] [--seconds 10] [--scale 1.0] FIGURE...

FIGURE: fillseq levels helpers compaction filters reads layouts copies sizes, or all. The commands are those of ../shared/spec/seed-features.md
1.5 and 3.5 as they are written, with another -num (at scale 1: 3 M keys, a tenth of the original memtable for reads).
Environment: PUMICE (binary), ROCKSDB_SO (library), MEMORY (scratch folder on tmpfs).
Each figure prints its commands, a table, and the ratios that were promised.
"""
import pathlib, shutil, statistics, subprocess, sys

from arms import BINARY, ENGINES, MEMORY, RESULT, Arm, compare, db_bench, last, run_figures, with_rocksdb

FIFO = ["-compaction_style=2", "-fifo_compaction_allow_compaction=0"]


def engines():
    return [("pumice", "Pumice"), ("rocksdb", "RocksDB")]


def build_flags(num):
    return lambda e: [f"-db={MEMORY}/dbbench_{e}", f"-num={num}", *FIFO, "-fifo_compaction_max_table_files_size_mb=1000",
                      "-disable_wal", "-write_buffer_size=12000000", "-format_version=7"]


def fillseq(o):
    """1.5 B: fillseq by codec and parallel_threads."""
    common = build_flags(int(3_000_000 * o.scale))
    for codec, counts in (("none", [1]), ("lz4", [1, 3]), ("zstd", [1, 2, 3])):
        arms, ratios = [], []
        for threads in counts:
            flags = [f"-compression_type={codec}", f"-compression_parallel_threads={threads}"]
            for engine, name in engines():
                arms.append(Arm(f"{name}, {codec}, {threads}", engine, "fillseq", flags))
            names = [f"{name}, {codec}, {threads}" for _, name in engines()]
            ratios += [(f"throughput over RocksDB, {threads}", *names, "rate"),
                       (f"CPU of the process over RocksDB, {threads}", *names, "process")]
            if threads > 1:
                ratios += [(f"CPU of the process over serial, Pumice {threads}", names[0], f"Pumice, {codec}, 1", "process"),
                           (f"throughput over serial, Pumice {threads}", names[0], f"Pumice, {codec}, 1", "rate")]
        compare(f"fillseq, {codec}", common, with_rocksdb(arms), ratios, o.runs)


def levels(o):
    """1.5 C: zstd levels by parallel_threads."""
    common = build_flags(int(1_500_000 * o.scale))
    for level in (3, 6, 8, 12):
        arms, ratios = [], []
        for threads in (1, 2, 3):
            flags = ["-compression_type=zstd", f"-compression_level={level}", f"-compression_parallel_threads={threads}"]
            for engine, name in engines():
                arms.append(Arm(f"{name}, {threads}", engine, "fillseq", flags))
            ratios += [(f"throughput over RocksDB, {threads}", f"Pumice, {threads}", f"RocksDB, {threads}", "rate"),
                       (f"CPU over RocksDB, {threads}", f"Pumice, {threads}", f"RocksDB, {threads}", "process")]
        for threads in (2, 3):
            for _, name in engines():
                ratios += [(f"{name}, {threads} over serial, throughput", f"{name}, {threads}", f"{name}, 1", "rate"),
                           (f"{name}, {threads} over serial, CPU", f"{name}, {threads}", f"{name}, 1", "process")]
        compare(f"fillseq, zstd level {level}", common, with_rocksdb(arms), ratios, o.runs)


class Beside(Arm):
    """Beside a process that keeps another processor busy without touching memory: what the machine takes by itself for two
    busy processors. Its CPU time is not counted."""

    def run(self, common):
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            super().run(common)
        finally:
            busy.kill()
            busy.wait()


def helpers(o):
    """CPU with helpers over serial, Pumice alone, runs of 2 s and more; and of the serial fill beside a busy processor."""
    for level, num in ((3, 4_500_000), (6, 3_000_000), (8, 2_200_000), (12, 1_100_000)):
        common = build_flags(int(num * o.scale))
        flags = lambda threads: ["-compression_type=zstd", f"-compression_level={level}", f"-compression_parallel_threads={threads}"]
        arms = [Arm(str(threads), "pumice", "fillseq", flags(threads)) for threads in (1, 2, 3)]
        arms.append(Beside("1, beside a busy processor", "pumice", "fillseq", flags(1)))
        ratios = [(f"{arm.name} over serial, CPU", arm.name, "1", "process") for arm in arms[1:]]
        ratios += [(f"{threads} over serial, throughput", threads, "1", "rate") for threads in ("2", "3")]
        ratios += [(f"{threads} over serial beside a busy processor, CPU", threads, arms[3].name, "process") for threads in ("2", "3")]
        compare(f"fillseq with helpers, zstd level {level}", common, arms, ratios, o.runs)


class Compaction(Arm):
    """One `compact` of a fresh copy of a loaded database; the rate is compactions a second."""

    def __init__(self, name, engine, flags):
        super().__init__(name, engine, "compact", flags)

    def run(self, common):
        scratch = MEMORY / "compact"
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(MEMORY / f"loaded_{self.engine}", scratch)
        super().run(common)
        shutil.rmtree(scratch)


def compaction(o):
    """Compaction of a preloaded database at zstd 6; four sorted runs of all keys."""
    num = int(4_000_000 * o.scale)
    shape = [f"-num={num}", "-compression_type=zstd", "-compression_level=6", "-disable_auto_compactions=1",
             "-level0_stop_writes_trigger=1000", "-level0_slowdown_writes_trigger=1000", "-disable_wal",
             "-write_buffer_size=33554432", "-subcompactions=1", "-seed=7"]
    MEMORY.mkdir(parents=True, exist_ok=True)
    for engine in ENGINES:
        db_bench(["-benchmarks=fillrandom,flush", f"-db={MEMORY}/loaded_{engine}"] + shape, engine)
    common = lambda e: shape + [f"-db={MEMORY}/compact", "-use_existing_db=1"]
    arms, ratios = [], []
    for threads in (1, 2, 3):
        for engine, name in engines():
            arms.append(Compaction(f"{name}, {threads}", engine, [f"-compression_parallel_threads={threads}"]))
    for threads in (2, 3):
        for _, name in engines():
            ratios += [(f"{name}, {threads} over serial (Pumice: at least 1.6 with 2)", f"{name}, {threads}", f"{name}, 1", "rate"),
                       (f"{name}, {threads} over serial, CPU", f"{name}, {threads}", f"{name}, 1", "process")]
    ratios += [(f"Pumice over RocksDB, {t}", f"Pumice, {t}", f"RocksDB, {t}", "rate") for t in (1, 2, 3)]
    compare("compact of a loaded database, zstd level 6", common, with_rocksdb(arms), ratios, o.runs)


def filters(o):
    """3.5, writing: fillrandom into vectors with filters."""
    num = int(3_000_000 * o.scale)
    common = lambda e: [f"-db={MEMORY}/dbbench_{e}", f"-num={num}", "-disable_wal=1", "-write_buffer_size=30000000",
                        "-memtablerep=vector", "-allow_concurrent_memtable_write=0", "-bloom_bits=10", *FIFO,
                        "-fifo_compaction_max_table_files_size_mb=10000"]
    for partitioned in (0, 1):
        for prefix, whole in ((0, 1), (8, 0), (8, 1)):
            flags = [f"-partition_index_and_filters={partitioned}", f"-prefix_size={prefix}", f"-whole_key_filtering={whole}"]
            arms = [Arm(name, engine, "fillrandom", flags) for engine, name in engines()]
            compare(f"fillrandom, partitions {partitioned}, prefix {prefix}, whole keys {whole}", common, with_rocksdb(arms), [
                ("throughput over RocksDB (at least 1.5)", "Pumice", "RocksDB", "rate"),
                ("CPU of the process over RocksDB", "Pumice", "RocksDB", "process"),
            ], o.runs)


LAYOUTS = {"decoupled": 1, "coupled": 0}
CACHES = (1, 3, 10, 30, 100, 400)


def load_layouts(o, engines):
    """Fills a database of many files for each layout of partitions and engine; the flags of all reads."""
    MEMORY.mkdir(parents=True, exist_ok=True)
    shape = [f"-num={int(3_000_000 * o.scale)}", "-disable_wal=1", "-write_buffer_size=9000000", "-bloom_bits=10", *FIFO,
             "-fifo_compaction_max_table_files_size_mb=10000", "-partition_index_and_filters=1", "-metadata_block_size=4096"]
    for layout, decoupled in LAYOUTS.items():
        for engine in engines:
            db_bench(["-benchmarks=fillrandom,flush", f"-db={MEMORY}/{layout}_{engine}", f"-decouple_partitioned_filters={decoupled}",
                      "-seed=7"] + shape, engine)
    return shape


def reads(o):
    """3.5, reading: point reads over many files by cache size. Each engine reads what it wrote, the same keys."""
    shape = load_layouts(o, ENGINES)
    for megabytes in CACHES:
        arms = []
        for layout, decoupled in LAYOUTS.items():
            for engine, name in engines():
                flags = [f"-db={MEMORY}/{layout}_{engine}", f"-decouple_partitioned_filters={decoupled}"]
                arms.append(Arm(f"{name}, {layout}", engine, "readrandom[W1]", flags))
        common = lambda e: shape + ["-use_existing_db=1", f"-duration={o.seconds}", "-statistics=1", f"-cache_size=0{megabytes}000000"]
        compare(f"readrandom, cache {megabytes} MB", common, with_rocksdb(arms), [
            ("decoupled over coupled (at least 1)", "Pumice, decoupled", "Pumice, coupled", "rate"),
            ("decoupled over RocksDB's (at least 1.2)", "Pumice, decoupled", "RocksDB, decoupled", "rate"),
            ("coupled over RocksDB's", "Pumice, coupled", "RocksDB, coupled", "rate"),
            ("CPU per read, decoupled over RocksDB's", "Pumice, decoupled", "RocksDB, decoupled", "cost"),
            ("RocksDB, decoupled over coupled", "RocksDB, decoupled", "RocksDB, coupled", "rate"),
        ], o.runs)


def read_at_once(sides, flags):
    """Operations a second of two databases, (folder, decoupled) each, read at the same time, each on a processor of its own; then again
    with the processors changed. What slows the machine down for a while slows both."""
    rates = [], []
    for first in (0, 1):
        running = []
        for processor, (folder, decoupled) in zip((first, 1 - first), sides):
            words = ["taskset", "-c", str(processor), BINARY, "db_bench", "-benchmarks=readrandom[W1]", "--progress_reports=0",
                     f"-db={MEMORY}/{folder}", f"-decouple_partitioned_filters={decoupled}"] + flags
            running.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        for side, process in zip(rates, running):
            side.append(int(last(RESULT, process.communicate()[0], "readrandom")[3]))
    return rates


def ratio(rates):
    """The geometric mean of what both processors gave."""
    return statistics.geometric_mean(mine / theirs for mine, theirs in zip(*rates))


def layouts(o):
    """Decoupled against coupled partitions alone."""
    shape = load_layouts(o, ["pumice"])
    print("\n## Decoupled over coupled, read at the same time\n")
    print("| cache | decoupled ops/s | coupled ops/s | ratio | quartiles | range |\n|---|---|---|---|---|---|")
    for megabytes in CACHES:
        flags = shape + ["-use_existing_db=1", f"-duration={o.seconds}", f"-cache_size=0{megabytes}000000"]
        rounds = [read_at_once([(f"{layout}_pumice", decoupled) for layout, decoupled in LAYOUTS.items()], flags) for _ in range(o.runs)]
        of = [statistics.median(rate for rates in rounds for rate in rates[side]) for side in (0, 1)]
        ratios = [ratio(rates) for rates in rounds]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"| {megabytes} MB | {of[0]:.0f} | {of[1]:.0f} | {middle:.3f} | {low:.3f}-{high:.3f} | {min(ratios):.2f}-{max(ratios):.2f} |",
              flush=True)


def copies(o):
    """What `layouts` gives for two databases that are the same: copies of the coupled one, made anew each round, and a copy of the
    decoupled one against both. Where the pages of a database lie in memory differs from copy to copy."""
    shape = load_layouts(o, ["pumice"])
    flags = shape + ["-use_existing_db=1", f"-duration={o.seconds}", f"-cache_size=0{CACHES[0]}000000"]
    sides = {"coupled": ("coupled_pumice", 0), "copy": ("copy", 0), "decoupled": ("decoupled_copy", 1)}
    pairs = [("coupled", "copy"), ("decoupled", "coupled"), ("decoupled", "copy")]
    print(f"\n## Copies, {CACHES[0]} MB\n\n| " + " | ".join(f"{mine} over {theirs}" for mine, theirs in pairs) + " |\n|---|---|---|")
    found = []
    for _ in range(o.runs):
        for copy, of in (("copy", "coupled_pumice"), ("decoupled_copy", "decoupled_pumice")):
            shutil.rmtree(MEMORY / copy, ignore_errors=True)
            shutil.copytree(MEMORY / of, MEMORY / copy)
        found.append([ratio(read_at_once([sides[mine], sides[theirs]], flags)) for mine, theirs in pairs])
        print("| " + " | ".join(f"{value:.3f}" for value in found[-1]) + " |", flush=True)
    print("\nmedians: " + ", ".join(f"{statistics.median(column):.3f}" for column in zip(*found)))


def sizes(o):
    """1.5 A: sizes of files after a compaction, serial and parallel."""
    num = int(3_000_000 * o.scale)
    print("\n## File sizes\n\n| engine | parallel_threads | files | smallest | largest |\n|---|---|---|---|---|")
    for engine, name in [pair for pair in engines() if pair[0] in ENGINES]:
        for threads in (1, 8):
            folder = MEMORY / "dbbench_filesize"
            shutil.rmtree(folder, ignore_errors=True)
            db_bench([f"-db={folder}", "-benchmarks=fillseq,compact", f"-num={num}", "-compression_type=zstd",
                      "-compression_level=8", f"-compression_parallel_threads={threads}"], engine)
            found = sorted(file.stat().st_size for file in pathlib.Path(folder).glob("*.sst"))
            print(f"| {name} | {threads} | {len(found)} | {found[0]} | {found[-1]} |")


FIGURES = {"fillseq": fillseq, "levels": levels, "helpers": helpers, "compaction": compaction, "filters": filters, "reads": reads,
           "layouts": layouts, "copies": copies, "sizes": sizes}

if __name__ == "__main__":
    run_figures(__doc__, FIGURES)
