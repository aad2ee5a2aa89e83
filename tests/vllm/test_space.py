"""Conditions under which blocks of vLLM are alike: the space's fields, keys, tensors' layout."""

import unittest
from types import SimpleNamespace

import kvtier
import stand_ins
from kvtier.vllm import block_keys
from kvtier.vllm.kv_layout import lay_out, refuse_aliases
from kvtier.vllm.options import parse_options
from kvtier.vllm.space import EngineFacts, digest_of_epoch, space_of_group, space_of_weights, tensor_copies
from tensor import Storage, Tensor

BLOCKS, HEADS, TOKENS = 10, 3, 32
FACTS = EngineFacts("0.32.0", "CPU_ATTN", "AVX2")


class Keys(unittest.TestCase):
    """The engine's hash covers adapter and salt, as it is computed with --prefix-caching-hash-algo sha256_cbor."""

    def hashes(self, extra):
        return kvtier.vllm_token_keys(list(range(64)), TOKENS, extra_keys=extra)

    def keys(self, hashes, adapter=None):
        request = stand_ins.Request("a", 64, hashes)
        if adapter is not None:
            request.lora_request = SimpleNamespace(lora_name=adapter[0], lora_path=adapter[1])
        return block_keys.block_keys(request, 0, 2)

    def test_are_the_engines_own(self):
        hashes = self.hashes(None)
        self.assertEqual(self.keys(hashes), hashes)

    def test_differ_with_the_salt_and_with_the_adapter(self):
        none, salt, other_salt = self.hashes(None), self.hashes([("s",), None]), self.hashes([("t",), None])
        adapter = self.hashes(("x",))
        for block in range(2):
            self.assertEqual(len({hashes[block] for hashes in (none, salt, other_salt, adapter)}), 4)

    def test_an_adapter_named_as_a_salt_has_keys_of_its_own(self):
        salted, adapted = self.hashes([("x",), None]), self.hashes(("x",))
        self.assertEqual(salted[0], adapted[0])  # The engine's hash alone does not tell the salt from the adapter.
        self.assertNotEqual(self.keys(salted)[0], self.keys(adapted, ("x", "/a"))[0])
        self.assertNotEqual(self.keys(adapted, ("x", "/a")), self.keys(adapted, ("x", "/b")))
        self.assertEqual({len(key) for key in self.keys(adapted, ("x", "/a"))}, {48})


class Layouts(unittest.TestCase):
    def lay_out(self, *tensors, blocks=BLOCKS):
        return lay_out([(f"layer{i}", tensor) for i, tensor in enumerate(tensors)], blocks, HEADS, TOKENS)

    def test_layers_that_are_views_of_one_storage(self):
        """vLLM 0.32 lays them out so on the CPU: (blocks, heads, tokens, 2 * dim), layer after layer."""
        storage = Storage(2 * BLOCKS * HEADS * TOKENS * 128 * 4)
        layers = [Tensor((BLOCKS, HEADS, TOKENS, 128), storage, offset=i * BLOCKS * HEADS * TOKENS * 128) for i in range(2)]
        layout = self.lay_out(*layers)
        memory = layout.memory
        self.assertEqual((memory.axes, memory.order, memory.layers, memory.blocks), ("fused", "head_token", 2, BLOCKS))
        self.assertEqual(memory.run_bytes, 49_152)
        self.assertEqual(memory.block_stride, 49_152)
        self.assertEqual(list(memory.tensors), [(storage.data_ptr(), storage.nbytes())])
        self.assertEqual(list(memory.bases), [(0, 0), (0, BLOCKS * 49_152)])
        self.assertEqual((layout.block_bytes, layout.dtype, layout.stored),
                         (98_304, "float32", "layer,head,token,kv,dim"))

    def test_k_and_v_apart_have_two_bases_a_layer(self):
        tensor = Tensor((2, BLOCKS, TOKENS, HEADS, 64))
        memory = self.lay_out(tensor).memory
        run = TOKENS * HEADS * 64 * 4
        self.assertEqual((memory.axes, memory.order, memory.run_bytes), ("apart", "token_head", run))
        self.assertEqual(list(memory.bases), [(0, 0), (0, BLOCKS * run)])

    def test_k_and_v_beside_each_other_in_a_block_are_apart_too(self):
        layout = self.lay_out(Tensor((BLOCKS, 2, TOKENS, HEADS, 64)))
        run = TOKENS * HEADS * 64 * 4
        self.assertEqual((layout.memory.axes, layout.memory.order, layout.stored), ("apart", "token_head", "layer,kv,token,head,dim"))
        self.assertEqual((layout.memory.block_stride, list(layout.memory.bases)), (2 * run, [(0, 0), (0, run)]))

    def test_the_order_is_that_of_memory_and_not_of_the_view(self):
        heads_outside = Tensor((BLOCKS, HEADS, TOKENS, 64)).permuted(0, 2, 1, 3)
        layout = self.lay_out(heads_outside)
        self.assertEqual((layout.memory.order, layout.stored), ("head_token", "layer,head,token,kv,dim"))

    def test_tensors_of_a_gpu_name_it(self):
        layout = self.lay_out(Tensor((2, BLOCKS, TOKENS, HEADS, 64), device="cuda:1"))
        self.assertEqual((layout.device, layout.memory.axes), ("cuda:1", "apart"))
        self.assertEqual(self.lay_out(Tensor((BLOCKS, TOKENS, 576))).device, "host")

    def test_latent(self):
        memory = self.lay_out(Tensor((BLOCKS, TOKENS, 576))).memory
        self.assertEqual((memory.axes, len(memory.bases)), ("latent", 1))

    def test_layers_of_one_block_beside_each_other(self):
        storage = Storage(BLOCKS * 2 * HEADS * TOKENS * 128 * 4)
        run = HEADS * TOKENS * 128
        layers = [Tensor((BLOCKS, HEADS, TOKENS, 128), storage, offset=i * run, block_stride=2 * run) for i in range(2)]
        memory = self.lay_out(*layers).memory
        self.assertEqual((memory.block_stride, list(memory.bases)), (2 * run * 4, [(0, 0), (0, run * 4)]))

    def test_layers_that_share_a_tensor_count_once(self):
        tensor = Tensor((BLOCKS, HEADS, TOKENS, 128))
        self.assertEqual(self.lay_out(tensor, tensor).memory.layers, 1)

    def test_groups_that_the_engine_lays_over_each_other_are_taken(self):
        """The engine has layer 0 of each group in one tensor: a block is one group's at a time."""
        storage = Storage(BLOCKS * HEADS * TOKENS * 128 * 4)
        groups = [self.lay_out(Tensor((BLOCKS, HEADS, TOKENS, 128), storage)) for _ in range(2)]
        apart = self.lay_out(Tensor((BLOCKS, HEADS, TOKENS, 128)))
        halves = self.lay_out(Tensor((BLOCKS, 2, TOKENS, HEADS, 64), storage))
        refuse_aliases([*groups, apart, halves])

    def test_groups_that_share_memory_under_other_numbers_are_refused_naming_them(self):
        run = HEADS * TOKENS * 128
        storage = Storage((BLOCKS + 1) * run * 4)
        whole = self.lay_out(Tensor((BLOCKS, HEADS, TOKENS, 128), storage))
        shifted = self.lay_out(Tensor((BLOCKS, HEADS, TOKENS, 128), storage, offset=run))
        odd = self.lay_out(Tensor((BLOCKS, HEADS, TOKENS, 128), storage, offset=64))
        half = lay_out([("l", Tensor((BLOCKS, HEADS, TOKENS, 64), storage))], BLOCKS, HEADS, TOKENS)
        far = self.lay_out(Tensor((BLOCKS, HEADS, TOKENS, 128)))
        for other in (shifted, odd, half):
            with self.assertRaisesRegex(ValueError, "KV groups 0 and 2 share memory; .* at byte .*block_stride 49152 and"):
                refuse_aliases([whole, far, other])

    def test_what_is_not_known_is_refused_by_name(self):
        known = Tensor((BLOCKS, HEADS, TOKENS, 128))
        for tensors, said in (([Tensor((7, HEADS, TOKENS, 128))], "layer0 has the shape"),
                              ([Tensor((BLOCKS, 5, TOKENS, 128))], "must be 3 heads and 32 tokens"),
                              ([Tensor((BLOCKS, 16, 576))], "has 16 tokens a block"),
                              ([known, Tensor((BLOCKS, HEADS, TOKENS, 64))], "layer1 has the layout"),
                              ([Tensor((BLOCKS, HEADS, TOKENS, 128), device="xpu:0")], "layer0 is on 'xpu'"),
                              ([known, Tensor((BLOCKS, HEADS, TOKENS, 128), device="cuda:1")], "layer1 has the layout"),
                              ([Tensor((BLOCKS, HEADS, TOKENS, 128)).gapped()], "must have no gaps"),
                              ([[known, known]], "layer0 is a list"), ([], "has 0 layers")):
            with self.subTest(said), self.assertRaisesRegex(ValueError, said):
                self.lay_out(*tensors)


class Spaces(unittest.TestCase):
    def spec(self, options=None, facts=FACTS, rank=(0, 0), group=0, tensor=None, way=None, **changes):
        way = {"dtype": None, "load_format": "auto", "loader": {}, **(way or {})}
        options = parse_options({"weights_digest": "w", **(options or {})})
        parts = {"hash": "sha256_cbor", "cache_dtype": "auto", "sliding_window": None, "hf_overrides": {}, "tensor_parallel_size": 2}
        parts.update(changes)
        config = SimpleNamespace(
            model_config=SimpleNamespace(model="/models/smol", revision=None, hf_overrides=parts["hf_overrides"], dtype=way["dtype"],
                                         quantization=way.get("quantization"), quantization_config=way.get("quantization_config")),
            load_config=SimpleNamespace(load_format=way["load_format"], model_loader_extra_config=way["loader"]),
            cache_config=SimpleNamespace(cache_dtype=parts["cache_dtype"], prefix_caching_hash_algo=parts["hash"]),
            parallel_config=SimpleNamespace(tensor_parallel_size=parts["tensor_parallel_size"], pipeline_parallel_size=1))
        spec = SimpleNamespace(block_size=TOKENS, num_kv_heads=HEADS, head_size=64, sliding_window=parts["sliding_window"])
        layout = lay_out([("l", tensor or Tensor((BLOCKS, HEADS, TOKENS, 128)))], BLOCKS, HEADS, TOKENS)
        return space_of_group(options, config, spec, layout, facts, group, *rank)

    # A model_name of 200 characters once ended the start: a space's model has 256 bytes, and more than the name is in it.
    def test_shorten_a_long_name_and_tell_such_names_apart(self):
        models = [self.spec({"model_name": name}).model for name in ("n" * 200, "n" * 199 + "m", "\u00e9" * 3000)]
        self.assertEqual(len(set(models)), 3)
        for model in models:
            self.assertLessEqual(len(model.encode()), 256)
            self.assertIn("; vllm 0.32.0; CPU_ATTN; AVX2; ", model)
        self.assertTrue(models[0].startswith("n" * 64), models[0])
        self.assertTrue(self.spec({"model_name": "n" * 100}).model.startswith("n" * 100 + "; vllm"))

    def test_name_the_model_by_its_last_part_so_that_nodes_may_keep_it_elsewhere(self):
        self.assertTrue(self.spec().model.startswith("smol; vllm 0.32.0; CPU_ATTN; AVX2; "), self.spec().model)
        self.assertTrue(self.spec({"model_name": "m"}).model.startswith("m; "))

    def test_are_alike_for_the_same_engine_and_differ_with_all_that_shapes_bytes(self):
        self.assertEqual(self.spec(), self.spec())
        others = [self.spec({"weights_digest": "v"}), self.spec(facts=EngineFacts("0.33.0", "CPU_ATTN", "AVX2")),
                  self.spec(facts=EngineFacts("0.32.0", "FLASH", "AVX2")),
                  self.spec(facts=EngineFacts("0.32.0", "CPU_ATTN", "AVX512")), self.spec(rank=(1, 0)),
                  self.spec(group=1), self.spec(cache_dtype="fp8"), self.spec(sliding_window=128),
                  self.spec(hf_overrides={"rope_theta": 2}), self.spec(tensor_parallel_size=4), self.spec(hash="sha256"),
                  self.spec(tensor=Tensor((BLOCKS, TOKENS, HEADS, 128))),
                  self.spec(tensor=Tensor((BLOCKS, HEADS, TOKENS, 128), dtype="float16"))]
        self.assertEqual(len({repr(spec) for spec in [self.spec(), *others]}), len(others) + 1)

    def test_with_a_codec_are_smaller_and_of_no_engines_layout(self):
        by_head = Tensor((BLOCKS, HEADS, TOKENS, 128), dtype="bfloat16")
        by_token = Tensor((2, BLOCKS, TOKENS, HEADS, 64), dtype="bfloat16")
        raw = self.spec(tensor=by_head)
        sizes = []
        for codec, name in (("fp8", "fp8_e4m3"), ("int8", "int8"), ("lossless", "packed_exponents")):
            spec = self.spec({"codec": codec}, tensor=by_head)
            self.assertEqual((spec.codec, spec.layout), (name, "layer,kv,token,head,dim"))
            self.assertEqual(spec, self.spec({"codec": codec}, tensor=by_token))
            sizes.append(spec.block_bytes / raw.block_bytes)
        self.assertTrue(0.5 < sizes[0] < 0.54 and 0.5 < sizes[1] < 0.54 and 0.75 < sizes[2] < 0.79, sizes)
        latent = self.spec({"codec": "fp8"}, tensor=Tensor((BLOCKS, TOKENS, 576), dtype="bfloat16"))
        self.assertEqual((latent.layout, latent.kv_heads, latent.head_dim), ("layer,token,head,dim", 1, 576))

    def test_with_a_codec_that_cannot_be_are_refused_naming_it_and_the_value(self):
        for dtype in ("float32", "float16", "uint8"):
            with self.assertRaisesRegex(ValueError, f"codec is 'fp8', which is for KV in bfloat16; must be .* for KV in '{dtype}'"):
                self.spec({"codec": "fp8"}, tensor=Tensor((BLOCKS, HEADS, TOKENS, 128), dtype=dtype))
        with self.assertRaisesRegex(ValueError, "codec is 'int8': space head_dim is 36; codec int8 needs a multiple of 16"):
            self.spec({"codec": "int8"}, tensor=Tensor((BLOCKS, TOKENS, 36), dtype="bfloat16"))
        for given, said in (("gzip", "codec is 'gzip'; must be one of '', 'fp8', 'int8', 'lossless'"),
                            (8, "codec is 8; must be a str")):
            with self.assertRaisesRegex(ValueError, said):
                self.spec({"codec": given})

    def test_can_be_registered(self):
        with kvtier.Client("/nonexistent", connect_timeout_s=0.01) as client:
            client.register_space(self.spec())

    def test_an_epoch_is_a_space_of_its_own(self):
        spec = self.spec()
        self.assertEqual(space_of_weights(spec, ""), spec)
        self.assertEqual(digest_of_epoch("w", ""), "w")
        self.assertEqual(digest_of_epoch("w", "e"), digest_of_epoch("w", "e"))
        digests = [digest_of_epoch(weights, epoch) for weights in ("w", "v") for epoch in ("", "e", "f")]
        self.assertEqual(len({space_of_weights(spec, digest).weights_digest for digest in digests}), 6)

    def test_weights_that_are_loaded_in_another_way_make_another_space(self):
        ways = [{}, {"dtype": "float16"}, {"dtype": "bfloat16"}, {"quantization": "fp8"},
                {"quantization": "fp8", "quantization_config": {"linear": "fp8"}}, {"load_format": "dummy"},
                {"load_format": "bitsandbytes"}, {"load_format": "bitsandbytes", "loader": {"qlora_adapter_name_or_path": "a"}}]
        models = [self.spec(way=way).model for way in ways]
        self.assertEqual(len(set(models)), len(ways) - 1)  # "bitsandbytes" is how the engine reads, and the same weights.
        self.assertEqual(self.spec(way={"load_format": "safetensors"}), self.spec())
        with self.assertRaisesRegex(ValueError, "load_config.load_format is 'tensorizer', .* set weights_digest"):
            self.spec({"weights_digest": ""}, way={"load_format": "tensorizer"})
        self.spec(way={"load_format": "tensorizer"})  # The option says which weights they are.


class LatentAttentionIsStoredOnce(unittest.TestCase):
    """A latent vector is for all heads, so each tensor rank computes it whole; eight ranks stored it eight times."""

    def group(self, kind, **more):
        return type(kind, (SimpleNamespace,), {})(block_size=TOKENS, num_kv_heads=1, head_size=576, **more)

    def specs(self, group, size):
        config = SimpleNamespace(
            model_config=SimpleNamespace(model="/models/deep"), cache_config=SimpleNamespace(),
            parallel_config=SimpleNamespace(tensor_parallel_size=size, pipeline_parallel_size=2))
        layout = lay_out([("l", Tensor((BLOCKS, TOKENS, 576)))], BLOCKS, 1, TOKENS)
        return [space_of_group(parse_options({"weights_digest": "w"}), config, group, layout, FACTS, 0, rank, stage)
                for stage in range(2) for rank in range(size)]

    def test_all_tensor_ranks_of_a_stage_share_a_space(self):
        for kind in ("MLAAttentionSpec", "SlidingWindowMLASpec"):
            specs = self.specs(self.group(kind), 8)
            self.assertEqual(len(set(specs[:8])), 1)
            self.assertEqual(len(set(specs)), 2)

    def test_ranks_whose_heads_differ_do_not(self):
        self.assertEqual(len(set(self.specs(self.group("FullAttentionSpec"), 8))), 16)

    def test_heads_that_the_engine_says_are_copied_are_stored_once(self):
        specs = self.specs(self.group("FullAttentionSpec", max_tp_shards=4), 8)[:8]
        self.assertEqual([spec.tp_rank for spec in specs], [0, 0, 2, 2, 4, 4, 6, 6])

    def test_a_group_of_layers_that_differ_is_shared_as_far_as_all_its_layers_are(self):
        latent, heads = self.group("MLAAttentionSpec"), self.group("FullAttentionSpec", max_tp_shards=2)
        for layers, copies in (({"a": latent, "b": latent}, 8), ({"a": latent, "b": heads}, 4),
                               ({"a": latent, "b": self.group("FullAttentionSpec")}, 1)):
            self.assertEqual(tensor_copies(self.group("UniformTypeKVCacheSpecs", kv_cache_specs=layers), 8), copies)


if __name__ == "__main__":
    unittest.main()
