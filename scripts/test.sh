#!/usr/bin/env bash
# Installs what is missing and runs ruff, mypy and pytest in two processes. Further arguments go to pytest:
#   bash scripts/test.sh -m "not engine"
#   bash scripts/test.sh -n 0 tests/data/test_sampling.py
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install.sh
install_vrl train,eval,hf,demo,test

echo "== ruff"
ruff check .
ruff format --check .
echo "== mypy"
mypy
echo "== pytest"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec python -m pytest -n 2 --dist loadscope --no-loadscope-reorder "$@"
