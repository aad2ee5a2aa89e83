"""Keys from tokens against hashlib and an encoder of CBOR that is not ours (or of a few lines).

Run by CTest with PYTHONPATH=<build>/python; needs no agent.
"""

import array
import hashlib
import random
import struct
import unittest

import kvtier

try:
    import cbor2
except ImportError:
    cbor2 = None

COUNTING = list(range(32))
# Keys of COUNTING in blocks of 16.
PLAIN = ["51cb25a7b0db608c5e10ed9296f867d7c3fef15434d7db63e3f0bf3146cfafe1",
         "f892b67b8173b70780003b164bb183329fc53da81fae1ef479a1504bdaeee976"]
VLLM = ["dc918a88b139e5afe60b88eda27508d4aee16c10fdc354791efea06206ac0749",
        "c300ec275d7bf08af8fc63e76cdc0086911bbc7091e03c5cf892553bef84ef0c"]


def head(major, value):
    if value < 24:
        return bytes([major << 5 | value])
    form, code = next((f, c) for f, c, end in ((">B", 24, 2**8), (">H", 25, 2**16),
                                               (">I", 26, 2**32), (">Q", 27, 2**64)) if value < end)
    return bytes([major << 5 | code]) + struct.pack(form, value)


def canonical(value):
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    return head(4, len(value)) + b"".join(map(canonical, value))


def blocks_of(tokens, size):
    return [tuple(tokens[i:i + size]) for i in range(0, len(tokens) - size + 1, size)]


def plain_reference(tokens, size, extra=b""):
    keys, parent = [], bytes(32)
    for block in blocks_of(tokens, size):
        packed = struct.pack(f"<{size + 1}I", size, *block)
        parent = hashlib.sha256(b"kvtier.tokens.v1" + parent + packed + extra).digest()
        keys.append(parent)
    return keys


def vllm_reference(tokens, size, extra_keys=None, seed="vllm-none-hash", encode=canonical):
    keys, parent = [], hashlib.sha256(encode(seed)).digest()
    for block in blocks_of(tokens, size):
        parent = hashlib.sha256(encode((parent, block, extra_keys))).digest()
        keys.append(parent)
    return keys


class Keys(unittest.TestCase):
    def test_keys_are_the_known_answers(self):
        self.assertEqual([k.hex() for k in kvtier.token_keys(COUNTING, 16)], PLAIN)
        self.assertEqual([k.hex() for k in kvtier.vllm_token_keys(COUNTING, 16)], VLLM)

    def test_random_sequences_have_the_references_keys(self):
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        for _ in range(100):
            size = chance.choice((1, 2, 16, 23, 24, 255, 256))
            bits = chance.choice((5, 8, 16, 32))
            tokens = [chance.randrange(2**bits) for _ in range(chance.randrange(600))]
            extra = chance.randbytes(chance.randrange(100))
            extra_keys = chance.choice((
                None, ("salt",), ("s" * 300, extra, -1, 2**63 - 1, -2**63),
                (("lora", "näme", None), ("mm", extra.hex(), -chance.randrange(70000)), ())))
            with self.subTest(seed=seed, size=size, tokens=len(tokens), extra_keys=extra_keys):
                self.assertEqual(kvtier.token_keys(tokens, size, extra=extra),
                                 plain_reference(tokens, size, extra))
                self.assertEqual(
                    kvtier.vllm_token_keys(tokens, size, extra_keys=extra_keys, seed=extra.hex()),
                    vllm_reference(tokens, size, extra_keys, extra.hex()))

    @unittest.skipUnless(cbor2, "needs cbor2")
    def test_the_canonical_form_is_cbor2s(self):
        def dumps(value):
            return cbor2.dumps(value, canonical=True)

        extra_keys = (("mm", "hash", -5), "salt", b"\x00", 2**40, None)
        tokens = [0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1] * 30
        for size in (1, 10, 24, 300):
            self.assertEqual(kvtier.vllm_token_keys(tokens, size, extra_keys=extra_keys, seed="0"),
                             vllm_reference(tokens, size, extra_keys, "0", dumps))

    def test_a_grown_sequence_goes_on_from_its_last_key(self):
        for keys_of in (kvtier.token_keys, kvtier.vllm_token_keys):
            keys = keys_of(COUNTING[:20], 8)
            keys += keys_of(COUNTING[len(keys) * 8:], 8, parent=keys[-1])
            self.assertEqual(keys, keys_of(COUNTING, 8))

    def test_a_list_of_extras_has_one_for_each_block(self):
        salted = kvtier.vllm_token_keys(COUNTING, 16, extra_keys=[("salt",), None])
        first = kvtier.vllm_token_keys(COUNTING[:16], 16, extra_keys=("salt",))
        self.assertEqual(salted, first + kvtier.vllm_token_keys(COUNTING[16:], 16, parent=first[0]))
        self.assertEqual(kvtier.token_keys(COUNTING, 16, extra=[None, b"image"])[0].hex(), PLAIN[0])
        self.assertEqual(kvtier.token_keys([], 16, extra=[]), [])
        with self.assertRaisesRegex(ValueError, "3 hashes for 2 full blocks"):
            kvtier.token_keys(COUNTING, 16, extra=[b"", b"", b""])

    def test_no_extra_keys_are_none_as_vllm_has_it(self):
        self.assertEqual([k.hex() for k in kvtier.vllm_token_keys(COUNTING, 16, extra_keys=())],
                         VLLM)


class Tokens(unittest.TestCase):
    def test_buffers_of_every_type_are_read(self):
        for code in "iIlLqQ":
            tokens = array.array(code, COUNTING)
            self.assertEqual([k.hex() for k in kvtier.token_keys(tokens, 16)], PLAIN, code)
            self.assertEqual([k.hex() for k in kvtier.token_keys(memoryview(tokens), 16)], PLAIN)
        self.assertEqual([k.hex() for k in kvtier.token_keys(tuple(COUNTING), 16)], PLAIN)

    def test_numpy_arrays_are_read(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("needs numpy")
        for dtype in (numpy.int32, numpy.uint32, numpy.int64, numpy.uint64):
            tokens = numpy.arange(32, dtype=dtype)
            self.assertEqual([k.hex() for k in kvtier.token_keys(tokens, 16)], PLAIN)
        self.assertEqual([k.hex() for k in kvtier.token_keys(list(tokens), 16)], PLAIN)
        with self.assertRaisesRegex(ValueError, "contiguous"):
            kvtier.token_keys(tokens[::2], 4)

    def test_other_buffers_are_refused_by_name(self):
        for tokens in (b"12345678", array.array("h", [1]), array.array("d", [1.0]),
                       memoryview(array.array("i", [1, 2])).cast("B").cast("i", (1, 2))):
            with self.assertRaisesRegex(ValueError, "32 or 64 bits"):
                kvtier.token_keys(tokens, 1)
        for tokens in (7, [1.5], ["1"], None):
            with self.assertRaises(TypeError):
                kvtier.token_keys(tokens, 1)


class Errors(unittest.TestCase):
    def test_errors_name_the_field_and_the_value(self):
        for keys_of in (kvtier.token_keys, kvtier.vllm_token_keys):
            for tokens, said in (([1, -7], r"tokens\[1\] is -7"),
                                 ([2**63], r"tokens\[0\] is 9223372036854775808"),
                                 (array.array("Q", [2**63]), r"tokens\[0\] is 9223372036854775808"),
                                 (array.array("i", [3, -1]), r"tokens\[1\] is -1")):
                with self.assertRaisesRegex(ValueError, said):
                    keys_of(tokens, 1)
            for size in (0, -1, 2**32):
                with self.assertRaisesRegex(ValueError, f"tokens_per_block is {size}"):
                    keys_of([1], size)
            for parent in (b"", b"12345678", bytes(33), bytes(65)):
                with self.assertRaisesRegex(ValueError, f"{len(parent)} bytes"):
                    keys_of([1], 1, parent=parent)
        with self.assertRaisesRegex(ValueError, r"tokens\[0\] is 4294967296"):
            kvtier.token_keys([2**32], 1)

    def test_extras_of_other_types_are_refused_by_name(self):
        for extra_keys in ([1], "salt", (1.5,), (True,), ((("deep",),),)):
            with self.assertRaisesRegex(TypeError, "extra_keys"):
                kvtier.vllm_token_keys([1], 1, extra_keys=extra_keys)
        for extra in ("salt", ["salt"], 1):
            with self.assertRaisesRegex(TypeError, "extra"):
                kvtier.token_keys([1], 1, extra=extra)


if __name__ == "__main__":
    unittest.main()
