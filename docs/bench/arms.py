"""What the scripts of this folder share: running db_bench, arms of a comparison, interleaving, tables.

Environment: PUMICE (binary), ROCKSDB_SO (library), DISK (scratch folder on a real disk), MEMORY (on tmpfs).
"""
import argparse, glob, os, pathlib, re, resource, shutil, statistics, subprocess, sys

HOME = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HOME / "target"))
BINARY = os.environ.get("PUMICE", str(TARGET / "release/pumice"))
LIBRARY = os.environ.get("ROCKSDB_SO") or next(
    iter(glob.glob(str(HOME / ".peers/*.so")) + glob.glob("/opt/pumice-peers/*.so")), "")
DISK = pathlib.Path(os.environ.get("DISK", TARGET / "bench-data")) / f"bench-{os.getpid()}"
MEMORY = pathlib.Path(os.environ.get("MEMORY", "/dev/shm")) / f"pumice-bench-{os.getpid()}"
RESULT = re.compile(r"^(\S+)\s+:\s+([\d.]+) micros/op (\d+) ops/sec ([\d.]+) seconds (\d+) operations;")
CPU = re.compile(r"^(\S+)\s+: cpu ([\d.]+) s")


def children_cpu():
    """CPU seconds, user and system, of every process that has ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def db_bench(flags, engine):
    """Runs db_bench; the whole output."""
    words = [BINARY, "db_bench", "--report_cpu", "--progress_reports=0"] + flags
    if engine == "rocksdb":
        words.append(f"--engine={LIBRARY}")
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}\nended with {done.returncode}")
    return done.stdout


def last(pattern, text, name):
    found = [m for line in text.splitlines() if (m := pattern.match(line)) and m[1] == name]
    if not found:
        sys.exit(f"no result of {name} in:\n{text}")
    return found[-1]


class Arm:
    """One way to do the work of a figure: a benchmark on an engine with flags."""

    def __init__(self, name, engine, benchmark, flags):
        self.name, self.engine, self.benchmark, self.flags = name, engine, benchmark, flags
        self.rates, self.cpu, self.cost, self.whole, self.output = [], [], [], [], ""

    def run(self, common):
        before = children_cpu()
        self.output = db_bench([f"--benchmarks={self.benchmark}"] + common(self.engine) + self.flags, self.engine)
        self.whole.append(children_cpu() - before)
        plain = self.benchmark.split(",")[-1].split("[")[0]
        result = last(RESULT, self.output, plain)
        operations, seconds = int(result[5]), float(result[4])
        cpu = float(last(CPU, self.output, plain)[2])
        self.rates.append(operations / max(seconds, 1e-3))
        self.cpu.append(cpu / max(seconds, 1e-3))
        self.cost.append(cpu * 1e6 / operations)

    def rate(self):
        return statistics.median(self.rates)

    def row(self):
        digits = 0 if self.rate() >= 100 else 3
        spread = f"{min(self.rates):.{digits}f}-{max(self.rates):.{digits}f}"
        cost = f"{statistics.median(self.cost):.2f} ({min(self.cost):.2f}-{max(self.cost):.2f})"
        busy, whole = statistics.median(self.cpu), statistics.median(self.whole)
        return f"| {self.name} | {self.rate():.{digits}f} ({spread}) | {cost} | {busy:.2f} | {whole:.2f} |"


def ratio(a, b, what):
    """Medians of the runs' ratios, each run against the other arm's run of the same round, and their range."""
    of = {"rate": lambda arm: arm.rates, "cost": lambda arm: arm.cost, "process": lambda arm: arm.whole}[what]
    values = [x / y for x, y in zip(of(a), of(b))]
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def compare(title, common, arms, ratios, runs):
    """Runs the arms in turn, `runs` times; prints the table and the ratios (text, a, b, what)."""
    for turn in range(runs):
        # Every other round backwards, so that no arm always follows the same one.
        for arm in arms if turn % 2 == 0 else reversed(arms):
            arm.run(common)
    print(f"\n## {title}\n\n{runs} interleaved runs; medians, smallest and largest in brackets.\n")
    for arm in arms:
        words = [f"--benchmarks={arm.benchmark}"] + common(arm.engine) + arm.flags
        engine = " --engine=LIBRARY" if arm.engine == "rocksdb" else ""
        print(f"- {arm.name}: `pumice db_bench {' '.join(words)}{engine}`")
    print("\n| arm | ops/s | CPU us/op | CPUs busy | CPU s of the process |\n|---|---|---|---|---|")
    for arm in arms:
        print(arm.row())
    print()
    by_name = {arm.name: arm for arm in arms}
    for text, above, below, what in ratios:
        if above not in by_name or below not in by_name:
            continue
        a, b = by_name[above], by_name[below]
        print(f"- {text}: {ratio(a, b, what)}")
    sys.stdout.flush()


ENGINES = ["pumice", "rocksdb"] if LIBRARY else ["pumice"]


def with_rocksdb(arms):
    return [arm for arm in arms if arm.engine in ENGINES]


def clean():
    for folder in (DISK, MEMORY):
        shutil.rmtree(folder, ignore_errors=True)


def run_figures(doc, figures):
    """The command line of a script: names of figures, how often, how long, how large."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", choices=[*figures, "all"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    if not LIBRARY:
        print("no RocksDB library: its arms are left out (cargo xtask peers, or ROCKSDB_SO)", file=sys.stderr)
    try:
        for name in list(figures) if "all" in options.figures else options.figures:
            figures[name](options)
            clean()
    finally:
        clean()
