"""Complaints of users of other caches that are a matter of processes, a class for each symptom: none is so here.

A real kvtier-agent runs, and engines are processes.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import kvtier
import stand_ins
import vllm_stub
from agent_rig import LAYERS, Agent, EngineMemory, WithAgent, eventually
from kvtier.vllm.block_keys import block_keys
from kvtier.vllm.metadata import Save, StepPlan
from kvtier.vllm.options import parse_options
from kvtier.vllm.space import EngineFacts, space_of_group
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request
from vllm_config import attention, make_cache_config, make_config

vllm_stub.install()
from kvtier.vllm import KvtierConnector  # noqa: E402 (the stubs come first)

NOTHING = frozenset()

ENGINE = """
import sys, time
sys.path.insert(0, {here!r})
import kvtier, stand_ins
from agent_rig import LAYERS, EngineMemory
from kvtier.vllm.metadata import Load, Save
from kvtier.vllm.worker_side import WorkerSide
memory, client = EngineMemory(), kvtier.Client({socket_dir!r})
spec = stand_ins.spec(block_bytes=memory.layout.block_bytes, layers=LAYERS, layout=memory.layout.stored)
worker = WorkerSide(lambda digest: [kvtier.Lanes(client, client.register_space(spec), memory.layout.memory)],
                    spec.weights_digest, [memory.layout.block_bytes], 0.002)
keys = tuple(stand_ins.make_keys(3))
worker.save([Save(keys, None, ((1, 2, 3),))])
while not worker.counts.take().get("saved_blocks"):
    worker.take_results()
print("saved", flush=True)
while True:
    worker.load([Load("a", keys, ((4, 5, 6),), 0.5)])
    worker.save([Save(tuple(stand_ins.make_keys(9)[3:]), keys[-1], ((7, 8, 9, 10, 11, 12),))])
    worker.take_results()
    time.sleep(0.001)
"""


class Symptom3SharedMemoryLeaksWhenAnEngineIsKilled(WithAgent):
    """vLLM 54002, 57303: a region of 17 GB in /dev/shm outlives each crash, until no engine can start any more."""

    FLAGS = ("--worker_memory=staged", "--staging_bytes=4MiB")  # Each worker has a region of its own, which is the harder case.

    def kill_an_engine(self):
        """Runs an engine that saves and loads, and kills it in the middle. Returns what it had mapped."""
        code = ENGINE.format(here=str(Path(__file__).parent), socket_dir=self.agent.socket_dir)
        engine = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(engine.kill)
        self.assertEqual(engine.stdout.readline(), "saved\n")
        mapped = Path(f"/proc/{engine.pid}/maps").read_text()
        engine.kill()
        engine.wait()
        engine.stdout.close()
        return mapped

    def test_nothing_of_ours_is_in_dev_shm_and_a_killed_engine_leaves_no_region(self):
        self.save([1, 2, 3])
        before = self.agent.descriptors()
        for _ in range(3):
            mapped = self.kill_an_engine()
            self.assertIn("/memfd:", mapped)
            self.assertNotIn("/dev/shm/", mapped)
            self.assertTrue(eventually(lambda: self.agent.descriptors() == before), self.agent.descriptors())
        self.assertNotIn("/dev/shm/", Path(f"/proc/{self.agent.process.pid}/maps").read_text())
        self.assertEqual([path.name for path in Path("/dev/shm").iterdir() if "kvtier" in path.name.lower()], [])
        self.load("next", [4, 5, 6])  # The next engine finds the blocks that they saved.
        self.assertEqual(self.answered("next"), set())


class Symptom6NoBackPressure(WithAgent):
    """RFC 50031: a slow tier piles up jobs, and pins the memory of each."""

    def test_a_stopped_agent_holds_256_jobs_at_most_and_the_rest_is_refused_at_once(self):
        self.save([1, 2, 3])
        self.agent.stop()
        received = set()
        for i in range(2000):
            keys = tuple(b"%08d.%022d" % (i, block) for block in range(2))
            self.worker.save([Save(keys, None, ((5, 6),))])
            self.load(f"r{i}", [11, 12], timeout_s=2)
            received |= self.worker.take_results().received
            self.assertLessEqual(max(len(self.worker._saves), len(self.worker._loads)), 256)
        counts = self.worker.counts.take()
        self.assertGreater(counts["save_refused_blocks"], 0)
        self.assertGreater(counts["load_refused_blocks"], 0)
        self.agent.go_on()
        self.answered(*(name for name in (f"r{i}" for i in range(2000)) if name not in received))
        self.assertTrue(eventually(lambda: self.worker.take_results() and not self.worker._saves))

        def saves_again():
            self.worker.save([Save(tuple(make_keys(8)[6:]), None, ((7, 8),))])
            self.assertTrue(eventually(lambda: self.worker.take_results() and not self.worker._saves))
            return self.worker.counts.take().get("saved_blocks", 0) == 2

        self.assertTrue(eventually(saves_again))


class Symptom7HashMismatchMeansZeroHits(WithAgent):
    """LMCache 1139 and seven more: engines whose keys differ share nothing, and nothing says so."""

    TOKENS_0_TO_15 = "dc918a88b139e5afe60b88eda27508d4aee16c10fdc354791efea06206ac0749"
    TOKENS_16_TO_31 = "c300ec275d7bf08af8fc63e76cdc0086911bbc7091e03c5cf892553bef84ef0c"

    def test_sha256_cbor_gives_the_same_keys_in_every_process(self):
        code = "import kvtier; print(*(key.hex() for key in kvtier.vllm_token_keys(list(range(32)), 16)))"
        for seed in ("1", "2", "random"):
            said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONHASHSEED": seed}).stdout
            self.assertEqual(said.split(), [self.TOKENS_0_TO_15, self.TOKENS_16_TO_31])

    def test_the_connector_warns_by_name(self):
        for algorithm in ("sha256", "xxhash", "xxhash_cbor"):
            config = make_config()
            config.cache_config.prefix_caching_hash_algo = algorithm
            with mock.patch.object(kvtier, "Client", lambda *arguments: stand_ins.TableClient()), \
                    self.assertLogs("vllm.kvtier", "WARNING") as logged:
                KvtierConnector(config, vllm_stub.KVConnectorRole.SCHEDULER, kv_cache_config=make_cache_config())
            self.assertIn(f"prefix_caching_hash_algo is '{algorithm}'", logged.output[0])
            self.assertIn("--prefix-caching-hash-algo sha256_cbor", logged.output[0])

    def test_the_doctor_names_what_differs(self):
        specs = []
        for algorithm, seed in (("sha256_cbor", None), ("sha256", None), ("sha256_cbor", "7")):
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"}
            with mock.patch.dict(os.environ, environment if seed is None else {**environment, "PYTHONHASHSEED": seed},
                                 clear=True):
                config = make_config()
                config.cache_config.prefix_caching_hash_algo = algorithm
                specs.append(space_of_group(parse_options({"weights_digest": "w"}), config, attention(), self.memory.layout,
                                            EngineFacts("0.32.0", "CPU_ATTN", "AVX2"), 0, 0, 0))
        clients = [self.agent.connect() for _ in specs]
        for client, spec in zip(clients, specs):
            client.register_space(spec)
        said = self.agent.doctor()
        self.assertIn("do not share: model is", said)
        for part in ("; hash sha256;", "; hash sha256_cbor;", "; seed 7;"):
            self.assertIn(part, said)


class Symptom8OneTenantHasAnothersBlocks(WithAgent):
    """SGLang 37058, LMCache 37160, vLLM 44701: keys without the salt, and adapters named as a salt."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for tenant in ("red", "blue"):
            secret = Path(folder.name) / tenant
            secret.write_bytes(f"the secret of {tenant}, which is long enough".encode())
            secret.chmod(0o600)
        self.secrets = Path(folder.name)
        self.agent = Agent(self, f"--tenants_dir={folder.name}")
        self.memory = EngineMemory()
        layout = self.memory.layout
        self.spec = stand_ins.spec(block_bytes=layout.block_bytes, layers=LAYERS, layout=layout.stored)
        self.client = self.connect("red")
        self.worker = self.open_worker(self.client)

    def connect(self, tenant):
        options = parse_options({"tenant": tenant, "tenant_secret_file": str(self.secrets / tenant)})
        return self.agent.connect(options.tenant, options.tenant_secret())

    def test_a_tenant_with_the_same_keys_and_the_same_space_is_offered_and_given_nothing(self):
        self.save([1, 2, 3])
        red, blue = self.client, self.connect("blue")
        run = {client: (lambda client=client: client.resident_run(client.register_space(self.spec), make_keys(3)))
               for client in (red, blue)}
        self.assertTrue(eventually(lambda: run[red]() == 3))
        self.assertEqual(run[blue](), 0)
        worker = self.open_worker(blue)
        self.load("a", [11, 12, 13], worker=worker)
        self.assertEqual(self.answered("a", worker=worker), {11, 12, 13})

    def test_a_wrong_secret_has_nothing_at_all(self):
        client = kvtier.Client(self.agent.socket_dir, "red", b"the secret of blue, which is long enough")
        self.addCleanup(client.close)
        self.assertFalse(client.connected)

    def test_salts_adapters_and_both_of_one_name_have_keys_of_their_own(self):
        def keys(extra, adapter=None):
            hashes = kvtier.vllm_token_keys(list(range(64)), BLOCK_TOKENS, extra_keys=extra)
            request = stand_ins.Request("a", 64, hashes, lora_request=adapter)
            return tuple(block_keys(request, 0, 2))

        def adapter(path):
            return SimpleNamespace(lora_name="x", lora_path=path)

        kinds = [keys(None), keys([("x",), None]), keys([("y",), None]), keys(("x",), adapter("/a")), keys(("x",), adapter("/b"))]
        for block in range(2):
            self.assertEqual(len({kind[block] for kind in kinds}), len(kinds))


class Symptom13RequestsAreStuckWaitingForRemoteKvs(WithAgent):
    """vLLM 50984, 57938: a load that nobody answers holds its request and its blocks for ever."""

    def test_loads_of_an_agent_that_is_killed_are_answered(self):
        self.save([1, 2, 3])
        for i in range(40):
            self.load(f"r{i}", [11, 12, 13])
        self.agent.kill()
        self.answered(*(f"r{i}" for i in range(40)))
        self.load("later", [11, 12, 13])
        self.assertEqual(self.answered("later"), {11, 12, 13})

    def test_loads_of_an_agent_that_stands_and_is_killed_then_are_answered(self):
        self.save([1, 2, 3])
        self.agent.stop()
        self.load("a", [11, 12, 13], timeout_s=30)
        self.assertEqual(self.worker.take_results().received, set())
        self.agent.kill()
        self.assertEqual(self.answered("a"), {11, 12, 13})

    def test_loads_of_an_agent_that_stands_are_answered_when_their_time_is_over(self):
        self.save([1, 2, 3])
        self.agent.stop()
        self.load("a", [11, 12, 13], timeout_s=0.05)
        self.assertEqual(self.answered("a"), {11, 12, 13})
        self.agent.go_on()
        self.load("b", [11, 12, 13], timeout_s=5)

        def comes():
            self.load("again", [14, 15, 16], timeout_s=5)
            return self.answered("again") == set()

        self.answered("b")
        self.assertTrue(eventually(comes))

    def test_loads_are_answered_when_the_cache_is_reset_and_when_the_lanes_end(self):
        self.save([1, 2, 3])
        self.agent.stop()
        self.load("a", [11, 12, 13], timeout_s=30)
        self.worker.prepare(StepPlan(weights_digest="e"))
        self.assertEqual(self.answered("a"), {11, 12, 13})
        self.load("b", [11, 12, 13], timeout_s=30)
        self.worker.close()
        self.assertEqual(self.answered("b"), {11, 12, 13})
        self.load("c", [11, 12, 13], timeout_s=30)
        self.assertEqual(self.answered("c"), {11, 12, 13})

    def test_a_load_of_a_request_that_was_aborted_is_answered_once(self):
        self.save([1, 2, 3])
        scheduler = self.open_scheduler(recompute_tokens_per_s=100)
        request = make_request("a", 200)
        self.assertTrue(eventually(lambda: scheduler.matched_tokens(request, 0) == (96, True)))
        scheduler.allocated(request, ([11, 12, 13],), 96)
        self.worker.load(scheduler.plan(Step()).loads)
        scheduler.finished("a")
        self.assertEqual(self.answered("a"), set())
        scheduler.workers_answered(NOTHING, frozenset(["a"]), NOTHING)
        self.assertEqual(self.worker.take_results().received, set())


class BlocksThatAreLargerThanASlab(unittest.TestCase):
    """They were never saved, and no line, counter or status said why."""

    def test_the_log_says_what_to_raise_once(self):
        lines = []
        kvtier.set_logger(lambda level, line: lines.append(line))
        self.addCleanup(kvtier.set_logger, None)
        client = Agent(self, "--slab_bytes=4MiB").connect()
        space = client.register_space(stand_ins.spec(block_bytes=8 << 20))
        self.assertTrue(eventually(lambda: "raise --slab_bytes" in client.limits(space).why_not))
        other = client.register_space(stand_ins.spec(block_bytes=4096))
        client.unregister_space(other)
        client.unregister_space(space)
        client.register_space(stand_ins.spec(block_bytes=8 << 20, model="another"))

        def refusals():
            return [line for line in lines if "the agent refuses a space" in line]

        self.assertTrue(eventually(refusals), lines)
        [line] = refusals()
        self.assertIn("space.block_bytes: 8388608; must fit this agent's slab of 4194304 bytes; raise --slab_bytes", line)


class AWrongSecret(unittest.TestCase):
    """It was answered with "start kvtier-agent", beside the true line."""

    def test_is_told_as_one_and_nobody_is_told_to_start_an_agent(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in ("tenants/acme", "wrong"):
            file = Path(folder.name, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"the secret of {name}, which is long enough")
            file.chmod(0o600)
        agent = Agent(self, f"--tenants_dir={folder.name}/tenants", f"--settings_dir={folder.name}")
        self.assertTrue(eventually(lambda: Path(agent.socket_dir, "kvtier-fd.sock").exists()))
        for tenant in ("acme", "nobody"):
            config = make_config(extra={"socket_dir": agent.socket_dir, "tenant": tenant,
                                        "tenant_secret_file": f"{folder.name}/wrong"})
            with self.subTest(tenant), self.assertLogs("vllm.kvtier", "WARNING") as logged:
                connector = KvtierConnector(config, vllm_stub.KVConnectorRole.SCHEDULER, kv_cache_config=make_cache_config())
                self.addCleanup(connector.shutdown)
                self.assertTrue(eventually(lambda: any(f'tenant "{tenant}"' in line for line in logged.output)), logged.output)
            self.assertFalse([line for line in logged.output if "start kvtier-agent" in line], logged.output)

    def test_where_no_agent_is_somebody_is_told_to_start_one(self):
        with self.assertLogs("vllm.kvtier", "WARNING") as logged:
            connector = KvtierConnector(make_config(extra={"socket_dir": "/nowhere"}), vllm_stub.KVConnectorRole.SCHEDULER,
                                        kv_cache_config=make_cache_config())
            self.addCleanup(connector.shutdown)
        self.assertTrue([line for line in logged.output if "start kvtier-agent --socket_dir=/nowhere" in line], logged.output)


if __name__ == "__main__":
    unittest.main()
