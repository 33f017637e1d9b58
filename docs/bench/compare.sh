#!/usr/bin/env bash
# Runs db_bench on Pumice and on a RocksDB library in turn, and prints medians, ratios and spread.
#
#   docs/bench/compare.sh RUNS BENCHMARKS [db_bench flags]
#   NUM=2000000 docs/bench/compare.sh 5 fillseq,readseq --cache_size=2000000000
#
# Environment: PUMICE (binary), ROCKSDB_SO (library), NUM (keys), DIR (scratch folder, on tmpfs).
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
binary=${PUMICE:-$here/target/release/pumice}
installed=$(ls "$here"/.peers/*.so /opt/pumice-peers/*.so 2>/dev/null | head -n 1 || true)
library=${ROCKSDB_SO:-$installed}
[ -f "$library" ] || { echo "no RocksDB library: run cargo xtask peers, or set ROCKSDB_SO" >&2; exit 1; }
runs=$1 benchmarks=$2
shift 2
scratch=${DIR:-/dev/shm}/pumice-compare.$$
lines=$(mktemp)
trap 'rm -rf "$scratch" "$lines"' EXIT
for _ in $(seq "$runs"); do
  for engine in pumice "$library"; do
    rm -rf "$scratch"
    "$binary" db_bench --engine="$engine" --db="$scratch" --benchmarks="$benchmarks" \
      --num="${NUM:-2000000}" --report_cpu "$@" 2>&1 |
      grep -E "micros/op| cpu " | sed "s#^#$(basename "$engine") #" >>"$lines"
  done
done
python3 - "$lines" <<'PYTHON'
import re, statistics, sys
rates, cpus, order = {}, {}, []
for line in open(sys.argv[1]):
    engine = "pumice" if line.startswith("pumice ") else "rocksdb"
    if m := re.search(r"(\S+)\s+: .* ([\d.]+) seconds (\d+) operations", line):
        rates.setdefault((m[1], engine), []).append(int(m[3]) / max(float(m[2]), 0.001))
        order.append(m[1])
    elif m := re.search(r"(\S+)\s*: cpu ([\d.]+)", line):
        cpus.setdefault((m[1], engine), []).append(float(m[2]))
print("| benchmark | Pumice ops/s (min-max) | RocksDB ops/s (min-max) | ratio | CPU s | CPU ratio |")
print("|---|---|---|---|---|---|")
for name in dict.fromkeys(order):
    a, b = rates[name, "pumice"], rates[name, "rocksdb"]
    p, q = (statistics.median(cpus[name, e]) for e in ("pumice", "rocksdb"))
    ma, mb = statistics.median(a), statistics.median(b)
    print(f"| {name} | {ma:.0f} ({min(a):.0f}-{max(a):.0f}) | {mb:.0f} ({min(b):.0f}-{max(b):.0f}) "
          f"| {ma / mb:.2f} | {p:.2f} / {q:.2f} | {p / max(q, 0.001):.2f} |")
PYTHON
