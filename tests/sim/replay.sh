#!/usr/bin/env bash
# Plays the same seeds in two processes, one after the other, and compares what they hash.
#   replay.sh KVTIER_SIM
# The number of seeds is 12, or a tenth of KVTIER_SIM_SEEDS where that is less, as in slow builds.
set -euo pipefail

seeds=$(((${KVTIER_SIM_SEEDS:-120} + 9) / 10))
[[ "$seeds" -gt 12 ]] && seeds=12
first="$("$1" --seeds "$seeds" --hash)"
second="$("$1" --seeds "$seeds" --hash)"
diff <(echo "$first") <(echo "$second")
[[ "$(wc -l <<<"$first")" -ge "$seeds" ]] || { echo "no hashes in: $first"; exit 1; }
