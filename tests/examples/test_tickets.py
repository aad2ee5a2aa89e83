"""Tickets between two processes' clients, on a real agent."""

import time
import unittest

from example_agent import Agent, needs_agent

BLOCK_BYTES = 8192
KEYS = [bytes([number]) * 16 for number in range(3)]


@needs_agent
class TicketTest(unittest.TestCase):
    def setUp(self):
        import kvtier

        self.kvtier = kvtier
        self.agent = Agent()
        self.addCleanup(self.agent.kill)
        self.scheduler, self.worker = self.agent.client(), self.agent.client()
        self.addCleanup(self.scheduler.close)
        self.addCleanup(self.worker.close)
        spec = kvtier.SpaceSpec(model="tickets", weights_digest="none", dtype="bytes",
                                layout="bytes", layers=1, kv_heads=1, head_dim=1,
                                tokens_per_block=16, block_bytes=BLOCK_BYTES)
        self.space = self.scheduler.register_space(spec)
        self.workers_space = self.worker.register_space(spec)
        put = self.scheduler.reserve(self.space, KEYS[:2])
        for index in range(2):
            put.copy_in(index, bytes([index + 1]) * BLOCK_BYTES)
        self.assertEqual(put.commit(), 2)

    def take(self, **options):
        return self.scheduler.take_ticket([self.kvtier.Sequence(self.space, KEYS)], **options)

    def test_each_rank_redeems_once(self):
        ticket = self.take(redemptions=2)
        self.assertEqual((len(ticket.id), ticket.held), (16, [[0, 1]]))
        for rank in range(2):
            [hit] = self.worker.redeem(ticket.id, rank, [self.workers_space])
            with hit:
                copy = bytearray(BLOCK_BYTES)
                self.assertTrue(hit.copy_out(1, copy))
                self.assertEqual((len(hit), bytes(copy)), (2, bytes([2]) * BLOCK_BYTES))
            [again] = self.worker.redeem(ticket.id, rank, [self.workers_space])
            self.assertEqual(len(again), 0)

    def test_submitted_as_well_as_waited_for(self):
        asked = [self.kvtier.Sequence(self.space, KEYS, max_tokens=31)]
        ticket = self.scheduler.submit_take_ticket(asked).result(10)
        self.assertEqual((len(ticket.id), ticket.held), (16, [[0]]))
        [hit] = self.worker.submit_redeem(ticket.id, 0, [self.workers_space]).result(10)
        self.assertEqual(len(hit), 1)
        self.assertEqual(self.scheduler.submit_delete(asked).result(10), (1, 1))
        hit.release()
        with self.assertRaisesRegex(ValueError, "redemptions is 0"):
            self.scheduler.submit_take_ticket(asked, redemptions=0)
        with self.assertRaisesRegex(ValueError, "max_tokens is -1"):
            self.scheduler.match_sequences([self.kvtier.Sequence(self.space, KEYS, max_tokens=-1)])

    def test_one_that_is_given_back_is_a_miss(self):
        ticket = self.take(redemptions=64)
        self.scheduler.release_ticket(ticket.id)
        blocks = None
        for rank in range(64):  # The ticket is given back in the background.
            [hit] = self.worker.redeem(ticket.id, rank, [self.workers_space])
            blocks = len(hit)
            hit.release()
            if blocks == 0:
                break
            time.sleep(0.05)
        self.assertEqual(blocks, 0)

    def test_without_a_block_there_is_none(self):
        ticket = self.scheduler.take_ticket([self.kvtier.Sequence(self.space, KEYS[2:])])
        self.assertEqual((ticket.id, ticket.held), (None, [[]]))

    def test_what_cannot_be_is_named(self):
        for options, what in (({"redemptions": 65}, "redemptions is 65"),
                              ({"lifetime_s": 61.0}, "lifetime is 1m1s"),
                              ({"lifetime_s": -1.0}, "lifetime_s is -1"),
                              ({"timeout_s": -1.0}, "timeout_s is -1")):
            with self.assertRaisesRegex(ValueError, what):
                self.take(**options)
        with self.assertRaisesRegex(ValueError, "ticket has 3 bytes; must be 16"):
            self.worker.redeem(b"abc", 0, [self.workers_space])


if __name__ == "__main__":
    unittest.main()
