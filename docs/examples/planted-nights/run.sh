#!/usr/bin/env bash
# Seven nights of one software, two with a workload 10% slower, two with one that holds twice the memory.
# A night that was cut goes on, one that is done is only compared again. usage: run.sh [FIRST [LAST]]
cd "$(dirname "$0")" || exit
for night in $(seq "${1:-11}" "${2:-21}"); do
  case $night in
    18|19) edit='s/^CONVOLUTIONS = 20/CONVOLUTIONS = 22/' ;;
    20|21) edit='s/^HELD_MIB = 0/HELD_MIB = 320/' ;;
    *) edit= ;;
  esac
  sed "$edit" planted.py > stack.py
  sweep nightly cluster.yaml --night "2026-11-$night" --reports results/reports
  code=$?
  echo "2026-11-$night: exit code $code"
  [ $code -lt 100 ] || exit $code
done
