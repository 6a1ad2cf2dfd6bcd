#!/usr/bin/env bash
# From nothing to a trained and evaluated model on real clips: bash scripts/quickstart.sh [OUT]
# Every step says what it does and how long it took; a second run reuses what is there.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install.sh

OUT=${1:-quickstart-out}
DATASET=$OUT/dataset
STARTED=$SECONDS
# The models here are tiny: one thread for each process leaves the cores to the engine, the trainer and the reader.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# Deprecation notes of the engine's own libraries would bury what the steps print.
export PYTHONWARNINGS="${PYTHONWARNINGS:-ignore}"

step() { # step TITLE COMMAND...: run a step, say how long it took
  local title=$1 started=$SECONDS
  shift
  printf '\n== %s\n' "$title"
  "$@"
  printf -- '-- done in %d s\n' "$((SECONDS - started))"
}

show() { # print a command as a user would type it, then run it
  printf '   $ %s\n' "$*"
  "$@"
}

clips() {
  python scripts/copy_real_clips.py "$OUT/real"
  show vrldata demo-data "$OUT/demo" --count 48 --seed 0
}

build() {
  local sampling=(--fps 2 --max-frames 8 --max-pixels 12288)
  show vrldata build "$OUT/demo/train.jsonl" "$OUT/demo/val.jsonl" --video-root "$OUT/demo" --out "$DATASET" "${sampling[@]}"
  show vrldata build "$OUT/real/questions.jsonl" --video-root "$OUT/real" --out "$DATASET" "${sampling[@]}"
}

release() {
  if vrldata releases "$DATASET" --json | python -c 'import json, sys; sys.exit("v1" not in [r["name"] for r in json.load(sys.stdin)["releases"]])'; then
    echo "   release v1 is there already"
  else
    show vrldata release "$DATASET" v1 -m "demo and real clips"
  fi
}

query() {
  show vrldata query "$DATASET@v1" \
    "SELECT s.problem_type, s.data_type, count(*) AS questions, round(avg(f.num_frames), 1) AS frames
     FROM samples s JOIN frames f ON list_contains(s.clip_ids, f.clip_id) GROUP BY ALL ORDER BY questions DESC, s.problem_type"
}

preview() {
  show vrldata preview "$DATASET@v1" --filter "data_source = 'real'" --png "$OUT/preview.png"
}

train() {
  if [[ ! -f $OUT/tiny/config.json ]]; then show vrltrain tiny-model "$OUT/tiny" --family qwen3-vl; fi
  show vrltrain run recipes/quickstart.yaml "data.train=$DATASET@v1" "model.path=$OUT/tiny" "run_dir=$OUT/run"
  show vrldata query "$DATASET" \
    "SELECT step, policy_version, count(*) AS rollouts, round(avg(reward), 3) AS reward
     FROM trajectories WHERE source = 'rollout' GROUP BY ALL ORDER BY step"
  if [[ ! -f $OUT/model/config.json ]]; then show vrltrain export "$OUT/run" "$OUT/model"; fi
}

evaluate() {
  show vrleval run --model "$OUT/model" --data "$DATASET@v1?split=val" --out "$OUT/eval"
}

check() { # the run counts only if every step left its work behind
  local file
  for file in "$OUT/preview.png" "$OUT/run/metrics.jsonl" "$OUT/run/report.html" "$OUT/model/config.json" "$OUT/eval/report.html"; do
    if [[ ! -s $file ]]; then
      echo "error: $file is missing or empty" >&2
      return 1
    fi
  done
  vrldata query "$DATASET" "SELECT count(*) AS n FROM trajectories WHERE source = 'rollout' AND policy_version > 0" --format jsonl |
    python -c 'import json, sys; sys.exit(json.loads(sys.stdin.readline())["n"] == 0)' ||
    { echo "error: no rollouts of an updated policy were stored" >&2; return 1; }
  echo "   dataset   $DATASET@v1"
  echo "   preview   $OUT/preview.png"
  echo "   training  $OUT/run/report.html"
  echo "   evaluation $OUT/eval/report.html"
}

step "install" install_vrl train,eval,demo
step "clips: four real ones, and generated ones with known answers" clips
step "build: decode once, keep the frames in a Lance store" build
step "release: pin every table under the name v1" release
step "query: SQL over samples and frames" query
step "preview: a contact sheet" preview
step "train: GRPO on a tiny Qwen3-VL, rollouts by vLLM" train
step "evaluate: the held-out split, asynchronously" evaluate
step "check" check
printf '\nAll steps done in %d s.\n' "$((SECONDS - STARTED))"
