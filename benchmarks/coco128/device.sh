#!/bin/bash
# On a bare GPU machine: unpack the images once, run the grids named, bring results home.
# usage (from the folder that holds mlcl/ and benchmarks/): device.sh SECONDS WORKERS GRID.toml ...
set -u
seconds=$1 workers=$2; shift 2
export COCO128=$HOME/d/data PYTHONPATH=$PWD PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2
mkdir -p "$COCO128"
mv "$HOME"/d/s?/images-*.bin index.npz "$COCO128"/ 2>/dev/null
cp coco-glove.npz glove.npz
begin=$SECONDS
[ -f "$COCO128/pixels.npy" ] || python benchmarks/coco128.py unpack "$COCO128"
echo "unpacked after $((SECONDS - begin)) s"
for grid in "$@"; do
  left=$((seconds - (SECONDS - begin)))
  [ $left -gt 20 ] || break
  name=$(basename "$grid" .toml)
  timeout -s INT -k 8 $left python -m mlcl.cli grid "$grid" --workers "$workers" --out "$HOME/out/$name" 2>&1
  echo "$name after $((SECONDS - begin)) s"
done
cd "$HOME/out" && tar czf "$OUT/results.tgz" --exclude='*.pt' . && ls -la "$OUT"
