"""Real vLLM with kvtier, by configuration alone: everything that scripts/test-engines promises.

    python3 run.py PART VENV MODEL [FOLDER]      PART: all, smoke, preemption, codec, ranks, beside
    python3 run.py --count PART                  prints how many scenarios it has

Environment: KVTIER_BIN_DIR and KVTIER_PYTHON_DIR, where build/dev has them otherwise; for `all` KVTIER_OLDER_AGENT and
KVTIER_OLDER_WIRE, an agent of an older wire and its Python folder, and KVTIER_OLDER_WHEEL, that of an older connector.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import beside
import codec
import control
import damage
import hits
import interruptions
import isolation
import preemption
import processes
import ranks
import request_options
import versions
from agent_process import AgentProcess
from coordinator_process import CoordinatorProcess
from locations import BIN, free_port
from prompts import make_prompts
from report import Report
from site_of_run import Site

_CONTROL = "without kvtier the texts of 45 of 50 prompts are equal"
_BYTES = "the bytes of all loaded blocks are those saved"
_PREEMPTION = "preempted requests load their blocks again"
_RANKS = "tensor ranks load what all of them have"
_SMOKE = (
    _CONTROL, "the first engine computes and saves", "a planted difference is found", "cache salts never share",
    "requests say what is stored and loaded for them", "a second engine process on the node hits",
    "scheduler and worker are two processes", "after eviction from host memory it hits from disk",
    "after kill -9 of the agent it hits again", "the agent is stopped in the middle of requests")
_MORE = (
    "a killed engine leaks nothing", "an engine on another node fetches from its peer", "12 requests at once",
    "an engine that forks", "the agent is killed in the middle of requests",
    "the agent is restarted in the middle of requests", "engines of different weights never share",
    "LoRA adapters never share", "after a reset nothing from before is loaded", "bytes flipped in segment files",
    "bytes flipped in the arena", "host memory smaller than one prefix", "a newer wheel with an older agent",
    "a worker of an older wire", "an engine with an older wheel", _PREEMPTION, _RANKS, codec.NAME, beside.NAME)
NAMES = {"all": (*_SMOKE, *_MORE, _BYTES), "smoke": (*_SMOKE, _BYTES), "preemption": (_CONTROL, _PREEMPTION, _BYTES),
          "codec": (codec.NAME,), "ranks": (_CONTROL, _RANKS, _BYTES),
          "beside": (_CONTROL, beside.NAME)}
_ONE_PROCESS = ("--distributed-executor-backend", "uni")
_TWO_PROCESSES = ("--distributed-executor-backend", "mp")


def make_agent(site: Site, node: str, coordinator: str = "") -> AgentProcess:
    """Starts an agent that verifies nothing in the background, so that what readers verify is seen."""
    more = ["--host_scrub_bytes_per_second=0", "--scrub_bytes_per_second=0", "--locate_grace=1s"]
    if coordinator:
        more.append(f"--coordinator={coordinator}")
    agent = AgentProcess(BIN / "kvtier-agent", site.folder / node, "640MiB", node=node, port=free_port(), more=more)
    site.engines.callback(agent.kill)
    agent.start()
    return agent


def run_smoke(site: Site) -> None:
    """Runs three engines, two at a time: one without kvtier, one that saves, and one that hits."""
    agent = make_agent(site, "a")
    plain, first = site.plain_engine("plain"), site.engine("first", agent, _ONE_PROCESS)
    plain.await_ready()
    control.control_is_stable(site, plain, make_prompts())
    plain.close()
    second = site.engine("second", agent, _TWO_PROCESSES)
    first.await_ready()
    hits.engine_saves(site, first, agent)
    damage.planted_difference_is_found(site, first)
    isolation.salts_never_share(site, first)
    request_options.request_options_are_followed(site, first)
    first.close()
    second.await_ready()
    hits.second_process_hits(site, second, agent)
    hits.two_processes_hit(site, second, agent)
    hits.disk_hits(site, second, agent)
    hits.killed_agent_hits_again(site, second, agent)
    interruptions.agent_stopped(site, second, agent)


def run_all(site: Site) -> None:
    """Runs nine engines, two at a time: the next one starts while scenarios run on the one before."""
    older_agent, older_wire, older_wheel = (Path(os.environ[f"KVTIER_OLDER_{name}"])
                                            for name in ("AGENT", "WIRE", "WHEEL"))
    coordinator = site.engines.enter_context(CoordinatorProcess(site.folder / "coordinator"))
    agent, other_agent = (make_agent(site, node, coordinator.address) for node in ("a", "b"))
    coordinator.await_nodes(2)
    versions.visit(site, agent)  # An agent opens some files once, with its first worker: they are open now.
    before = processes.held_by(agent)

    plain, first = site.plain_engine("plain"), site.engine("first", agent, _ONE_PROCESS)
    plain.await_ready()
    control.control_is_stable(site, plain, make_prompts())
    expected = preemption.expected_texts(plain)
    plain.close()

    other = site.engine("other_node", other_agent)
    first.await_ready()
    hits.engine_saves(site, first, agent)
    damage.planted_difference_is_found(site, first)
    isolation.salts_never_share(site, first)
    request_options.request_options_are_followed(site, first)
    processes.killed_engine_leaks_nothing(site, first, agent, before)

    second = site.engine("second", agent, _TWO_PROCESSES)
    other.await_ready()
    hits.other_node_hits(site, other, other_agent, agent)
    other.close()
    other_agent.kill()  # One node is left, so no other node has the blocks that are lost or damaged here.
    variants = isolation.make_variants(site)
    changed = site.engine("changed", agent, isolation.adapter_flags(variants), variants / "weights")
    second.await_ready()
    hits.second_process_hits(site, second, agent)
    hits.two_processes_hit(site, second, agent)
    hits.many_at_once_hit(site, second, agent)
    processes.forking_engine_hits(site, second)
    hits.disk_hits(site, second, agent)
    hits.killed_agent_hits_again(site, second, agent)
    changed.await_ready()
    isolation.weights_never_share(site, changed)
    isolation.adapters_never_share(site, changed)
    isolation.reset_begins_anew(site, changed)
    changed.close()

    # The older package does not measure the engine's prefill, and would wait a tenth as long as computing takes here.
    older = site.engine("older_wheel", agent, python=older_wheel, options={"recompute_tokens_per_s": 400})
    interruptions.agent_killed(site, second, agent)
    interruptions.agent_stopped(site, second, agent)
    interruptions.agent_restarted(site, second, agent)
    damage.damaged_segments(site, second, agent)
    damage.damaged_arena(site, second, agent)
    hits.small_host_memory_hits(site, second, agent)
    older.await_ready()
    versions.older_wheel(site, older)
    older.close()

    few = site.engine("few_blocks", agent, preemption.FLAGS)
    versions.older_worker(site, agent, older_wire)
    versions.older_agent(site, second, agent, older_agent)
    second.close()
    ranked = site.engine("ranks", agent, ranks.FLAGS)
    few.await_ready()
    preemption.preempted_requests_load_again(site, few, expected)
    few.close()
    encoding = codec.start_engine(site, agent, "lossless")
    ranked.await_ready()
    ranks.all_ranks_load(site, ranked)
    ranked.close()
    shared = site.engine_beside("beside", agent)
    codec.hits_are_alike(site, [("lossless", encoding)])
    shared.await_ready()
    beside.connectors_share_an_engine(site, shared)


def run_preemption(site: Site) -> None:
    """Runs an engine with room for all requests, and one without."""
    agent = make_agent(site, "a")
    plain, few = site.plain_engine("plain"), site.engine("few_blocks", agent, preemption.FLAGS)
    plain.await_ready()
    control.control_is_stable(site, plain, make_prompts())
    expected = preemption.expected_texts(plain)
    few.await_ready()
    preemption.preempted_requests_load_again(site, few, expected)


def run_codec(site: Site) -> None:
    """Runs an engine in bfloat16 for each codec, one after the other."""
    agent = make_agent(site, "a")
    codec.hits_are_alike(site, ((name, codec.start_engine(site, agent, name)) for name in codec.CODECS))


def run_ranks(site: Site) -> None:
    """Runs an engine without kvtier, for the prompts' tokens, and one of several ranks."""
    agent = make_agent(site, "a")
    plain, ranked = site.plain_engine("plain"), site.engine("ranks", agent, ranks.FLAGS)
    plain.await_ready()
    control.control_is_stable(site, plain, make_prompts())
    plain.close()
    ranked.await_ready()
    ranks.all_ranks_load(site, ranked)


def run_beside(site: Site) -> None:
    """Runs an engine without kvtier, and two inside MultiConnector, the first of which saves."""
    agent = make_agent(site, "a")
    plain, first = site.plain_engine("plain"), site.engine_beside("first", agent)
    plain.await_ready()
    control.control_is_stable(site, plain, make_prompts())
    plain.close()
    first.await_ready()
    first.complete_all(site.control.prompts, control.ANSWER_TOKENS)
    first.close()
    second = site.engine_beside("second", agent)
    second.await_ready()
    beside.connectors_share_an_engine(site, second)


_PARTS: dict[str, Callable[[Site], None]] = {"all": run_all, "smoke": run_smoke, "preemption": run_preemption,
                                             "codec": run_codec, "ranks": run_ranks,
                                             "beside": run_beside}


def main() -> int:
    """Runs one part in FOLDER, or in a temporary folder that is removed when all went well."""
    if sys.argv[1] == "--count":
        print(len(NAMES[sys.argv[2]]))
        return 0
    part = sys.argv[1]
    named = len(sys.argv) > 4
    folder = Path(sys.argv[4]) if named else Path(tempfile.mkdtemp(prefix="kvtier-vllm-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"logs: {folder}", flush=True)
    site = Site(Path(sys.argv[2]), Path(sys.argv[3]), folder, Report(NAMES[part]))
    try:
        with site.engines:
            _PARTS[part](site)
    except RuntimeError as error:
        print(f"WRONG: {error}")  # An engine or an agent does not start: the scenarios that need it count as failed.
    if _BYTES in NAMES[part]:
        hits.all_bytes_compare(site)
    code = site.report.finish()
    # These folders have gigabytes that say nothing more than the logs; the counts stay the last line.
    for heavy in [folder / "variants", *folder.glob("*/disk"), *([folder] if code == 0 and not named else [])]:
        shutil.rmtree(heavy, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
