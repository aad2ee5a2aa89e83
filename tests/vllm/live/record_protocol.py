"""Records the calls that the real engine makes of the connector: a save, a load, a load that fails, a reset.

    PYTHONPATH=build/dev/python VENV/bin/python record_protocol.py MODEL FILE

FILE gets a line of JSON for each call. All runs in one process, with an agent of its own.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

_FILE = Path(sys.argv[2]).resolve()
_HERE = Path(__file__).parent
os.environ.update({"KVTIER_RECORD": str(_FILE), "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1",
                   "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1",
                   "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "VLLM_CPU_OMP_THREADS_BIND": "nobind"})
sys.path.insert(0, str(_HERE))

from vllm import LLM, SamplingParams  # noqa: E402 (the environment comes first)

from agent_process import AgentProcess  # noqa: E402
from locations import BIN  # noqa: E402

_PROMPT = {"prompt_token_ids": [1000 + i * 7 for i in range(150)]}
_SETTLE_S = 2  # Time for saves to end, and for an agent to stop.


def without_repeated_steps(lines: list[str]) -> list[str]:
    """Returns the calls without steps that are the same as the one before: an idle engine makes thousands."""
    steps: list[list[str]] = [[]]
    for line in lines:
        if '"build_connector_meta"' in line:
            steps.append([])
        steps[-1].append(line)
    kept = [step for before, step in zip([None, *steps], steps) if step != before]
    return [line for step in kept for line in step]


def main() -> None:
    """Records into FILE, which it empties first."""
    _FILE.write_text("")
    agent = AgentProcess(BIN / "kvtier-agent", Path(tempfile.mkdtemp(prefix="kvtier-record-")))
    agent.start()
    try:
        llm = LLM(model=sys.argv[1], dtype="float32", max_model_len=512, block_size=32, enforce_eager=True,
                  max_num_seqs=4, prefix_caching_hash_algo="sha256_cbor", kv_transfer_config={
                      "kv_connector": "RecordedConnector", "kv_connector_module_path": "recorded_connector",
                      "kv_role": "kv_both", "kv_load_failure_policy": "recompute", "kv_connector_extra_config": {
                          "socket_dir": str(agent.socket_dir), "recompute_tokens_per_s": 400, "peers": False}})
        texts = []
        for scenario in ("save", "load", "failure", "reset"):
            llm.reset_prefix_cache(reset_connector=scenario == "reset")
            if scenario == "failure":
                agent.stop()
            time.sleep(_SETTLE_S)
            texts.append(llm.generate([_PROMPT], SamplingParams(temperature=0, max_tokens=12))[0].outputs[0].text)
            if scenario == "failure":
                agent.go_on()
        _FILE.write_text("".join(without_repeated_steps(_FILE.read_text().splitlines(keepends=True))))
        print(f"{len(set(texts))} text of {len(texts)} answers: {texts[0]!r}")
    finally:
        agent.kill()


if __name__ == "__main__":
    main()
