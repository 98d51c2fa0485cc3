#!/bin/bash
# Everything about the engine that needs a GPU, in four minutes or so: tests, steps, waits, loop, Avalanche.
#
#   OUT=FOLDER SITE=FOLDER benchmarks/engine.sh
#
# from the folder that holds mlcl/ and benchmarks/. SITE has the packages that the machine lacks:
#   pip install --no-deps --target .avalanche avalanche-lib dill tomli-w
# OUT gets engine-*.json and the tests' log. What fails does not stop the rest.
set -u
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$OUT"
export PYTHONPATH=$PWD:$(realpath "${SITE:-.avalanche}") PYTHONUNBUFFERED=1
begin=$SECONDS
run() { name=$1; shift; timeout 170 python3 -W ignore "$@" > "$OUT/$name.log" 2>&1; echo "$name: rc $?, $((SECONDS - begin)) s"; }
run tests -m pytest -o addopts= -o filterwarnings=default --import-mode=importlib -q tests/test_engine.py
tail -5 "$OUT/tests.log"
run step benchmarks/step.py --out "$OUT/engine-step.json"
run sync benchmarks/step.py --sync --out "$OUT/engine-sync.json"
run bookkeeping benchmarks/bookkeeping.py --out "$OUT/engine-bookkeeping.json"
run loop benchmarks/loop.py --out "$OUT/engine-loop.json"
run avalanche benchmarks/avalanche_compare.py --batches 60 --out "$OUT/engine-avalanche.json"
for name in tests step sync loop avalanche; do
    [ -s "$OUT/engine-$name.json" ] || { echo "== $name"; tail -12 "$OUT/$name.log"; }
done
grep -A8 '"bars"' "$OUT/engine-step.json"
grep -h -A16 '"images a second"' "$OUT/engine-avalanche.json"
grep -h -B4 '"loop / bare step":' "$OUT/engine-loop.json"
