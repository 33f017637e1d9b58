#!/usr/bin/env python3
"""`randomtransaction` without and with databases for transactions, beside RocksDB; synced commits on fibers.

    docs/bench/transactions.py [--runs 3] [--seconds 2] FIGURE...

FIGURE: random synced, or all. Environment: PUMICE (binary), ROCKSDB_SO (library of 11.8.1), DISK, MEMORY.
Each figure prints its commands, tables, and the ratios that were promised.
"""
from arms import DISK, MEMORY, Arm, compare, run_figures, with_rocksdb

KINDS = [("plain batches", []), ("locks", ["--transaction_db"]), ("checks", ["--optimistic_transaction_db"])]


def random(o):
    MEMORY.mkdir(parents=True, exist_ok=True)
    common = lambda e: [f"--db={MEMORY / e}", "--num=1000000", f"--duration={o.seconds}", "--ops_between_duration_checks=20"]
    for kind, flags in KINDS:
        for workers in (1, 2, 16, 64):
            own, peer = f"{kind}, {workers}", f"RocksDB, {kind}, {workers}"
            arms = with_rocksdb([
                Arm(own, "pumice", "randomtransaction", [f"--threads={workers}"] + flags),
                Arm(peer, "rocksdb", "randomtransaction", [f"--threads={workers}"] + flags),
            ])
            compare(f"randomtransaction, {kind}, {workers} threads", common, arms, [
                ("over RocksDB (at least 2)", own, peer, "rate"),
                ("CPU of a transaction over RocksDB's", own, peer, "cost"),
            ], o.runs)


def synced(o):
    DISK.mkdir(parents=True, exist_ok=True)
    common = lambda e: [f"--db={DISK / e}", "--num=1000000", "--sync=true", f"--duration={o.seconds}",
                        "--ops_between_duration_checks=1"]
    for kind, flags in KINDS[1:]:
        fibers, threads, peer = f"{kind}, 1000 fibers on 2 loops", f"{kind}, 1000 threads", f"RocksDB, {kind}, 1000 threads"
        arms = with_rocksdb([
            Arm(fibers, "pumice", "randomtransaction", ["--threads=2", "--fibers=1000"] + flags),
            Arm(threads, "pumice", "randomtransaction", ["--threads=1000"] + flags),
            Arm(peer, "rocksdb", "randomtransaction", ["--threads=1000"] + flags),
        ])
        compare(f"Synced commits, {kind}", common, arms, [
            ("fibers over threads", fibers, threads, "rate"),
            ("fibers over RocksDB's threads", fibers, peer, "rate"),
        ], o.runs)


run_figures(__doc__, {"random": random, "synced": synced})
