#!/bin/bash
# usage: submit.sh NAME: the sweep NAME in four shards, and a last job that asks. Again: goes on with it.
set -euo pipefail
cd "$(dirname "$0")"
export SWEEP=${1:?a name for the sweep}
shards=$(sbatch --parsable shard.sbatch)
sbatch --dependency="afterany:$shards" ask.sbatch
