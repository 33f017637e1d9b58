"""get, put, batch and scan beside rocksdict and plyvel, through their own wheels.

python bench.py [ENTRIES] [DIRECTORY]: one line for each library and operation, operations a second, the
best of three rounds in turn. Keys of 16 bytes, values of 100, without compression and with the
libraries' defaults otherwise; gets are of keys in random order (seed 1) from a database that was
closed and opened again.
"""

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pumice

ROUNDS = 3
BATCH = 1000


class Pumice:
    def __init__(self, path):
        self.db = pumice.DB(path, {"compression": "kNoCompression"})
        self.put, self.get, self.close = self.db.put, self.db.get, self.db.close

    def batch(self, entries):
        batch = pumice.WriteBatch()
        for key, value in entries:
            batch.put(key, value)
        self.db.write(batch)

    def scan(self):
        return self.db.items()


class Rocksdict:
    def __init__(self, path):
        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        self.library = rocksdict
        self.db = rocksdict.Rdict(str(path), options=options)
        self.put, self.get, self.close = self.db.__setitem__, self.db.get, self.db.close

    def batch(self, entries):
        batch = self.library.WriteBatch(raw_mode=True)
        for key, value in entries:
            batch.put(key, value)
        self.db.write(batch)

    def scan(self):
        return self.db.items()


class Plyvel:
    def __init__(self, path):
        import plyvel

        self.db = plyvel.DB(str(path), create_if_missing=True, compression=None)
        self.put, self.get, self.close = self.db.put, self.db.get, self.db.close

    def batch(self, entries):
        with self.db.write_batch() as batch:
            for key, value in entries:
                batch.put(key, value)

    def scan(self):
        return self.db.iterator()


def timed(count, work):
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def measure(library, path, entries, order):
    figures = {}

    def put():
        for key, value in entries:
            store.put(key, value)

    def batches():
        for at in range(0, len(entries), BATCH):
            store.batch(entries[at : at + BATCH])

    def get():
        for at in order:
            assert store.get(entries[at][0]) == entries[at][1]

    def scan():
        assert sum(1 for _ in store.scan()) == len(entries)

    store = library(path / "put")
    figures["put"] = timed(len(entries), put)
    store.close()
    store = library(path / "batch")
    figures["batch"] = timed(len(entries), batches)
    store.close()
    store = library(path / "put")
    figures["get"] = timed(len(order), get)
    figures["scan"] = timed(len(entries), scan)
    store.close()
    return figures


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    parent = sys.argv[2] if len(sys.argv) > 2 else None
    chance = random.Random(1)
    entries = [(b"%016d" % i, chance.randbytes(100)) for i in range(count)]
    chance.shuffle(entries)
    order = chance.sample(range(count), count)
    best = {}
    for _ in range(ROUNDS):
        for library in (Pumice, Rocksdict, Plyvel):
            path = Path(tempfile.mkdtemp(dir=parent))
            for name, figure in measure(library, path, entries, order).items():
                key = (name, library.__name__)
                best[key] = max(best.get(key, 0), figure)
            shutil.rmtree(path)
    for name in ("put", "batch", "get", "scan"):
        ours = best[name, "Pumice"]
        print(f"{name:6} Pumice {ours:>10,.0f}/s", end="")
        for other in ("Rocksdict", "Plyvel"):
            theirs = best[name, other]
            print(f"   {other} {theirs:>10,.0f}/s ({ours / theirs:.2f})", end="")
        print()


if __name__ == "__main__":
    main()
