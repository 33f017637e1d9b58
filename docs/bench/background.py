#!/usr/bin/env python3
"""Background work on a device that is the bottleneck, and on cores that are.

    background.py sine [--periods 6] | values | mixed [--seconds 180] | peak [--closed 120] [--seconds 180]
    background.py priorities [--rounds 10] [--readers 1,2,8] [--rate 20000000]

As root, on an idle machine. Every row has an ext4 of its own on a loop device in memory whose writes are throttled to
--device bytes a second (cgroup v1, blkio.throttle.write_bps_device); --devices rows run side by side. `peak` writes as
fast as it can first; the second half of that is the rate that a row sustains. Then 1.2 times that rate is offered,
and beside it a thread sleeps 250 us at a time, to tell what of a write's latency is the kernel's waking up.
`priorities` needs no device: databases in memory, a fresh copy for each run, rows in turns. Prints a table in Markdown;
what db_bench printed stays in --out. The scale is that of the auto-tuning benchmark with rates x 0.1 and time x 0.2.
"""
import argparse, math, pathlib, re, shutil, statistics, subprocess, sys, time

from arms import BINARY, LIBRARY

THROTTLE = pathlib.Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
SINE = {"a": 7_500_000, "b": 0.0897142785, "c": 4.71, "d": 12_500_000, "every": 2.0}
COMMON = """--report_stalls --report_cpu --histogram --compression_type=none --report_interval_seconds=1 --progress_reports=0
 --use_direct_reads=true --use_direct_io_for_flush_and_compaction=true --bytes_per_sync=1048576""".split()
SINE_FLAGS = """--benchmarks=fillrandom,waitforcompaction,stats --sine_write_rate=true
 --sine_write_rate_interval_milliseconds=2000 --sine_a=7500000 --sine_b=0.0897142785 --sine_c=4.71 --sine_d=12500000
 --max_write_buffer_number=6 --max_background_flushes=4 --max_background_compactions=2 --subcompactions=2
 --enable_pipelined_write=true --write_buffer_size=1342177 --max_bytes_for_level_base=5368709
 --target_file_size_base=1342177 --soft_pending_compaction_bytes_limit=1374389534
 --hard_pending_compaction_bytes_limit=5497558139 --delayed_write_rate=838860 --cache_size=8388608
 --rate_limiter_refill_period_us=20000 --background_readers=1 --background_read_rate=50""".split()
MIXED_FLAGS = """--benchmarks=seekrandomwhilewriting,stats --use_existing_db=1 --num=300000 --value_size=4096
 --max_write_buffer_number=4 --max_background_flushes=2 --max_background_compactions=2 --write_buffer_size=8388608
 --max_bytes_for_level_base=33554432 --target_file_size_base=8388608 --soft_pending_compaction_bytes_limit=536870912
 --hard_pending_compaction_bytes_limit=2147483648 --cache_size=67108864 --bloom_bits=10 --seek_nexts=10
 --benchmark_read_rate_limit=600 --benchmark_write_rate_limit=12000000 --background_readers=1
 --background_read_rate=300""".split()
STATIC = ["--background_policy=static"]
LIMITER = ["--rate_limiter_auto_tuned=true", "--rate_limiter_bytes_per_sec=38000000"]
NO_COMPACTION = ["--disable_auto_compactions=1", "--level0_slowdown_writes_trigger=1000000",
                 "--level0_stop_writes_trigger=1000000", "--soft_pending_compaction_bytes_limit=0",
                 "--hard_pending_compaction_bytes_limit=0"]


class Row:
    def __init__(self, name, engine="pumice", flags=()):
        self.name, self.engine, self.flags, self.text, self.rates = name, engine, list(flags), "", []

    def command(self, flags, folder):
        words = [BINARY, "db_bench", f"--db={folder / 'db'}", f"--report_file={folder / 'report.csv'}"]
        words += COMMON + list(flags) + self.flags
        return words + ([f"--engine={LIBRARY}"] if self.engine == "rocksdb" else [])


def sh(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class Device:
    """A throttled ext4 in memory."""

    def __init__(self, number, rate, gigabytes):
        self.folder = pathlib.Path(f"/mnt/pumice-bench-{number}")
        self.image = f"/dev/shm/pumice-bench-{number}.img"
        sh("truncate", "-s", f"{gigabytes}G", self.image)
        sh("mkfs.ext4", "-q", "-F", "-O", "^has_journal", self.image)
        self.loop = sh("losetup", "-f", "--show", "--direct-io=on", self.image)
        self.folder.mkdir(exist_ok=True)
        sh("mount", "-o", "noatime", self.loop, str(self.folder))
        self.throttle(rate)

    def throttle(self, rate):
        THROTTLE.write_text(f"{sh('lsblk', '-no', 'MAJ:MIN', self.loop)} {rate}")

    def written(self):
        return int(pathlib.Path(f"/sys/block/{pathlib.Path(self.loop).name}/stat").read_text().split()[6]) * 512

    def close(self):
        subprocess.run(["umount", str(self.folder)])
        subprocess.run(["losetup", "-d", self.loop])
        pathlib.Path(self.image).unlink()


SLEEPER = """
import time
end, all = time.monotonic() + {}, []
while time.monotonic() < end:
    began = time.perf_counter_ns()
    time.sleep(250e-6)
    all.append(time.perf_counter_ns() - began)
all.sort()
print(", ".join(f"{{all[int(len(all) * share)] / 1e6:.2f}}" for share in (0.5, 0.99, 0.999)))
"""


def side_by_side(rows, flags_of, options, prepare=None, sleeps=0):
    """Runs the rows, as many at a time as there are devices; each row gets `text`, `rates`, `device_bytes`.
    With `sleeps` also `slept`: how long 250 us of sleep take a thread that does nothing else for so many seconds."""
    for first in range(0, len(rows), options.devices):
        group = rows[first:first + options.devices]
        devices = [Device(i, options.device, options.gigabytes) for i in range(len(group))]
        try:
            if prepare:
                prepare(group, devices)
            before = [d.written() for d in devices]
            running = []
            for row, device in zip(group, devices):
                output = open(options.out / f"{row.name.replace(' ', '_').replace(',', '')}.txt", "w+")
                running.append((subprocess.Popen(row.command(flags_of(row), device.folder), stdout=output,
                                                 stderr=subprocess.STDOUT), output))
            sleeper = sleeps and subprocess.Popen([sys.executable, "-c", SLEEPER.format(sleeps)],
                                                  stdout=subprocess.PIPE, text=True)
            slept = sleeper.communicate()[0].strip() if sleeper else ""
            for row, device, start, (process, output) in zip(group, devices, before, running):
                code, row.slept = process.wait(), slept
                output.seek(0)
                row.text = output.read()
                if code != 0:
                    sys.exit(f"{row.name} ended with {code}\n{row.text[-3000:]}")
                row.device_bytes = device.written() - start
                report = device.folder / "report.csv"
                row.rates = [int(l.split(",")[1]) for l in report.read_text().splitlines()[1:]] if report.exists() else []
        finally:
            for device in devices:
                device.close()


def percentiles(text, heading):
    """The last histogram below a heading: a dictionary such as {'P99': us}."""
    at = text.rfind(heading)
    found = re.search(r"Percentiles: (.*)", text[at:]) if at >= 0 else None
    return {k: float(v) for k, v in re.findall(r"(P[\d.]+): ([\d.]+)", found[1])} if found else {}


def number(pattern, text):
    found = re.findall(pattern, text)
    return float(found[-1]) if found else math.nan


def written_mb(text, entry):
    """What users wrote, by the number of writes in the statistics: thousands, where `ingest` has steps of 10 MB."""
    writes, unit = re.findall(r"Cumulative writes: ([\d.]+)([KMG]?) writes", text)[-1]
    return float(writes) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[unit] * entry / 1e6


def stalls(text):
    found = re.search(r"stopped ([\d.]+) s, slowed ([\d.]+) s of ([\d.]+) s; L0 at most (\d+) files, "
                      r"pending compaction at most ([\d.]+)", text)
    return [float(x) for x in found.groups()] if found else [math.nan] * 5


def commanded(second):
    at = math.floor(second / SINE["every"]) * SINE["every"]
    return SINE["a"] * math.sin(SINE["b"] * at + SINE["c"]) + SINE["d"]


def sine_line(row, value_size, seconds):
    rates = [r * (value_size + 16) for r in row.rates[:seconds]]  # as db_bench counts: with the key
    wanted = [commanded(s) for s in range(len(rates))]
    settled = range(5, len(rates))
    rmse = math.sqrt(statistics.mean((rates[s] - wanted[s]) ** 2 for s in settled))
    worst = min(rates[s] / wanted[s] for s in settled)
    stop, slow, _, l0, pending = stalls(row.text)
    writes, reads = percentiles(row.text, "Microseconds per write"), percentiles(row.text, "per background read")
    return (f"| {row.name} | {statistics.mean(rates) / 1e6:.2f} | {rmse / 1e6:.2f} | {worst:.2f} | {stop:.1f}, {slow:.0f} | "
            f"{l0:.0f} | {pending:,.0f} | {writes.get('P99', math.nan) / 1e3:.1f}, {writes.get('P99.9', math.nan) / 1e3:.1f} | "
            f"{reads.get('P99', math.nan) / 1e3:.1f} | {number(r'cpu ([0-9.]+) s', row.text):.1f} | "
            f"{row.device_bytes / 1e6:,.0f} |")


SINE_HEAD = """| row | MB/s | RMSE | worst | stopped, slowed s | L0 | pending MB | p99, p99.9 of writes, ms | p99 of the reader, ms | CPU s | device MB |
|---|---|---|---|---|---|---|---|---|---|---|"""


def sine_rows():
    return [Row("RocksDB", "rocksdb"), Row("static", flags=STATIC), Row("adaptive"),
            Row("RocksDB, LIMITER", "rocksdb", LIMITER), Row("static, LIMITER", flags=LIMITER + STATIC),
            Row("adaptive, LIMITER", flags=LIMITER),
            Row("LIMITER, auto_tuned_compaction", flags=LIMITER + STATIC + ["--auto_tuned_compaction=true"]),
            Row("LIMITER, seed_rule", flags=LIMITER + ["--background_policy=seed_rule"]),
            Row("RocksDB, no compaction", "rocksdb", NO_COMPACTION), Row("static, no compaction", flags=NO_COMPACTION + STATIC)]


def sine(options):
    seconds = round(options.periods * 2 * math.pi / SINE["b"])
    rows = [r for r in sine_rows() if not options.rows or r.name in options.rows.split(";")]
    side_by_side(rows, lambda _: SINE_FLAGS + [f"--duration={seconds}", "--num=20000", "--value_size=65536"], options)
    print(SINE_HEAD)
    for row in rows:
        print(sine_line(row, 65536, seconds))


def values(options):
    """One period for each size; the number of keys keeps the bytes."""
    seconds = round(2 * math.pi / SINE["b"])
    print(SINE_HEAD)
    for size in [int(s) for s in options.sizes.split(",")]:
        rows = sine_rows()[:3]
        for row in rows:
            row.name += f" {size}"
        side_by_side(rows, lambda _: SINE_FLAGS + [f"--duration={seconds}", f"--num={20000 * 65536 // size}",
                                                   f"--value_size={size}"], options)
        for row in rows:
            print(sine_line(row, size, seconds), flush=True)


def mixed(options):
    rows = sine_rows()[:3]

    def fill(group, devices):
        for device in devices:
            device.throttle(10 ** 12)
        for row, device in zip(group, devices):
            flags = [f for f in MIXED_FLAGS if not re.match(r"--(benchmarks|use_existing|benchmark_|background_)", f)]
            subprocess.run(row.command(flags + ["--benchmarks=fillrandom,waitforcompaction"], device.folder), check=True,
                           capture_output=True)
        for device in devices:
            device.throttle(options.device)
        running = [subprocess.Popen(row.command(MIXED_FLAGS + ["--duration=60"], device.folder), stdout=subprocess.DEVNULL)
                   for row, device in zip(group, devices)]
        for process in running:
            process.wait()

    print("| row | written MB/s | stopped, slowed s | L0 | pending MB | p50, p99 of seeks, us | p50, p99, p99.9 of gets, ms | CPU s | device MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for _ in range(options.rounds):
        side_by_side(rows, lambda _: MIXED_FLAGS + [f"--duration={options.seconds}"], options, fill)
        for row in rows:
            stop, slow, took, l0, pending = stalls(row.text)
            gets, seeks = percentiles(row.text, "per background read"), percentiles(row.text, "Microseconds per seek")
            written = written_mb(row.text, 4096 + 16) / options.seconds
            print(f"| {row.name} | {written:.2f} | {stop:.1f}, {slow:.0f} | {l0:.0f} | {pending:,.0f} | "
                  f"{seeks.get('P50', math.nan):.0f}, {seeks.get('P99', math.nan):,.0f} | {gets.get('P50', math.nan) / 1e3:.1f}, "
                  f"{gets.get('P99', math.nan) / 1e3:.1f}, {gets.get('P99.9', math.nan) / 1e3:.0f} | "
                  f"{number(r'cpu ([0-9.]+) s', row.text):.1f} | {row.device_bytes / 1e6:,.0f} |", flush=True)


PEAK_FLAGS = """--num=300000 --value_size=4096 --max_write_buffer_number=4 --max_background_flushes=1
 --max_background_compactions=2 --write_buffer_size=8388608 --max_bytes_for_level_base=33554432 --target_file_size_base=8388608
 --soft_pending_compaction_bytes_limit=268435456 --hard_pending_compaction_bytes_limit=1073741824
 --cache_size=8388608""".split()


def windows(rates, seconds):
    return [statistics.mean(rates[i:i + seconds]) for i in range(len(rates) - seconds + 1)]


def curves(rows):
    """MB/s by second, a panel for each row: (name, rates, what the row sustains in a closed loop)."""
    width, height, left = 720, 120, 90
    top = max(max(rates) for _, rates, _ in rows) * 1.05
    panels = []
    for number, (name, rates, level) in enumerate(rows):
        x, y = (lambda s: left + s * (width - left - 10) / len(rates)), (lambda r: height - 20 - r * (height - 40) / top)
        points = " ".join(f"{x(s):.1f},{y(r):.1f}" for s, r in enumerate(rates))
        panels.append(
            f'<g transform="translate(0 {number * height})"><text x="4" y="14">{name}</text>'
            f'<line x1="{left}" x2="{width - 10}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>'
            f'<line x1="{left}" x2="{width - 10}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke-dasharray="4 3"/>'
            f'<text x="{left - 6}" y="{y(0) + 4:.1f}" text-anchor="end">0</text>'
            f'<text x="{left - 6}" y="{y(level) + 4:.1f}" text-anchor="end">{level:.1f} MB/s</text>'
            f'<text x="{width - 10}" y="{height - 4}" text-anchor="end">{len(rates)} s</text>'
            f'<polyline points="{points}"/></g>')
    style = ("text{font:12px sans-serif;fill:#333}line{stroke:#888}polyline{fill:none;stroke:#0969da;stroke-width:1.5}"
             "@media(prefers-color-scheme:dark){text{fill:#ddd}polyline{stroke:#58a6ff}}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {len(rows) * height}"><style>{style}</style>'
            + "".join(panels) + "</svg>\n")


def peak(options):
    """What a row sustains in a closed loop, and then 1.2 times that, offered."""
    rows, size = sine_rows()[:3], 4096 + 16
    sustained, closed = {}, {}

    def settle(group, devices):
        again = ["--benchmarks=fillrandom", f"--duration={options.closed}"]
        running = [subprocess.Popen(row.command(PEAK_FLAGS + again, device.folder), stdout=subprocess.DEVNULL)
                   for row, device in zip(group, devices)]
        for row, device, process in zip(group, devices, running):
            assert process.wait() == 0, row.name
            rates = [int(l.split(",")[1]) for l in (device.folder / "report.csv").read_text().splitlines()[1:]]
            closed[row.name] = rates[:options.closed]
            sustained[row.name] = statistics.mean(closed[row.name][options.closed // 2:])
        running = [subprocess.Popen(row.command(offered(row, 60), device.folder), stdout=subprocess.DEVNULL)
                   for row, device in zip(group, devices)]
        for process in running:
            assert process.wait() == 0

    def offered(row, seconds):
        rate = round(1.2 * sustained[row.name] * size)
        return PEAK_FLAGS + ["--benchmarks=overwrite,stats", "--use_existing_db=1", f"--duration={seconds}",
                             f"--benchmark_write_rate_limit={rate}"]

    side_by_side(rows, lambda row: offered(row, options.seconds), options, settle, sleeps=options.seconds - 1)
    print("| row | sustained MB/s, closed loop | worst 5 s of it | at 1.2 times that: written, over it | worst 5 s | worst 1 s | "
          "stopped, slowed s | L0 | pending MB | p50, p99, p99.9 of writes, ms | of 250 us of sleep | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        stop, slow, _, l0, pending = stalls(row.text)
        level = sustained[row.name]
        writes = percentiles(row.text, "Microseconds per write")
        share = [f"{min(windows(rates, 5)) / level:.2f}" for rates in
                 (closed[row.name][options.closed // 2:], row.rates[:options.seconds])]
        times = ", ".join(f"{writes.get(p, math.nan) / 1e3:.2f}" for p in ("P50", "P99", "P99.9"))
        print(f"| {row.name} | {level * size / 1e6:.2f} | {share[0]} | {statistics.mean(row.rates) / level:.2f} | {share[1]} | "
              f"{min(row.rates[:options.seconds]) / level:.2f} | {stop:.1f}, {slow:.0f} | {l0:.0f} | {pending:,.0f} | "
              f"{times} | {row.slept} | {number(r'cpu ([0-9.]+) s', row.text):.1f} |")
        (options.out / f"peak-{row.name}.csv").write_text("\n".join(map(str, closed[row.name] + row.rates)))
    rows = [(row.name, [rate * size / 1e6 for rate in row.rates[:options.seconds]], sustained[row.name] * size / 1e6)
            for row in rows]
    (options.out / "peak.svg").write_text(curves(rows))


PRIORITY_FLAGS = """--compression_type=zstd --key_size=24 --max_background_jobs=4 --num=1000000 --progress_reports=0
 --write_buffer_size=8388608 --max_bytes_for_level_base=33554432 --target_file_size_base=8388608""".split()
LOWERED = ["--enable_io_prio", "--enable_cpu_prio"]


def priority_rows():
    floor = ["--disable_auto_compactions=1", "--write_buffer_size=1073741824"]
    return [Row("RocksDB", "rocksdb"), Row("RocksDB, lowered", "rocksdb", LOWERED), Row("Pumice"),
            Row("Pumice, lowered", flags=LOWERED), Row("Pumice, I/O lowered", flags=["--enable_io_prio"]),
            Row("Pumice, lanes", flags=["--background_cpu_priority=low", "--background_io_priority=low"]),
            Row("Pumice, idle lanes", flags=["--background_cpu_priority=idle", "--background_io_priority=idle"]),
            Row("Pumice, no background work", flags=floor)]


def priorities(options):
    folder = pathlib.Path("/dev/shm/pumice-priorities")
    shutil.rmtree(folder, ignore_errors=True)
    full, used = folder / "full", folder / "used"
    rows = [r for r in priority_rows() if not options.rows or r.name in options.rows.split(";")]

    def run(row, database, flags):
        words = [BINARY, "db_bench", f"--db={database}"] + PRIORITY_FLAGS + flags + options.flags.split()
        words += row.flags + ([f"--engine={LIBRARY}"] if row.engine == "rocksdb" else [])
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    for engine in {row.engine for row in rows}:
        run(Row("", engine), full / engine, ["--benchmarks=fillrandom,compact"])
    print("| readers | row | mean | p50 | p99 | p99.9 | p99.99 | reads/s | written MB | stopped s | L0 at most |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for readers in map(int, options.readers.split(",")):
        found = {row.name: [] for row in rows}
        for turn in range(options.rounds):
            for row in rows if turn % 2 == 0 else rows[::-1]:
                shutil.rmtree(used, ignore_errors=True)
                shutil.copytree(full / row.engine, used)
                text = run(row, used, f"""--benchmarks=readwhilewriting,stats --use_existing_db=1 --reads=1000000000
                    --threads={readers} --duration={options.duration} --histogram=1 --report_stalls
                    --benchmark_write_rate_limit={options.rate}""".split())
                share = percentiles(text, "Microseconds per read")
                stop, _, _, l0, _ = stalls(text)
                found[row.name].append([
                    number(r"Average: ([\d.]+)", text), *(share.get(p, math.nan) for p in ("P50", "P99", "P99.9", "P99.99")),
                    number(r"readwhilewriting.*?(\d+) ops/sec", text), written_mb(text, 24 + 100), stop, l0])
        for row in rows:
            columns = [statistics.median(column) for column in zip(*found[row.name])]
            spread = [f"{statistics.median(c):,.1f} ({min(c):,.1f} to {max(c):,.1f})" for c in zip(*found[row.name])]
            print(f"| {readers} | {row.name} | " + " | ".join(spread[:5]) + " | "
                  + " | ".join(f"{c:,.0f}" for c in columns[5:7]) + f" | {columns[7]:.1f} | {columns[8]:.0f} |", flush=True)
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sine", "values", "mixed", "peak", "priorities"])
    parser.add_argument("--device", type=int, default=107_000_000)
    parser.add_argument("--devices", type=int, default=3)
    parser.add_argument("--gigabytes", type=int, default=6)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("/tmp/pumice-background"))
    parser.add_argument("--periods", type=int, default=2)
    parser.add_argument("--rows", default="")
    parser.add_argument("--sizes", default="512,4096,262144,1048576")
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--closed", type=int, default=120)
    parser.add_argument("--readers", default="1,2,8")
    parser.add_argument("--duration", type=int, default=8)
    parser.add_argument("--rate", type=int, default=20_000_000)
    parser.add_argument("--flags", default="", help="more flags for every row of `priorities`")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    {"sine": sine, "values": values, "mixed": mixed, "peak": peak, "priorities": priorities}[options.what](options)
    print(f"{time.time() - began:.0f} s")


main()
