"""Makes what must not share blocks with a model: the model with other weights, and LoRA adapters of it.

    python3 model_variants.py MODEL FOLDER ADAPTER...

FOLDER gets `weights`, a model folder, and a folder for each ADAPTER. Run it with the interpreter of vLLM's venv.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

_RANK = 8
_CHANGE = 0.05  # Relative change of each weight: the model still speaks, and says other things.
_ADAPTED = {"q_proj": 0.05, "v_proj": 0.05}  # Module: scale of its adapter's values.


def make_weights(model: Path, folder: Path) -> None:
    """Writes the model with each weight of its MLPs changed a little, which lie in the middle of the file."""
    chance = torch.Generator().manual_seed(1)
    folder.mkdir(parents=True)
    for file in model.iterdir():
        if file.suffix != ".safetensors":
            shutil.copy(file, folder)
    tensors = load_file(model / "model.safetensors")
    changed = {name: values * (1 + _CHANGE * torch.randn(values.shape, generator=chance)) if ".mlp." in name else values
               for name, values in tensors.items()}
    save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})


def make_adapter(model: Path, folder: Path, seed: int) -> None:
    """Writes an adapter of random values."""
    config = json.loads((model / "config.json").read_text())
    heads = {"q_proj": config["num_attention_heads"], "v_proj": config["num_key_value_heads"]}
    chance = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        for name, scale in _ADAPTED.items():
            module = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            rows = heads[name] * config["head_dim"]
            tensors[f"{module}.lora_A.weight"] = scale * torch.randn(_RANK, config["hidden_size"], generator=chance)
            tensors[f"{module}.lora_B.weight"] = scale * torch.randn(rows, _RANK, generator=chance)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": _RANK, "lora_alpha": 2 * _RANK, "lora_dropout": 0.0,
        "bias": "none", "target_modules": sorted(_ADAPTED), "base_model_name_or_path": "smollm2"}))


if __name__ == "__main__":
    make_weights(Path(sys.argv[1]), Path(sys.argv[2], "weights"))
    for place, adapter in enumerate(sys.argv[3:]):
        make_adapter(Path(sys.argv[1]), Path(sys.argv[2], adapter), place)
