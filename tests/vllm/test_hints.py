"""Hints of requests about the next use of their blocks, and what the agent is told at their end."""

import unittest
from unittest import mock

import kvtier
import stand_ins
from kvtier.vllm import request_options
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request
from test_scheduler_side import WithScheduler

HINTS = {"kvtier.conversation": "session-1", "kvtier.turn": 2, "kvtier.priority": 0, "kvtier.will_not_return": True}


def said(sequence):
    return (sequence.conversation, sequence.turn, sequence.priority, sequence.will_not_return, sequence.finish)


class Hints(WithScheduler):
    def setUp(self):
        super().setUp()
        unwarned = mock.patch.object(request_options, "_warned", set())
        unwarned.start()
        self.addCleanup(unwarned.stop)

    def end(self, name, tokens, finish=None, **parameters):
        """Makes a request come and end."""
        self.matched(make_request(name, tokens, kv_transfer_params=parameters))
        self.side.finished(name, finish)

    def test_a_look_carries_them(self):
        self.matched(make_request("a", 200, kv_transfer_params=HINTS))
        [([sequence], _, _)] = self.client.prefetches
        self.assertEqual(said(sequence), ("session-1", 2, 0, True, None))
        self.matched(make_request("b", 200))
        self.assertEqual(said(self.client.prefetches[1][0][0]), (None, None, None, False, None))

    def test_loads_and_saves_carry_them(self):
        hint = kvtier.ReuseHint("session-1", 2, 0, True)
        self.put(2)
        request = make_request("a", 200, kv_transfer_params=HINTS)
        self.matched(request)
        self.client.prefetches[0][2].end(0)
        self.assertEqual(self.matched(request), (64, True))
        self.assertEqual(self.load(request, 2).hint, hint)
        [save] = self.side.plan(Step().new("a", 64, 136, list(range(1, 8)))).saves
        self.assertEqual(save.hint, hint)

    def test_the_engines_own_priority_is_none_of_them(self):
        request = make_request("a", 200)
        request.priority = 7
        self.matched(request)
        self.assertIsNone(self.client.prefetches[0][0][0].priority)

    def test_the_end_of_a_request_is_told_with_the_next_plan_and_no_answer_is_awaited(self):
        self.end("a", 200, "stop", **HINTS)
        self.assertEqual(self.client.advices, [])
        self.side.plan(Step())
        [([sequence], _, call)] = self.client.advices
        self.assertEqual(said(sequence), ("session-1", 2, 0, True, "stop"))
        self.assertEqual(list(sequence.keys), make_keys(6))
        self.assertFalse(call.done())
        self.side.plan(Step())
        self.assertEqual(len(self.client.advices), 1)
        self.assertEqual(self.side.counts.take()["advised_requests"], 1)

    def test_a_reason_alone_is_told_and_nothing_is_not(self):
        self.end("a", 200, "length")
        self.end("b", 200)
        self.end("short", 31, "stop")  # This request fills no block.
        self.end("c", 200, "stop", **{"kvtier.no_store": True})
        self.side.plan(Step())
        self.assertEqual([said(sequences[0])[-1] for sequences, _, _ in self.client.advices], ["length"])

    def test_all_ranks_are_told_within_one_calls_keys(self):
        self.side.accept_spaces({(0, rank): [stand_ins.spec(tp_rank=rank, tp_size=2)] for rank in range(2)})
        self.end("a", 5000 * BLOCK_TOKENS, "stop")
        self.side.plan(Step())
        [(sequences, _, _)] = self.client.advices
        self.assertEqual([len(sequence.keys) for sequence in sequences], [4096, 4096])
        self.assertEqual(sequences[0].keys[-1], make_keys(5000)[-1])

    def test_what_a_step_has_no_time_for_is_told_by_the_next_and_a_full_client_is_no_error(self):
        self.end("a", 200, "stop")
        self.side._spent_s = 1.0
        self.side.plan(Step())
        self.assertEqual(self.client.advices, [])
        self.client.busy = True
        self.side.plan(Step())
        self.client.busy = False
        self.side.plan(Step())
        self.assertEqual(self.client.advices, [])  # The advice is lost.
        for name in range(300):
            self.end(str(name), 200, "stop")
        self.side.plan(Step())
        self.assertEqual(len(self.client.advices), 256)

    def test_wrong_ones_are_ignored_with_one_line_for_each_name(self):
        wrong = {"kvtier.conversation": "c" * 257, "kvtier.turn": -1, "kvtier.priority": 101, "kvtier.will_not_return": 1}
        with self.assertLogs("vllm.kvtier", "WARNING") as logged:
            for name in range(3):
                self.matched(make_request(str(name), 200, kv_transfer_params=wrong))
        for sequences, _, _ in self.client.prefetches:
            self.assertEqual(said(sequences[0]), (None, None, None, False, None))
        self.assertEqual(len(logged.output), 4)
        self.assertIn("kvtier.conversation is a str of 257 bytes; must be a str of 1 to 256 bytes", logged.output[0])
        self.assertIn("kvtier.turn is -1; must be an int of 0 to 4294967295", logged.output[1])
        self.assertIn("kvtier.priority is 101; must be an int of 0 to 100", logged.output[2])
        self.assertIn("kvtier.will_not_return is 1; must be true or false, so it is ignored", logged.output[3])

    def test_values_at_the_limits_are_taken(self):
        hint = request_options.read_request_options({
            "kvtier.conversation": "\u00e9" * 128, "kvtier.turn": 2**32 - 1, "kvtier.priority": 100,
            "kvtier.will_not_return": False}).hint
        self.assertEqual((hint.conversation, hint.turn, hint.priority, hint.will_not_return),
                         ("\u00e9" * 128, 2**32 - 1, 100, False))
        for name, value in [("conversation", ""), ("conversation", b"id"), ("conversation", "\ud800"), ("turn", 2**32),
                            ("turn", True), ("turn", 1.0), ("priority", "50"), ("priority", -1), ("will_not_return", "no")]:
            with (mock.patch.object(request_options, "_warned", set()),
                  self.assertLogs("vllm.kvtier", "WARNING") as logged):
                options = request_options.read_request_options({f"kvtier.{name}": value})
                self.assertEqual(options.hint, kvtier.ReuseHint())
            self.assertEqual(len(logged.output), 1)
            self.assertIn(f"kvtier.{name} is ", logged.output[0])


if __name__ == "__main__":
    unittest.main()
