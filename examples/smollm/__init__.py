"""A small but real decoder language model on the CPU, with a paged KV cache kvtier can keep.

Everything is numpy float32. `model.Decoder` computes, `paged_kv.PagedKv` holds the keys and
values, `block_keys.chain` names the blocks, `prefix_store.PrefixStore` moves them to and from a
kvtier agent. Nothing here writes to disk.
"""
