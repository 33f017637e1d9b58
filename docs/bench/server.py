"""The load table of `pumice serve`: one server program in two modes, and redis-server next to them.

usage: server.py --load [--seconds S] [--runs N] [--workers N] [--dir DIR] [--program PATH]
       server.py --large [--runs N] [--rate N] [--keys N] [--dir DIR] [--program PATH]
       server.py [--rows WORDS] [--servers WORDS] [--seconds S] [--runs N] [--pools 16,64,256] [--growth]
                 [--unpinned] [--foreign-load] [--redis-benchmark] [--dir DIR] [--program PATH]
       (cargo build --release -p pumice-cli; cargo xtask peers)

Without flags: every row for two seconds, server on core 0, client on core 1, by our own client.

--load          all rows of the load table in one run of about 20 minutes: fibers, threads, and redis-server,
                with 1, 50 and 1,000 connections, with and without pipelines of 16. Three rounds, each of them all rows on one server after the other, which begin with
                another server each time; medians of the rounds (--runs) of three seconds (--seconds), with the range
                of requests a second; then SETs at a fixed rate, four fifths (--offered) of what fibers or
                threads can do, whichever is less, by 1,000 connections
--large         values of 1,000 random bytes, 2.5 million of them (--keys), a cache of 256 MB and direct reads: fibers,
                and redis-server, which holds all in memory and so shows the machine's own
                lateness. Both are there at once, and take turns in each of seven rounds (--runs): 50
                connections, GETs of all keys and of a 25th of them, as they come and 2,000 a second (--rate)
--workers       of the threads in --load (64)

--rows          rows whose names have all of these words, separated by commas: `set,c=1000`
--servers       of `fibers`, `threads`, `redis`
--pools         workers of the threads; each is run, the one with the most requests a second counts
--growth        1 to 10,000 connections, and the memory of idle ones, instead of the load table
--redis-benchmark  also what redis-benchmark says
--foreign-load  with two other processes that keep computing
--runs          of each cell; the median counts, the spread stands behind it
--offered       rows at a fixed rate, a share of the weaker server's most (0.8), for p99

Data lie below --dir (/dev/shm by default, where a sync costs nothing: give a disk for `always`).
"""
import argparse
import contextlib
import csv
import io
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("--rows", default="")
parser.add_argument("--servers", default="fibers,threads,redis")
parser.add_argument("--load", action="store_true")
parser.add_argument("--large", action="store_true")
parser.add_argument("--rate", type=int, default=2000)
parser.add_argument("--keys", type=int, default=2_500_000)
parser.add_argument("--workers", type=int, default=64)
parser.add_argument("--seconds", type=float)
parser.add_argument("--runs", type=int)
parser.add_argument("--pools", default="16,64,256")
parser.add_argument("--loops", type=int, default=1)
parser.add_argument("--growth", action="store_true")
parser.add_argument("--unpinned", action="store_true")
parser.add_argument("--foreign-load", action="store_true")
parser.add_argument("--redis-benchmark", action="store_true")
parser.add_argument("--offered", type=float, default=0.8)
parser.add_argument("--dir", default="/dev/shm")
parser.add_argument("--program", default="target/release/pumice")
ASKED = parser.parse_args()
ASKED.seconds = ASKED.seconds or (3 if ASKED.load or ASKED.large else 2)
ASKED.runs = ASKED.runs or (3 if ASKED.load else 7 if ASKED.large else 1)

KEYS, VALUE, PORT = 100_000, 100, 7901
POOLS = [int(word) for word in ASKED.pools.split(",")]
FULL = ASKED.servers.split(",")
ROWS = [
    (f"{test} c={clients} P={pipeline} {fsync}", test, clients, pipeline, fsync)
    for fsync in ("everysec", "always")
    for test in (("set", "get", "mget") if fsync == "everysec" else ("set",))
    for clients in (1, 50, 1000)
    for pipeline in (1, 16)
]


# Of the load table; reads come before writes, on what was filled in.
LOADED = ("fibers", "threads", "redis")
LOADS = {"everysec": ("get", "mget", "set"), "always": ("set",)}
CONNECTIONS, PIPELINES = (1, 50, 1000), (1, 16)


def pinned(core, command):
    return command if ASKED.unpinned else ["taskset", "-c", str(core), *command]


class Server:
    """One of the servers with a directory of its own; ends with the block."""

    def __init__(self, kind, fsync, workers, port=PORT, flags=()):
        self.port = port
        self.dir = tempfile.mkdtemp(prefix="pumice-bench-", dir=ASKED.dir)
        if kind == "redis":
            command = ["redis-server", "--port", str(port), "--save", "", "--appendonly", "yes", "--dir", self.dir]
        else:
            command = [ASKED.program, "serve", "--port", str(port), "--dir", self.dir + "/db"]
            command += ["--loops", str(ASKED.loops), *flags]
            if kind == "threads":
                command += ["--runtime", "threads", "--workers", str(workers)]
        command += ["--appendfsync", fsync, "--maxclients", "12000"]
        self.log = open(self.dir + "/log", "w")
        self.process = subprocess.Popen(pinned(0, command), stdout=self.log, stderr=self.log)
        for _ in range(300):
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"{kind} does not listen: {open(self.dir + '/log').read()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir)

    def resident(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def load(self, test, clients, pipeline, rate=None, seconds=None, keys=KEYS, values=("-d", str(VALUE))):
        """What our client says, as numbers by column."""
        command = [ASKED.program, "resp_bench", "-p", str(self.port), "-t", test, "-c", str(clients)]
        command += ["-P", str(pipeline), *values]
        command += ["-r", str(keys), "--csv", "--server-pid", str(self.process.pid)]
        if test != "fill":
            command += ["--duration", str(seconds or ASKED.seconds)]
        if rate:
            command += ["--rate", str(int(rate))]
        out = subprocess.run(pinned(1, command), capture_output=True, text=True, timeout=600)
        if out.returncode:
            sys.exit(out.stdout + out.stderr)
        found = next(csv.DictReader(io.StringIO(out.stdout)))
        if int(found["errors"]):
            sys.exit(f"{found['errors']} error replies: {' '.join(command)}")
        return {name: float(value) for name, value in found.items() if name != "test" and value}

    def until_idle(self):
        """Until it takes no processor time for a second."""
        before = None
        while (now := open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()[11:13]) != before:
            before = now
            time.sleep(1.2)

    def bytes_read(self):
        """From the device."""
        lines = open(f"/proc/{self.process.pid}/io").read().splitlines()
        return int(dict(line.split(": ") for line in lines)["read_bytes"])

    def redis_benchmark(self, test, clients, pipeline, requests):
        command = ["redis-benchmark", "-p", str(PORT), "-c", str(clients), "-P", str(pipeline), "-d", str(VALUE)]
        command += ["-r", str(KEYS), "-n", str(requests), "--csv"]
        command += ["MGET"] + ["key:__rand_int__"] * 10 if test == "mget" else ["-t", test]
        out = subprocess.run(pinned(1, command), capture_output=True, text=True, timeout=600)
        lines = [line for line in out.stdout.splitlines() if line.startswith('"')]
        found = next(csv.DictReader(io.StringIO("\n".join(lines))))
        return float(found["rps"])


def measure(kind, row, workers, rate=None):
    _, test, clients, pipeline, fsync = row
    runs = []
    for _ in range(ASKED.runs):
        with Server(kind, fsync, workers) as server:
            server.load("fill", 10, 50)
            # The first connections and pages are not what is measured.
            server.load(test, clients, pipeline, seconds=min(1.0, ASKED.seconds / 2))
            found = server.load(test, clients, pipeline, rate)
            if ASKED.redis_benchmark and not rate:
                requests = max(1000, int(found["requests_per_second"] * ASKED.seconds))
                found["redis_benchmark"] = server.redis_benchmark(test, clients, pipeline, requests)
            runs.append(found)
    middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    middle["spread"] = [min(r["requests_per_second"] for r in runs), max(r["requests_per_second"] for r in runs)]
    middle["workers"] = workers
    return middle


def best(kind, row):
    pools = POOLS if kind.startswith("threads") else [0]
    return max((measure(kind, row, pool) for pool in pools), key=lambda found: found["requests_per_second"])


def tell(row, kind, found, offered=""):
    name = f"{kind} ({found['workers']} workers)" if found["workers"] else kind
    low, high = found["spread"]
    cells = [
        row[0] + (f" at {offered:.0f}/s" if offered else ""),
        name,
        f"{found['requests_per_second']:.0f} ({low:.0f}-{high:.0f})",
        *(f"{found[column]:.3f}" for column in ("p50_ms", "p99_ms", "p999_ms", "max_ms")),
        f"{found['server_cpu_us_per_request']:.2f}",
        f"{found['client_cpu_us_per_request']:.2f}",
    ]
    # A client that has used its core up was the limit.
    busy = found["client_cpu_seconds"] * found["requests_per_second"] / max(found["requests"], 1)
    cells.append("client" if busy > 0.95 and not ASKED.unpinned else f"{busy:.2f}")
    if ASKED.redis_benchmark:
        cells.append(f"{found['redis_benchmark']:.0f}" if "redis_benchmark" in found else "")
    print("| " + " | ".join(cells) + " |", flush=True)


def table():
    heads = ["row", "server", "requests/s (spread)", "p50 ms", "p99 ms", "p99.9 ms", "max ms"]
    heads += ["server us/request", "client us/request", "client's core"]
    heads += ["redis-benchmark/s"] if ASKED.redis_benchmark else []
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    words = [word for word in ASKED.rows.split(",") if word]
    for row in ROWS:
        if words and not all(word in row[0].split() for word in words):
            continue
        found = {kind: best(kind, row) for kind in FULL}
        for kind in FULL:
            tell(row, kind, found[kind])
        if row[1:4] != ("set", 1000, 1):
            continue
        # A fixed rate that the weaker of the two we compare can bear.
        compared = [kind for kind in ("fibers", "threads") if kind in found]
        rate = ASKED.offered * min(found[kind]["requests_per_second"] for kind in compared or FULL)
        for kind in FULL:
            tell(row, kind, measure(kind, row, found[kind]["workers"], rate), rate)


def round_of(kind, found):
    """Adds what every row says of a server to `found`, by row."""
    for fsync, tests in LOADS.items():
        with Server(kind, fsync, ASKED.workers) as server:
            server.load("fill", 10, 50)
            for test in tests:
                for clients in CONNECTIONS:
                    for pipeline in PIPELINES:
                        # The first connections and pages are not what is measured.
                        server.load(test, clients, pipeline, seconds=min(0.5, ASKED.seconds / 2))
                        said = server.load(test, clients, pipeline)
                        found.setdefault((fsync, test, clients, pipeline, kind), []).append(said)


def load_table():
    began, found = time.monotonic(), {}
    for number in range(ASKED.runs):
        first = number % len(LOADED)
        for kind in LOADED[first:] + LOADED[:first]:
            round_of(kind, found)
            passed = (time.monotonic() - began) / 60
            print(f"round {number + 1} of {ASKED.runs}, {kind}: {passed:.1f} minutes", file=sys.stderr, flush=True)
    names = {"fibers": "fibers", "threads": "threads", "redis": "redis-server"}
    heads = ["row", "connections", "pipeline", "server", "requests/s (range)", "p50 ms", "p99 ms", "p99.9 ms"]
    print("| " + " | ".join(heads + ["server us/request"]) + " |\n|" + "---|" * (len(heads) + 1))
    for fsync, tests in LOADS.items():
        rows = [(test, clients, pipeline) for test in tests for clients in CONNECTIONS for pipeline in PIPELINES]
        for test, clients, pipeline in rows:
            for kind in LOADED:
                runs = found[fsync, test, clients, pipeline, kind]
                middle = lambda name: statistics.median(run[name] for run in runs)
                rates = [run["requests_per_second"] for run in runs]
                rate = f"{statistics.median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f})"
                what = {"get": "GET", "mget": "MGET of ten", "set": f"SET, {fsync}"}[test]
                cells = [what, str(clients), str(pipeline)] if kind == LOADED[0] else ["", "", ""]
                cells += [names[kind], rate]
                cells += [f"{middle(name):.3f}" for name in ("p50_ms", "p99_ms", "p999_ms")]
                print("| " + " | ".join(cells + [f"{middle('server_cpu_us_per_request'):.2f}"]) + " |", flush=True)
    fixed_rate(found)
    minutes = (time.monotonic() - began) / 60
    version = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout.split()[2]
    version = version.removeprefix("v=")
    rounds = f"rounds: {ASKED.runs}, each row for {ASKED.seconds:g} seconds"
    print(f"\n{ASKED.workers} workers; redis-server {version}; {rounds}; {minutes:.0f} minutes.")


def fixed_rate(found):
    """SETs that come whether or not the servers keep up."""
    median = lambda runs: statistics.median(run["requests_per_second"] for run in runs)
    compared = [kind for kind in ("fibers", "threads") if kind in LOADED]
    print("\n| row | server | p50 ms | p99 ms (range) | p99.9 ms |\n|---|---|---|---|---|")
    for fsync in LOADS:
        rate = ASKED.offered * min(median(found[fsync, "set", 1000, 1, kind]) for kind in compared)
        runs = {kind: [] for kind in LOADED}
        for number in range(ASKED.runs):
            first = number % len(LOADED)
            for kind in LOADED[first:] + LOADED[:first]:
                with Server(kind, fsync, ASKED.workers) as server:
                    server.load("fill", 10, 50)
                    server.load("set", 1000, 1, rate, min(1.0, ASKED.seconds / 2))
                    runs[kind].append(server.load("set", 1000, 1, rate))
        for kind in LOADED:
            middle = lambda name: statistics.median(run[name] for run in runs[kind])
            late = [run["p99_ms"] for run in runs[kind]]
            p99 = f"{middle('p99_ms'):.2f} ({min(late):.2f}-{max(late):.2f})"
            cells = [f"SET, {fsync}, {rate:,.0f}/s", kind, f"{middle('p50_ms'):.2f}", p99, f"{middle('p999_ms'):.1f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


def large():
    """Data that the cache does not hold."""
    kinds = ("fibers", "redis")
    flags = ("--cache-bytes", "256mb", "--direct-reads", "yes")
    with contextlib.ExitStack() as stack:
        servers = {}
        for number, kind in enumerate(kinds):
            servers[kind] = stack.enter_context(Server(kind, "everysec", 0, PORT + number, flags))
            servers[kind].load("fill", 10, 50, keys=ASKED.keys, values=("-d", "1000", "--random-data"))
        for server in servers.values():
            server.until_idle()
        rows = [(keys, rate) for rate in (None, ASKED.rate) for keys in (ASKED.keys, ASKED.keys // 25)]
        heads = "| keys | rate | server | requests/s | p50 ms | p99 ms (range) | p99.9 ms | KiB read | server us/request |"
        print(heads + "\n|" + "---|" * 9)
        for keys, rate in rows:
            runs = {kind: [] for kind in kinds}
            for server in servers.values():
                server.load("get", 50, 1, keys=keys)
            for number in range(ASKED.runs):
                first = number % len(kinds)
                for kind in kinds[first:] + kinds[:first]:
                    before = servers[kind].bytes_read()
                    one = servers[kind].load("get", 50, 1, rate, keys=keys)
                    one["read"] = (servers[kind].bytes_read() - before) / max(one["requests"], 1) / 1024
                    runs[kind].append(one)
            for kind in kinds:
                middle = lambda name: statistics.median(run[name] for run in runs[kind])
                late = [run["p99_ms"] for run in runs[kind]]
                cells = [f"{keys:,}", f"{rate:,}" if rate else "as they come", kind, f"{middle('requests_per_second'):,.0f}"]
                cells += [f"{middle('p50_ms'):.2f}", f"{middle('p99_ms'):.2f} ({min(late):.2f}-{max(late):.2f})"]
                cells += [f"{middle('p999_ms'):.1f}", f"{middle('read'):.2f}", f"{middle('server_cpu_us_per_request'):.1f}"]
                print("| " + " | ".join(cells) + " |", flush=True)


def growth():
    print("| connections | server | requests/s | p99 ms | server us/request | client us/request | KiB an idle one |")
    print("|---|---|---|---|---|---|---|")
    for clients in (1, 10, 100, 1000, 5000, 10_000):
        for kind in FULL:
            with Server(kind, "everysec", POOLS[0]) as server:
                server.load("fill", 10, 50)
                before = server.resident()
                idle = [socket.create_connection(("127.0.0.1", PORT)) for _ in range(clients)]
                for one in idle:
                    one.sendall(b"PING\r\n")
                    one.recv(64)
                each = (server.resident() - before) / clients / 1024
                for one in idle:
                    one.close()
                found = server.load("get", clients, 1)
                cells = [f"{found['requests_per_second']:.0f}", f"{found['p99_ms']:.3f}"]
                cells += [f"{found[f'{who}_cpu_us_per_request']:.2f}" for who in ("server", "client")]
                print(f"| {clients} | {kind} | {' | '.join(cells)} | {each:.1f} |", flush=True)


burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * ASKED.foreign_load)]
try:
    load_table() if ASKED.load else large() if ASKED.large else growth() if ASKED.growth else table()
finally:
    for burner in burners:
        burner.kill()
