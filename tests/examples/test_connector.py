"""examples/connector.py on a real agent, and the page that quotes it."""

import re
import subprocess
import sys
import textwrap
import time
import unittest
from pathlib import Path

from example_agent import Agent, needs_agent
from example_model import needs_numpy

_ROOT = Path(__file__).resolve().parents[2]
_CONNECTOR = _ROOT / "examples" / "connector.py"
_PAGE = _ROOT / "docs" / "writing-a-connector.md"


def eventually(condition):
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@needs_numpy
@needs_agent
class ConnectorTest(unittest.TestCase):
    def setUp(self):
        import connector
        import numpy

        # The agent does not scrub: a scrub may find the damaged block before a reader does.
        self.agent = Agent("--host_scrub_bytes_per_second=0")
        self.addCleanup(lambda: self.agent and self.agent.kill())
        self.agent.client().close()  # Waits until the agent serves.
        # The model is slow to compute, so that a load is never late on a busy machine.
        self.model = connector.Model(prefill_tokens_per_s=10.0)
        self.connector, self.numpy = connector, numpy
        self.prompt = numpy.arange(6 * 16 + 5, dtype=numpy.int32)
        self.slots = [9, 3, 30, 4, 17, 0]

    def engine(self):
        engine = self.connector.Engine(self.agent.folder.name, self.model)
        self.addCleanup(engine.client.close)
        # An engine waits neither for its connection nor for the room of a put. On a busy machine a test does.
        self.assertTrue(eventually(lambda: engine.client.connected))
        reserve = engine.client.reserve
        engine.client.reserve = lambda *words, timeout_s=0: reserve(*words, timeout_s=timeout_s + 20)
        return engine

    def computed(self, engine, slots):
        """Returns whether the slots hold what the model computes for the prompt."""
        alone = self.connector.Engine("/nonexistent", self.model)
        alone.prefill(self.prompt, slots)
        alone.client.close()
        return all(self.numpy.array_equal(ours, theirs) for slot in slots for ours, theirs in
                   zip(engine.memory.pieces(slot), alone.memory.pieces(slot)))

    def test_a_second_engine_loads_what_the_first_stored(self):
        first, second = self.engine(), self.engine()
        loaded, stored = first.prefill(self.prompt, self.slots)
        self.assertEqual((loaded, stored.result(30)), (0, 6))
        loaded, stored = second.prefill(self.prompt, self.slots[::-1])
        self.assertEqual((loaded, stored.result(30)), (6, 0))
        self.assertTrue(self.computed(second, self.slots[::-1]))
        self.assertEqual(second.worker.missed, {})

    def test_a_longer_prompt_goes_on_behind_its_parent(self):
        engine = self.engine()
        engine.prefill(self.prompt[:40], self.slots[:2])[1].result(30)
        loaded, stored = self.engine().prefill(self.prompt, self.slots)
        self.assertEqual((loaded, stored.result(30)), (2, 4))
        self.assertEqual(engine.scheduler.reusable_blocks(self.prompt), 6)
        self.assertEqual(engine.scheduler.reusable_blocks(self.prompt[:32]), 1)

    def test_a_window_loads_around_its_holes(self):
        engine = self.engine()
        keys = engine.scheduler.keys(self.prompt)
        for i in (1, 4):
            engine.compute(keys[i], self.slots[i])
            engine.worker.store([keys[i]], [self.slots[i]], keys[i - 1]).result(30)
        other = self.engine()
        self.assertEqual(other.worker.load_set(keys, self.slots), {1, 4})
        self.assertEqual(other.worker.missed, {"absent": 1})
        self.assertTrue(self.numpy.array_equal(other.memory.pieces(self.slots[4])[0],
                                               engine.memory.pieces(self.slots[4])[0]))

    def test_a_block_that_does_not_load_is_computed_and_put_again(self):
        engine = self.engine()
        keys = engine.scheduler.keys(self.prompt)
        for i, key in enumerate(keys):
            engine.compute(key, self.slots[i])
        space = engine.client.register_space(
            self.connector.space_spec(self.model, engine.memory))
        with engine.client.reserve(space, keys) as put:
            for i in range(len(keys)):
                put.copy_in(i, engine.memory.pieces(self.slots[i]))
            stray = self.numpy.frombuffer(put[2], self.numpy.uint8)
            self.assertEqual(put.commit(), 6)
        stray[77] ^= 1  # The worker has a bug: it writes after its commit.
        reader = self.engine()
        loaded, _ = reader.prefill(self.prompt, self.slots)
        self.assertEqual((loaded, reader.worker.missed["damaged"]), (2, 1))
        self.assertTrue(self.computed(reader, self.slots))
        # The agent drops the block once it has verified its bytes.
        self.assertTrue(eventually(lambda: reader.prefill(self.prompt, self.slots)[0] == 6))
        self.assertTrue(self.computed(reader, self.slots))

    def test_lanes_move_the_same_blocks_in_the_background(self):
        first, second = self.engine(), self.engine()
        first.prefill(self.prompt[:32], self.slots[:2])[1].result(30)
        workers = []
        for engine in (first, second):
            space = engine.client.register_space(
                self.connector.space_spec(self.model, engine.memory))
            workers.append(self.connector.BackgroundWorker(engine.client, space, engine.memory, 10))
            self.addCleanup(workers[-1].lanes.close)
        keys = first.scheduler.keys(self.prompt)
        for key, slot in list(zip(keys, self.slots))[2:]:
            first.compute(key, slot)
        stored = workers[0].start_store(keys[2:], self.slots[2:], keys[1])
        self.assertTrue(stored.wait(30))
        self.assertEqual((stored.copied, stored.results), (True, [True] * 4))
        workers[0].take_back(self.slots)
        load = workers[1].start_load(keys + [b"another key"], self.slots[::-1] + [50])
        self.assertTrue(load.wait(30))
        self.assertEqual((load.error, workers[1].loaded_blocks(load)), (None, 6))
        self.assertEqual(workers[1].lanes.poll(), [load])
        self.assertTrue(self.computed(second, self.slots[::-1]))

    def test_without_an_agent_everything_is_computed(self):
        engine = self.engine()
        engine.prefill(self.prompt, self.slots)[1].result(30)
        self.agent.kill()
        self.agent = None
        self.assertTrue(eventually(lambda: not engine.client.connected))
        loaded, stored = engine.prefill(self.prompt, self.slots)
        self.assertEqual((loaded, stored.result(30)), (0, 0))
        self.assertTrue(self.computed(engine, self.slots))
        engine.scheduler.fetch_ahead(self.prompt)

    def test_what_is_fetched_ahead_is_counted(self):
        engine = self.engine()
        engine.prefill(self.prompt, self.slots)[1].result(30)
        engine.scheduler.fetch_ahead(self.prompt)
        self.assertTrue(eventually(lambda: engine.client.stats()["calls"] >= 3))
        self.assertEqual(engine.client.stats()["calls_failed"], 0)

    def test_as_a_program_the_second_run_finds_the_blocks_of_the_first(self):
        said = [subprocess.run([sys.executable, _CONNECTOR, self.agent.folder.name], text=True,
                               capture_output=True, timeout=60, check=True).stdout
                for _ in range(2)]
        self.assertEqual(said, ["0 of 8 blocks loaded, 8 stored\n",
                                "8 of 8 blocks loaded, 0 stored\n"])


class PageTest(unittest.TestCase):
    def test_the_page_quotes_the_connector_word_for_word(self):
        lines = _CONNECTOR.read_text(encoding="utf-8").splitlines()
        excerpts = re.findall(r"^```python\n(.*?)^```$", _PAGE.read_text(encoding="utf-8"),
                              re.M | re.S)
        self.assertGreaterEqual(len(excerpts), 5)
        for excerpt in map(textwrap.dedent, excerpts):
            count = len(excerpt.splitlines())
            runs = [textwrap.dedent("\n".join(lines[at:at + count]) + "\n")
                    for at in range(len(lines) - count + 1)]
            self.assertTrue(excerpt in runs, f"not in {_CONNECTOR.name}:\n{excerpt}")

    def test_the_page_explains_every_reason_of_a_miss(self):
        header = (_ROOT / "core" / "miss_reason.h").read_text(encoding="utf-8")
        names = re.findall(r'"(\w+)"', header[header.index("kNames"):])
        self.assertIn("absent", names)
        page = _PAGE.read_text(encoding="utf-8")
        for name in names[1:]:
            self.assertIn(f'| `"{name}"` (`{name.upper()}`) |', page)


if __name__ == "__main__":
    unittest.main()
