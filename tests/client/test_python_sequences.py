"""Runs and sets in one call, and what a timeout means, against a FakeAgent as test_python_client.py."""

import math
import unittest

import kvtier
from kvtier import Sequence
from test_python_client import BLOCK_BYTES, SPEC, WithAgent, eventually, make_keys


class WithSpaces(WithAgent):
    def setUp(self):
        super().setUp()
        self.other = self.client.register_space(kvtier.SpaceSpec(**SPEC | {"lora": "other"}))

    def put_in(self, space, keys):
        with self.client.reserve(space, keys) as put:
            for i, key in enumerate(keys):
                put.copy_in(i, key[-1:] * BLOCK_BYTES)
            return put.commit()


class Sequences(WithSpaces):
    def test_a_set_says_which_key_each_block_is_of(self):
        self.put(make_keys(1, 1))
        self.put(make_keys(3, 1))
        keys = make_keys(1, 4)
        [hit] = self.client.onboard_sequences([Sequence(self.space, keys, is_set=True)])
        with hit:
            self.assertEqual([hit.index(i) for i in range(len(hit))], [0, 2])
            for i, block in enumerate(hit):
                self.assertEqual(bytes(block), keys[hit.index(i)][-1:] * BLOCK_BYTES)
            self.assertEqual(hit.missed, "absent")
            self.assertRaises(IndexError, hit.index, 2)
        [match] = self.client.match_sequences([Sequence(self.space, keys, is_set=True)])
        self.assertEqual(match, kvtier.Match(2, 2, ["host", None, "host", None]))

    def test_a_run_ends_at_its_first_hole(self):
        self.put(make_keys(1, 1))
        self.put(make_keys(3, 1))
        [hit] = self.client.onboard_sequences([Sequence(self.space, make_keys(1, 4))])
        with hit:
            self.assertEqual((len(hit), hit.index(0), hit.missed), (1, 0, "absent"))
        with self.client.onboard(self.space, make_keys(1, 1)) as hit:
            self.assertIsNone(hit.missed)

    def test_one_call_serves_several_spaces(self):
        keys = make_keys(0, 3)
        self.put(keys)
        self.put_in(self.other, keys[:2])
        both = [Sequence(self.space, keys), Sequence(self.other, keys)]
        hits = self.client.onboard_sequences(both)
        self.assertEqual([(len(hit), hit.missed) for hit in hits], [(3, None), (2, "absent")])
        self.assertEqual([match.blocks for match in self.client.match_sequences(both)], [3, 2])
        self.assertEqual(self.client.prefetch_sequences(both), 5)
        self.assertEqual(self.agent("leases"), "5")
        for hit in hits:
            hit.release()
        with self.client.reserve_sequences(both) as put:
            self.assertEqual(put.states, ["present"] * 5 + ["reserved"])
            put.copy_in(5, bytes(BLOCK_BYTES))
            self.assertEqual(put.commit(), 1)
        self.assertEqual(self.client.match(self.other, keys).blocks, 3)

    def test_a_maximum_of_tokens_and_a_group_of_ranks(self):
        keys = make_keys(0, 4)
        self.put(keys)
        self.put_in(self.other, keys[:2])
        [match] = self.client.match_sequences([Sequence(self.space, keys, max_tokens=3 * 16 + 1)])
        self.assertEqual(match.blocks, 3)
        [hit] = self.client.onboard_sequences([Sequence(self.space, keys, max_tokens=16)])
        with hit:
            self.assertEqual((len(hit), hit.missed), (1, None))
        self.assertEqual(self.client.match_group([self.space, self.other], keys),
                         kvtier.Match(2, 2, ["host", "host"]))
        self.assertEqual(self.client.match_group([self.space], keys).blocks, 4)
        with self.assertRaisesRegex(ValueError, "0 spaces in one call"):
            self.client.match_group([], keys)

    def test_a_sequence_that_is_not_to_be_kept(self):
        keys = make_keys(0, 2)
        secret = Sequence(self.space, keys, no_store=True)
        with self.client.reserve_sequences([secret, Sequence(self.other, keys)]) as put:
            self.assertEqual(put.states, ["no_store"] * 2 + ["reserved"] * 2)
            with self.assertRaisesRegex(ValueError, "block 0 is no_store; must be reserved"):
                put.copy_in(0, bytes(BLOCK_BYTES))
            put.copy_in(2, bytes(BLOCK_BYTES))
            self.assertEqual(put.commit(), 1)
        self.assertEqual(self.client.match(self.space, keys).blocks, 0)

    def test_blocks_of_any_length_are_as_long_as_their_reserve_says(self):
        space = self.client.register_space(kvtier.SpaceSpec(**SPEC | {"any_length": True}))
        keys, lengths = make_keys(0, 3), [1, 4097, BLOCK_BYTES]
        with self.client.reserve(space, keys, lengths=lengths) as put:
            self.assertEqual([len(put[i]) for i in range(3)], lengths)
            for i, key in enumerate(keys):
                put.copy_in(i, key[-1:] * lengths[i])
            with self.assertRaisesRegex(ValueError, "pieces have 2 bytes; must have the block's 1"):
                put.copy_in(0, b"ab")
            self.assertEqual(put.commit(), 3)
        with self.client.onboard(space, keys) as hit:
            self.assertEqual([bytes(block) for block in hit],
                             [key[-1:] * length for key, length in zip(keys, lengths)])
        both = [Sequence(self.space, make_keys(9, 1)),
                Sequence(space, make_keys(7, 2), lengths=(5, 6))]
        with self.client.reserve_sequences(both) as put:
            self.assertEqual([len(put[i]) for i in range(3)], [BLOCK_BYTES, 5, 6])

    def test_hints_reach_the_agent_with_each_sequence(self):
        keys = make_keys(0, 2)
        self.put(keys)
        hinted = Sequence(self.space, keys, conversation="session-1", turn=2, priority=0,
                          will_not_return=True, finish="tool_calls")
        plain = Sequence(self.other, keys)
        # SHA-256 of "kvtier.conversation.v1session-1" begins with these digits.
        sent = "41d4af322df572b6,2,0,1,2 none"
        for hit in self.client.onboard_sequences([hinted, plain]):
            hit.release()
        self.assertEqual(self.agent("hints").strip(), sent)
        self.client.onboard(self.space, keys).release()
        self.assertEqual(self.agent("hints").strip(), "none")
        self.assertEqual(self.client.prefetch_sequences([hinted, plain]), 2)
        self.assertEqual(self.agent("hints").strip(), sent)
        self.client.reserve(self.other, keys).release()
        self.assertEqual(self.agent("hints").strip(), "none")
        self.assertEqual(self.client.advise([hinted, plain]), 2)
        self.assertEqual(self.agent("hints").strip(), sent)
        for finish, number in (("stop", 1), ("length", 3), ("cancelled", 4)):
            call = self.client.submit_advise([Sequence(self.space, keys, finish=finish)])
            self.assertEqual(call.result(10), 2)
            self.assertEqual(self.agent("hints").strip(), f"0,-,50,0,{number}")

    def test_an_id_of_a_conversation_is_the_same_as_str_and_as_bytes(self):
        keys = make_keys(0, 1)
        said = []
        for conversation in ("s\u00e9ance", "s\u00e9ance".encode(), b"\0" * 256):
            self.client.advise([Sequence(self.space, keys, conversation=conversation)])
            said.append(self.agent("hints"))
        self.assertEqual(said[0], said[1])
        self.assertNotEqual(said[1], said[2])

    def test_hints_that_cannot_be_are_named(self):
        keys = make_keys(0, 1)
        for hint, said in [({"conversation": ""}, "conversation has 0 bytes; must be 1 to 256"),
                           ({"conversation": b"c" * 257}, "conversation has 257 bytes"),
                           ({"conversation": 7}, "conversation is a int; must be str or bytes"),
                           ({"turn": -1}, "turn is -1; must be an int of 0 to 4294967295"),
                           ({"turn": 2**32}, "turn is 4294967296"),
                           ({"turn": True}, "turn is True"),
                           ({"priority": 101}, "priority is 101; must be an int of 0 to 100"),
                           ({"priority": 0.5}, "priority is 0.5"),
                           ({"will_not_return": 1}, "will_not_return is 1; must be a bool"),
                           ({"finish": "error"}, 'finish is "error"; must be "stop"'),
                           ({"finish": 3}, "finish is 3; must be a str")]:
            with self.assertRaisesRegex(ValueError, said):
                self.client.advise([Sequence(self.space, keys, **hint)])
        with self.assertRaisesRegex(ValueError, r"sequences\[1\].finish is"):
            self.client.advise([Sequence(self.space, keys), Sequence(self.space, keys, finish="x")])

    def test_advice_without_an_agent_is_lost(self):
        self.agent("kill")
        self.assertEqual(self.client.advise([Sequence(self.space, make_keys(0, 1))]), 0)

    def test_lengths_that_cannot_be_are_named(self):
        space = self.client.register_space(kvtier.SpaceSpec(**SPEC | {"any_length": True}))
        keys = make_keys(0, 2)
        for lengths, said in [(None, "lengths: 0 for 2 keys; must be one for each"),
                              ([1], "lengths: 1 for 2 keys"),
                              ([1, 0], r"lengths\[1\] is 0; must be an int of 1 or more"),
                              ([1.0, 1], r"lengths\[0\] is 1.0"),
                              ([1, 5001], r"lengths\[1\] is 5001; must be 1 to 5000")]:
            with self.assertRaisesRegex(ValueError, said):
                self.client.reserve(space, keys, lengths=lengths)
        with self.assertRaisesRegex(ValueError, "must be none in a space without any_length"):
            self.client.reserve(self.space, keys, lengths=[BLOCK_BYTES] * 2)
        with self.assertRaisesRegex(ValueError, "any_length is 1; must be a bool"):
            self.client.register_space(kvtier.SpaceSpec(**SPEC | {"any_length": 1}))

    def test_mistakes_name_the_sequence(self):
        good = Sequence(self.space, make_keys(0, 1))
        with self.assertRaisesRegex(ValueError, r"sequences\[1\]\.keys\[0\]: .*5 bytes"):
            self.client.match_sequences([good, Sequence(self.space, [b"short"])])
        with self.assertRaisesRegex(ValueError, r"sequences\[1\]\.parent"):
            self.client.reserve_sequences([good, Sequence(self.space, [], parent=b"short")])
        with self.assertRaisesRegex(ValueError, "0 sequences in one call; must be 1 to 256"):
            self.client.onboard_sequences([])
        with self.assertRaisesRegex(ValueError, "257 sequences"):
            self.client.prefetch_sequences([good] * 257)
        with self.assertRaisesRegex(ValueError, "8193 keys"):
            self.client.match(self.space, make_keys(0, 8193))

    def test_without_an_agent_each_sequence_is_a_miss(self):
        self.agent("kill")
        asked = [Sequence(self.space, make_keys(0, 2))] * 3
        self.assertEqual([(len(hit), hit.missed) for hit in self.client.onboard_sequences(asked)],
                         [(0, "unreachable")] * 3)
        self.assertEqual(self.client.match_sequences(asked), [kvtier.Match()] * 3)
        with self.client.reserve_sequences(asked) as put:
            self.assertEqual((put.states, put.answered), (["no_room"] * 6, False))


class Timeouts(WithSpaces):
    def test_zero_says_what_is_here_now(self):
        keys = make_keys(0, 3)
        self.put(keys[:2])
        calls = (lambda: len(self.client.onboard(self.space, keys, timeout_s=0)) == 2,
                 lambda: self.client.match(self.space, keys, timeout_s=0).blocks == 2,
                 lambda: self.client.prefetch(self.space, keys, timeout_s=0) == 2,
                 lambda: "reserved" in self.client.reserve(self.space, keys, timeout_s=0).states)
        for call in calls:  # The machine may be too busy to answer in 20 ms.
            self.assertTrue(eventually(call))

    def test_a_commit_without_time_for_the_disk_publishes(self):
        with self.client.reserve(self.space, make_keys(0, 2)) as put:
            put.copy_in(0, bytes(BLOCK_BYTES))
            put.copy_in(1, bytes(BLOCK_BYTES))
            put.commit(durable=True, timeout_s=0)
        self.assertEqual(self.client.match(self.space, make_keys(0, 2)).blocks, 2)

    def test_what_is_no_time_is_refused_by_name(self):
        keys = make_keys(0, 1)
        one = [Sequence(self.space, keys)]
        put = self.client.reserve(self.space, make_keys(5, 1))
        put.copy_in(0, bytes(BLOCK_BYTES))
        calls = (lambda time: self.client.onboard(self.space, keys, time),
                 lambda time: self.client.match(self.space, keys, time),
                 lambda time: self.client.prefetch(self.space, keys, time),
                 lambda time: self.client.reserve(self.space, keys, timeout_s=time),
                 lambda time: self.client.submit_onboard(one, time),
                 lambda time: self.client.submit_match(one, time),
                 lambda time: self.client.submit_prefetch(one, time),
                 lambda time: self.client.submit_reserve(one, timeout_s=time),
                 lambda time: self.client.submit_commit(put, durable=True, timeout_s=time),
                 lambda time: put.commit(durable=True, timeout_s=time),
                 lambda time: self.client.ping(time),
                 lambda time: kvtier.Client(self.directory, timeout_s=time),
                 lambda time: kvtier.Client(self.directory, connect_timeout_s=time))
        for time in (-0.001, math.nan, math.inf, -math.inf):
            for i, call in enumerate(calls):
                with self.subTest(i, time=time), \
                        self.assertRaisesRegex(ValueError, f"timeout_s is {time};"):
                    call(time)
        self.assertEqual(put.commit(), 1)


if __name__ == "__main__":
    unittest.main()
