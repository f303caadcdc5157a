#!/usr/bin/env bash
# What must be seen of `sweep audit` on a GPU host: bash docs/examples/audit/on_a_gpu.sh [FOLDER]
# Each part writes a file in FOLDER (audit-on-a-gpu); a part whose file is there is not run again.
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
folder=$(realpath -m "${1:-audit-on-a-gpu}")
mkdir -p "$folder"

part() { # NAME COMMAND...: its output is kept only if it succeeds
    local file="$folder/$1.txt"
    shift
    [ -e "$file" ] && return
    "$@" 2>&1 | tee "$file.part"
    mv "$file.part" "$file"
}

cd "$root"
part tests pytest -q -m gpu tests/orchestrator/auditing
part cost python -m tests.studies.audit_cost
cd docs/examples/audit
part example sweep audit --shapes "$folder/shapes.csv" train.py 300
part json sweep audit --json --shapes "$folder/shapes.csv" train.py 300
part limit sweep audit --seconds 30 --shapes "$folder/limit.csv" train.py 1000000
part launch sweep launch "$folder/shapes.yaml" --results "$folder/results"
