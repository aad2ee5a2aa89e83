"""Arguments of other types: the error names the argument and what it must be, and is short.

Run by CTest as test_python_client.py is.
"""

import unittest

import kvtier
from test_python_client import BLOCK_BYTES, WithAgent, make_keys
from test_python_lanes import Tensors

_LONGEST = 200  # Most characters of an error.


class Arguments(WithAgent):
    def check(self, said, call, error=TypeError):
        with self.subTest(said), self.assertRaises(error) as raised:
            call()
        text = str(raised.exception)
        self.assertTrue(text.startswith(said), text)
        self.assertLessEqual(len(text), _LONGEST)

    # 8,192 keys given as str were once answered with all of them, in 557,825 characters, and without a name.
    def test_keys_of_another_type_are_named_by_place(self):
        keys = [key.decode() for key in make_keys(0, 8192)]
        run = kvtier.Sequence(self.space, keys)
        for call in (lambda: self.client.match(self.space, keys), lambda: self.client.onboard(self.space, keys),
                     lambda: self.client.reserve(self.space, keys), lambda: self.client.prefetch(self.space, keys),
                     lambda: self.client.residences(self.space, keys), lambda: self.client.resident_run(self.space, keys),
                     lambda: self.client.match_group([self.space], keys),
                     lambda: self.client.put_all(self.space, keys, [bytes(BLOCK_BYTES)] * len(keys)),
                     lambda: self.client.delete([run]), lambda: self.client.advise([run]),
                     lambda: self.client.keep([run]), lambda: self.client.drop_prefix([run]),
                     lambda: self.client.take_ticket([run]), lambda: self.client.submit_match([run]),
                     lambda: self.client.submit_onboard([run]), lambda: self.client.submit_reserve([run]),
                     lambda: self.client.submit_onboard_parts([run]), lambda: self.client.submit_prefetch([run]),
                     lambda: self.client.submit_advise([run]), lambda: self.client.submit_delete([run]),
                     lambda: self.client.submit_take_ticket([run])):
            self.check("keys[0] is of type str; must be bytes", call)
        good = make_keys(0, 3)
        self.check("keys[2] is of type str; must be bytes", lambda: self.client.match(self.space, good[:2] + ["k"]))
        self.check("keys[0] is 107; must be bytes", lambda: self.client.match(self.space, good[0]))
        self.check("keys is 7; must be a sequence", lambda: self.client.match(self.space, 7))
        self.check("keys is None; must be a sequence", lambda: self.client.match(self.space, None))

    def test_of_several_sequences_the_wrong_one_is_named(self):
        good = kvtier.Sequence(self.space, make_keys(0, 2))
        for field, said in ({"keys": [b"12345678", 1]}, "keys[1] is 1; must be bytes"), ({"parent": "p"}, "parent is of "), \
                ({"is_set": "yes"}, "is_set is of type str; must be a bool"), ({"max_tokens": "9"}, "max_tokens is of "), \
                ({"no_store": []}, "no_store is of type list; must be a bool"):
            wrong = kvtier.Sequence(**{"space": self.space, "keys": make_keys(0, 2), **field})
            self.check(said, lambda: self.client.match_sequences([wrong]))
            self.check(f"sequences[1].{said}", lambda: self.client.match_sequences([good, wrong]))
        wrong = kvtier.Sequence(self.space, make_keys(0, 1), max_tokens=-1)
        self.check("max_tokens is -1; must be an int of 0 to 18446744073709551615 or None",
                   lambda: self.client.match_sequences([wrong]), ValueError)
        self.check("sequences[1] is of type list; must be a kvtier.Sequence",
                   lambda: self.client.match_sequences([good, make_keys(0, 9)]))
        self.check("sequences is 3; must be a sequence", lambda: self.client.match_sequences(3))

    def test_every_other_argument_is_named(self):
        client, space, keys = self.client, self.space, make_keys(0, 1)
        run = [kvtier.Sequence(space, keys)]
        for said, call in (
                ("timeout_s is of type str; must be a number or None", lambda: client.match(space, keys, "2")),
                ("local_only is of type str; must be a bool", lambda: client.match(space, keys, 1.0, "no")),
                ("target is 1; must be a str in UTF-8", lambda: client.onboard(space, keys, target=1)),
                ("target is None; must be a str in UTF-8", lambda: client.reserve(space, keys, target=None)),
                ("parent is of type str; must be bytes or None", lambda: client.reserve(space, keys, "p")),
                ("parent is 3; must be bytes or None", lambda: client.put_all(space, keys, [b""], 3)),
                ("timeout_s is None; must be a number", lambda: client.put_all(space, keys, [b""], timeout_s=None)),
                ("timeout_s is of type list; must be a number", lambda: client.ping([])),
                ("blocks is 3; must be a sequence", lambda: client.put_all(space, keys, 3)),
                ("ttl_s is of type str; must be a number", lambda: client.keep(run, "9")),
                ("kept_id is of type str; must be an int of 0 to", lambda: client.end_kept("9")),
                ("timeout_s is of type str; must be", lambda: client.list_kept("9")),
                ("redemptions is 1.5; must be an int of 0 to", lambda: client.take_ticket(run, redemptions=1.5)),
                ("lifetime_s is None; must be a number", lambda: client.take_ticket(run, lifetime_s=None)),
                ("ticket is of type str; must be bytes", lambda: client.redeem("t" * 16, 0, [space])),
                ("rank is None; must be an int of 0 to", lambda: client.redeem(b"t" * 16, None, [space])),
                ("spaces[0] is 0; must be a kvtier.Space", lambda: client.redeem(b"t" * 16, 0, [0])),
                ("spaces is of type Space; must be a sequence", lambda: client.match_group(space, keys)),
                ("ticket is 4; must be bytes", lambda: client.release_ticket(4)),
                ("step is of type str; must be an int of 0 to", lambda: client.end_step("1")),
                ("slots is of type str; must be an int of 0 to", lambda: client.paged_kv(space, "1")),
                ("space is 0; must be a kvtier.Space", lambda: client.match(0, keys)),
                ("space is None; must be a kvtier.Space", lambda: client.resident_run(None, keys)),
                ("spec is of type dict; must be a kvtier.SpaceSpec", lambda: client.register_space({})),
                ("put is None; must be a kvtier.Put", lambda: client.submit_commit(None)),
                ("timeout_s is of type str; must be a number", lambda: client.register_space(space.spec, "1")),
                ("socket_dir is None; must be a str in UTF-8", lambda: kvtier.Client(None)),
                ("tenant is 7; must be a str in UTF-8", lambda: kvtier.Client(self.directory, 7)),
                ("tenant_secret is of type str; must be bytes", lambda: kvtier.Client(self.directory, "t", "secret")),
                ("connect_timeout_s is None; must be", lambda: kvtier.Client(self.directory, connect_timeout_s=None)),
                ("group is None; must be a str in UTF-8", lambda: kvtier.Client(self.directory, group=None)),
                ("tokens[1] is of type str; must be an int", lambda: kvtier.token_keys([1, "2"], 1)),
                ("tokens_per_block is of type str; must be an int", lambda: kvtier.token_keys([1], "1")),
                ("parent is 1; must be bytes or None", lambda: kvtier.token_keys([1], 1, parent=1)),
                ("extra is of type str; must be bytes", lambda: kvtier.token_keys([1], 1, extra="x" * 9999)),
                ("extra_keys has an item that is of type list; must be str, bytes, int",
                 lambda: kvtier.vllm_token_keys([1], 1, extra_keys=(keys * 9999,))),
                ("seed is None; must be a str in UTF-8", lambda: kvtier.vllm_token_keys([1], 1, seed=None)),
                ("spec is None; must be a kvtier.SpaceSpec", lambda: kvtier.BlockCodec(None))):
            self.check(said, call)
        self.check("rank is -1; must be an int of 0 to 4294967295", lambda: client.redeem(b"t" * 16, -1, [space]), ValueError)
        self.check("rank is an int of more than 64 bits; must be", lambda: client.redeem(b"t" * 16, 10**5000, [space]),
                   ValueError)
        self.check("an int in extra_keys is an int of more than 64 bits", lambda: kvtier.vllm_token_keys(
            [1], 1, extra_keys=(2**64,)), ValueError)
        self.check("model is of type list; must be a str", lambda: client.register_space(
            kvtier.SpaceSpec(**{**vars(space.spec), "model": keys * 9999})), ValueError)

    def test_of_hits_and_puts_too(self):
        self.put(make_keys(0, 1))
        with self.client.onboard(self.space, make_keys(0, 1)) as hit, \
                self.client.reserve(self.space, make_keys(1, 1)) as put:
            for call in (lambda: hit["0"], lambda: hit.index("0"), lambda: hit.copy_out("0", b""), lambda: hit.prove("0"),
                         lambda: put["0"], lambda: put.copy_in("0", b""), lambda: put.give_back("0")):
                self.check("index is '0'; must be an int", call)
            self.check("step is of type str; must be an int of 0 to", lambda: put.commit("1"))
            self.check("durable is of type str; must be a bool", lambda: put.commit(durable="yes"))

    def test_of_lanes_too(self):
        tensors = Tensors()
        space = self.client.register_space(tensors.spec())
        keys, many = make_keys(0, 1), ["k" * 16] * 8192
        self.check("memory is of type dict; must be a kvtier.KvMemory",
                   lambda: kvtier.Lanes(self.client, space, tensors.fields))
        self.check("client is None; must be a kvtier.Client", lambda: kvtier.Lanes(None, space, tensors.memory()))
        self.check("tensors[0] is 5; must be a pair", lambda: kvtier.Lanes(
            self.client, space, tensors.memory(tensors=[5])), ValueError)
        with kvtier.Lanes(self.client, space, tensors.memory()) as lanes:
            for said, call in (
                    ("keys[0] is of type str; must be bytes", lambda: lanes.offload(many, list(range(8192)))),
                    ("keys[0] is of type str; must be bytes", lambda: lanes.onboard(many, list(range(8192)))),
                    ("blocks[0] is of type str; must be an int", lambda: lanes.offload(keys, ["1"])),
                    ("blocks is 1; must be a sequence", lambda: lanes.onboard(keys, 1)),
                    ("parent is of type str; must be bytes", lambda: lanes.offload(keys, [1], "p")),
                    ("timeout_s is of type str; must be a number", lambda: lanes.onboard(keys, [1], "1")),
                    ("timeout_s is None; must be a number", lambda: lanes.await_copied([1], None)),
                    ("hint is of type dict; must be a kvtier.ReuseHint", lambda: lanes.offload(keys, [1], hint={}))):
                self.check(said, call)


if __name__ == "__main__":
    unittest.main()
