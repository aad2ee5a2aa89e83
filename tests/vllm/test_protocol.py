"""The connector on calls that a real engine made, in its order: its answers are those that the engine got."""

import unittest

import kvtier
from recording import PROTOCOLS, Recording, calls_of
from test_connector import WithConnector


class Replay(WithConnector):
    """Saves end at once, and are then in the table; loads end, block by block, as the recording says."""

    def setUp(self):
        super().setUp()
        self.saved = []
        self.recording = Recording(self.scheduler, self.worker, self.end_saves, self.end_loads)

    def end_saves(self):
        for job in self.lanes[-1].offloads:
            if not job.done:
                job.end()
                self.saved += job.keys
                self.clients[-1].put(self.clients[-1].registered[-1], job.keys)

    def end_loads(self, failed_blocks):
        for job in self.lanes[-1].onboards:
            if not job.done:
                job.end([block not in failed_blocks for block in job.blocks])

    def assert_saved(self):
        # A prompt of 150 tokens and an answer of 12 fill five blocks: saved, put again when they failed, and again
        # after the reset. The fifth of the others was there.
        counts = [self.saved.count(key) for key in dict.fromkeys(self.saved)]
        self.assertEqual(counts[:4], [3, 3, 3, 3])
        self.assertEqual(self.scheduler._scheduler._requests, {})


class Recompute(Replay):
    def test_the_answers_are_those_that_the_engine_got(self):
        self.assertTrue(PROTOCOLS)
        for path in PROTOCOLS:
            calls = calls_of(path)
            for place, call in enumerate(calls):
                with self.subTest(path=path.name, line=place + 1, method=call["method"]):
                    self.assertEqual(self.recording.call(calls, place), call["result"])
            answers = [call["result"] for call in calls if call["method"] == "get_num_new_matched_tokens"]
            self.assertEqual(answers, [[0, False], [128, True], [128, True], [0, False], [0, False]])
            self.assert_saved()


class Fail(Replay):
    """kv_load_failure_policy is "fail": the same calls, with tickets that the agent grants."""

    POLICY = "fail"

    def setUp(self):
        with self.assertLogs("vllm.kvtier", "WARNING") as logged:
            super().setUp()
        self.warnings = logged.output

    def grant(self, held):
        """Ends the last request for a ticket: the ticket holds the keys at the places `held`."""
        sequences, _, call = self.clients[-1].tickets[-1]
        call.end(kvtier.Ticket(b"%016d" % len(self.clients[-1].tickets), [held for _ in sequences]))

    def test_it_warns_once_and_says_what_it_does(self):
        [warning] = self.warnings
        self.assertIn("kv_load_failure_policy is 'fail': a request whose load fails is lost, so only blocks are loaded that "
                      "the agent holds for it", warning)

    def test_only_held_blocks_are_offered_and_tickets_are_let_go_of_behind_the_load(self):
        for path in PROTOCOLS:
            calls = calls_of(path)
            for place, call in enumerate(calls):
                with self.subTest(path=path.name, line=place + 1, method=call["method"]):
                    asked = len(self.clients[-1].tickets)
                    answer = self.recording.call(calls, place)
                    if answer == [None, False]:  # A ticket for all blocks that the table has is on its way.
                        self.assertEqual(len(self.clients[-1].tickets), asked + 1)
                        self.grant(list(range(len(self.clients[-1].tickets[-1][0][0].keys))))
                        answer = self.recording.call(calls, place)
                    self.assertEqual(answer, call["result"])
            client = self.clients[-1]
            self.assertEqual(client.prefetches, [])
            self.assertEqual([ticket for ticket in client.released], [b"%016d" % 1, b"%016d" % 2])
            self.assert_saved()

    def test_what_the_ticket_does_not_hold_is_not_offered_whatever_the_table_says(self):
        calls = calls_of(PROTOCOLS[0])
        asks = [place for place, call in enumerate(calls) if call["method"] == "get_num_new_matched_tokens"]
        for place in range(asks[1]):
            self.recording.call(calls, place)
        self.assertEqual(self.recording.call(calls, asks[1]), [None, False])
        self.grant([0, 1, 3])
        self.assertEqual(self.recording.call(calls, asks[1]), [64, True])


if __name__ == "__main__":
    unittest.main()
