#!/usr/bin/env python3
"""What a round of a queue costs after any number of rounds, on `pumice serve` and redis-server.

    docs/bench/queues.py target/release/pumice [--rounds 1000000] [--patterns a,b] [--runs 3]

A round is an element that comes and one that goes, through a collection of 100 elements, or one
collection that is made and deleted. Rounds go in pipelines of 50. For each number of rounds the
processor time of the server over the next tenth (1,000 at least) is divided by the rounds of it.
Before each of these but the first the server saves (BGSAVE) and is started anew. Prints a table:
the median of the runs, and their range.
"""
import argparse
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

LENGTH = 100
PATTERNS = {
    "ZADD + ZPOPMIN": lambda n: [("ZADD", "k", n, f"m{n}"), ("ZPOPMIN", "k")],
    "ZADD + ZREMRANGEBYSCORE": lambda n: [
        ("ZADD", "k", n, f"m{n}"), ("ZREMRANGEBYSCORE", "k", "-inf", n - LENGTH)],
    "SADD + SPOP": lambda n: [("SADD", "k", f"m{n * 2654435761 % 2**32}"), ("SPOP", "k")],
    "HSET + HRANDFIELD + HDEL": lambda n: [
        ("HSET", "k", f"f{n}", "v"), ("HRANDFIELD", "k"), ("HDEL", "k", f"f{n - LENGTH}")],
    "RPUSH + LPOP": lambda n: [("RPUSH", "k", n), ("LPOP", "k")],
    "RPUSH of 40 + DEL": lambda n: [("RPUSH", "d", *range(n, n + 40)), ("DEL", "d")],
    "HSET of 40 + DEL, 1,000 keys": lambda n: [
        ("HSET", f"h{n % 1000}", *[x for i in range(40) for x in (f"f{i}", n)]),
        ("DEL", f"h{(n + 500) % 1000}")],
}


def encode(words):
    words = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Server:
    def __init__(self, binary, directory):
        self.socket_path = os.path.join(directory, "s")
        if binary is None:
            self.command = ["redis-server", "--port", "0", "--unixsocket", self.socket_path,
                            "--dir", directory, "--save", "", "--appendonly", "yes"]
        else:
            self.command = [binary, "serve", "--port", "0", "--unixsocket", self.socket_path,
                            "--dir", os.path.join(directory, "db")]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(self.socket_path)
                self.rest = self.socket.makefile("rb")
                self.ask(("PING",))
                if self.last == b"+PONG\r\n":
                    return
            except OSError:
                pass
            time.sleep(0.05)

    def reply(self):
        self.last = line = self.rest.readline()
        if line[:1] == b"$" and line[1:2] != b"-":
            self.rest.read(int(line[1:]) + 2)
        elif line[:1] in b"*~" and line[1:2] != b"-":
            for _ in range(int(line[1:])):
                self.reply()
        elif line[:1] == b"-" and not line.startswith(b"-LOADING"):
            raise RuntimeError(line.decode())

    def ask(self, *commands):
        self.socket.sendall(b"".join(encode(words) for words in commands))
        for _ in commands:
            self.reply()

    def cpu_nanos(self):
        tasks = f"/proc/{self.process.pid}/task"
        total = 0
        for task in os.listdir(tasks):
            try:
                with open(f"{tasks}/{task}/schedstat") as file:
                    total += int(file.read().split()[0])
            except OSError:
                pass
        return total

    def end(self):
        self.process.terminate()
        self.process.wait()

    def restart(self):
        self.ask(("BGSAVE",))
        time.sleep(1)
        self.end()
        self.start()


def measure(binary, pattern, marks):
    directory = tempfile.mkdtemp(prefix="pumice-queues-")
    server = Server(binary, directory)
    try:
        commands = PATTERNS[pattern]
        if "DEL," not in pattern and "of 40" not in pattern:
            server.ask(*[commands(n)[0] for n in range(LENGTH)])
        at, costs = LENGTH, []

        def go(upto):
            nonlocal at
            while at < upto:
                some = range(at, min(upto, at + 50))
                server.ask(*[words for n in some for words in commands(n)])
                at += 50

        for mark in marks:
            go(mark)
            if mark != marks[0]:
                server.restart()
            window = max(1000, mark // 10)
            before = server.cpu_nanos()
            go(mark + window)
            costs.append((server.cpu_nanos() - before) / window / 1000)
        return costs
    finally:
        server.end()
        shutil.rmtree(directory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--patterns", default=",".join(PATTERNS).replace("DEL, 1", "DEL; 1"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--servers", default="pumice,redis")
    args = parser.parse_args()
    marks = [mark for mark in (1000, 10_000, 100_000, 1_000_000) if mark <= args.rounds]
    print("| a round, us of the server | server | " + " | ".join(f"{m:,}" for m in marks) + " |")
    print("|---|---|" + "---|" * len(marks))
    for pattern in PATTERNS:
        if not any(pattern.startswith(p.split(";")[0]) for p in args.patterns.split(",")):
            continue
        for name in args.servers.split(","):
            binary = args.binary if name == "pumice" else None
            runs = [measure(binary, pattern, marks) for _ in range(args.runs)]
            cells = []
            for costs in zip(*runs):
                median = statistics.median(costs)
                cells.append(f"{median:.1f} ({min(costs):.1f}-{max(costs):.1f})")
            print(f"| {pattern} | {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
