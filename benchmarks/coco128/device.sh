#!/bin/bash
# On a bare GPU machine: unpack the images, run the grids through one pool, and pack what they found.
#
#   OUT=FOLDER SITE=FOLDER benchmarks/coco128/device.sh SECONDS WORKERS GRID.toml ...
#
# from the folder that holds mlcl/ and benchmarks/. The images' parts are in ~/d/*/images-N.bin; SITE has
# index.npz, coco-glove.npz, the packages that the machine lacks, and cells.tgz of an earlier call, if there
# was one: its finished cells are not run again. It ends within SECONDS, whatever the grids do; OUT gets
#
#   results.tgz   NAME/grid.json of every grid, also while it runs; `mlcl table` shows them
#   cells.tgz     every cell's results, without checkpoints
#
# First see that every method runs on that machine at all (a minute; needs no images):
#
#   PYTHONPATH=$PWD:$SITE OMP_NUM_THREADS=1 python3 benchmarks/coco128/run.py ~/smoke 11 benchmarks/coco128/smoke.toml
#
# Then, in the order of importance, what fits into nine minutes and a half:
#
#   device.sh 570 14 benchmarks/coco128/{search,final,variants,seeds,paper}.toml
#
# MPS=no leaves NVIDIA's multi-process service alone. At home: tar xzf results.tgz -C runs/coco128, then
# page.py take runs/coco128, page.py.
set -u
limit=$1 workers=$2; shift 2
begin=$SECONDS
site=$(realpath "${SITE:-.device/code}") data=$HOME/d/data out=$HOME/grids
export COCO128=$data PYTHONPATH=$PWD:$site PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 COLUMNS=130
mkdir -p "$data" "$out" "$OUT"
say() { echo "$((SECONDS - begin)) s: $*"; }

mv "$HOME"/d/s*/images-*.bin "$data"/ 2>/dev/null
cp "$site/index.npz" "$data"/ && cp "$site/coco-glove.npz" glove.npz || exit 1
[ -f "$site/cells.tgz" ] && tar xzf "$site/cells.tgz" -C "$out" && say "took up earlier cells"

# kernels of several processes at once, where NVIDIA's service for it is there and answers
start_mps() {
  command -v nvidia-cuda-mps-control > /dev/null || return 1
  mkdir -p "$HOME"/mps "$HOME"/mps-log
  export CUDA_MPS_PIPE_DIRECTORY="$HOME"/mps CUDA_MPS_LOG_DIRECTORY="$HOME"/mps-log
  nvidia-cuda-mps-control -d || return 1
  timeout -k 5 60 python3 -c 'import torch; assert torch.ones(99, device="cuda").sum().item() == 99'
}
stop_mps() { echo quit | timeout 20 nvidia-cuda-mps-control > /dev/null 2>&1; }

if [ ! -f "$data/pixels.npy" ]; then
  python3 benchmarks/coco128.py unpack "$data" & unpacking=$!
fi
mps=no
if [ "${MPS:-yes}" = yes ]; then
  if start_mps; then mps=yes; else stop_mps; unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY; fi
fi
[ -z "${unpacking:-}" ] || wait "$unpacking" || exit 1
say "images unpacked, several processes' kernels at once: $mps"

pack() {  # whole files only: a call may be cut at any moment
  ( cd "$out" && find . -name grid.json | tar czf "$OUT/.r" -T - && mv "$OUT/.r" "$OUT/results.tgz" &&
    find . \( -name '*.json' -o -name error.txt -o -name config.toml \) -not -name grid.json |
      tar czf "$OUT/.c" -T - && mv "$OUT/.c" "$OUT/cells.tgz" ) 2> /dev/null
}
( while sleep 30; do pack; done ) & packing=$!
nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader -l 5 > "$OUT/gpu.csv" 2> /dev/null & watching=$!

for pass in 1 2; do  # what failed is tried once more, if there is time
  left=$((limit - (SECONDS - begin) - 20))
  [ "$left" -gt 20 ] || break
  timeout -s INT -k 8 "$left" python3 benchmarks/coco128/run.py "$out" "$workers" "$@"
  status=$?
  say "pass $pass ended with $status"
  [ "$status" -eq 1 ] || break
done
kill "$packing" "$watching" 2> /dev/null
pack
[ "$mps" = yes ] && stop_mps
say "packed"; ls -la "$OUT"
