"""examples/worker.py as a process on a real agent: in its GPU pool, and with KV stored encoded.

The reference is the answers that a worker gives from its own memory. Blocks that went through a lossy
codec may change an answer, so there only the first answer, which reuses nothing, must be the same.
"""

import json
import subprocess
import sys
import unittest
from pathlib import Path

import example_model
from example_agent import BLOCK_BYTES, SLOTS, Agent, needs_agent
from example_model import needs_model

_WORKER = Path(__file__).resolve().parents[2] / "examples" / "worker.py"
_QUESTIONS = ("What is this text?", "Who may use the work?", "What is a contributor?")
_PREFIX_TOKENS = 280  # 17 blocks and a half; enough for a worker to measure its own prefill.
_SHARED_BLOCKS = 17
_ENCODED_BYTES = {"int8": 198784, "fp8_e4m3": 190144}


class Worker:
    """Runs worker.py --serve until the context is left. Shows its stderr."""

    def __init__(self, agent, *flags):
        self._process = subprocess.Popen(
            [sys.executable, _WORKER, "--serve", f"--socket-dir={agent.folder.name}",
             "--context-tokens=1024", "--timeout-s=30", *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        self.ready = self._read()
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.stdout.close()

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with {self._process.wait()}")
        return json.loads(line)

    def ask_all(self, use_cache=True):
        """Returns the worker's answers to _QUESTIONS about the first tokens of one document."""
        answers = []
        for question in _QUESTIONS:
            request = {"prompt": example_model.document(), "question": question, "max_tokens": 6,
                       "prefix_tokens": _PREFIX_TOKENS, "use_cache": use_cache}
            print(json.dumps(request), file=self._process.stdin, flush=True)
            answers.append(self._read())
        return answers


def outputs(answers):
    return [answer["output_tokens"] for answer in answers]


def agreement(answers, references):
    """Returns the share of the references' tokens before the first one in which the answer differs."""
    same = 0
    for tokens, reference in zip(outputs(answers), outputs(references)):
        parted = [mine != theirs for mine, theirs in zip(tokens, reference)] + [True]
        same += parted.index(True)
    return same / sum(len(reference) for reference in outputs(references))


@needs_model
@needs_agent
class WorkerProcessTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        agent = Agent()
        cls.addClassCleanup(agent.kill)
        agent.client().close()
        with Worker(agent) as worker:
            cls.own = worker.ask_all(use_cache=False)
            cls.raw = worker.ask_all()
            cls.raw_ready = worker.ready
        # This worker reads the blocks that the one before it put, into slots of the pool.
        with Worker(agent, f"--gpu-pool={SLOTS}") as worker:
            cls.pooled = worker.ask_all()
        cls.encoded, cls.encoded_ready = {}, {}
        for codec in _ENCODED_BYTES:
            with Worker(agent, f"--kv-codec={codec}") as worker:
                cls.encoded[codec] = worker.ask_all()
                cls.encoded_ready[codec] = worker.ready

    def test_raw_blocks_of_the_agent_give_the_answers_of_own_memory(self):
        self.assertEqual((self.raw_ready["connected"], self.raw_ready["block_bytes"]),
                         (True, BLOCK_BYTES))
        self.assertEqual([answer["blocks_reused"] for answer in self.own], [0, 0, 0])
        self.assertEqual([answer["blocks_reused"] for answer in self.raw],
                         [0, _SHARED_BLOCKS, _SHARED_BLOCKS])
        self.assertEqual(outputs(self.raw), outputs(self.own))
        self.assertTrue(all(outputs(self.own)))

    def test_the_pool_gives_the_answers_of_own_memory(self):
        first, *others = self.pooled
        self.assertGreaterEqual(first["blocks_reused"], _SHARED_BLOCKS)
        self.assertEqual(first["tokens_forked"], 0)
        for answer in others:
            self.assertEqual(answer["tokens_forked"], _SHARED_BLOCKS * 16)
        self.assertEqual(outputs(self.pooled), outputs(self.own))

    def test_encoded_blocks_are_onboarded_from_slots_of_the_encoded_size(self):
        for codec, stored_bytes in _ENCODED_BYTES.items():
            with self.subTest(codec=codec):
                ready, (first, *others) = self.encoded_ready[codec], self.encoded[codec]
                self.assertEqual((ready["connected"], ready["block_bytes"]), (True, stored_bytes))
                self.assertEqual(first["blocks_reused"], 0)
                self.assertGreaterEqual(first["blocks_committed"], _SHARED_BLOCKS)
                for answer in others:
                    self.assertEqual((answer["blocks_reused"], answer["bytes_moved"]),
                                     (_SHARED_BLOCKS, _SHARED_BLOCKS * stored_bytes))

    def test_answers_from_encoded_blocks_are_held_against_raw(self):
        for codec, answers in self.encoded.items():
            share = agreement(answers[1:], self.raw[1:])
            print(f"{codec}: {share:.0%} of the tokens before the answers part from raw's",
                  file=sys.stderr)
            with self.subTest(codec=codec):
                self.assertEqual(outputs(answers)[0], outputs(self.raw)[0])
                self.assertGreaterEqual(share, 0.5)


if __name__ == "__main__":
    unittest.main()
