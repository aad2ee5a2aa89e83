#!/usr/bin/env python3
# bench: codecs - what codecs lose, save and cost on the KV of the example's model, 50 prompts
# check: --prompts=2 --max-tokens=1
"""Captures the KV of a real model over prompts with one document, and sends it through each codec.

    scripts/bench codecs [--prompts N] [--max-tokens N] [--exact-blocks N]

References: the bounds that core/codec_layout.h states, the bf16 block, memcpy, and the answers
and attention's errors of float32 and of bf16 KV. Ends with 1 when a codec errs more than its bounds.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from statistics import median

import numpy as np
from captured_kv import Codec, Model
from codec_errors import KEYS, VALUES, CodecErrors
from codec_prompts import DOCUMENT, PROMPTS
from smollm import bf16
from smollm.model import Decoder
from smollm.tokenizer import Tokenizer
from smollm.weights import load_weights, open_model

BOUNDS = {"fp8_e4m3": 0.03, "int8": 0.008, "packed_exponents": 0.0}
VARIANTS = ("float32", "bf16", *BOUNDS)
# Bounds of the error of attention's outputs against float32 KV, in times the error of bf16 KV in the
# same run: a third more than all prompts measured. None is absolute, because the processor's BLAS
# decides which rows are measured, and so how much each variant errs.
ATTENTION_BOUNDS = {"fp8_e4m3": 16.0, "int8": 4.3, "packed_exponents": 1.0}


@dataclass
class Outcome:
    """The results of one variant over all prompts."""

    codec: Codec
    errors: CodecErrors  # Errors of the decoded blocks against bf16.
    replays: list
    not_encoded: int = 0

    @property
    def attention_error(self):
        error = sum(replay.attention_error for replay in self.replays)
        return float(np.sqrt(error / sum(replay.attention_original for replay in self.replays)))

    @property
    def agreeing(self):
        return sum(replay.agreeing for replay in self.replays) / len(self.replays)

    @property
    def equal_share(self):
        return sum(replay.equal for replay in self.replays) / len(self.replays)


def load_model():
    file = open_model()
    return Model(Decoder(load_weights(file), context_tokens=2048), Tokenizer(file.metadata))


def capture(model, prompts, max_tokens):
    captured = []
    for question in prompts:
        captured.append(model.capture(DOCUMENT, question, max_tokens,
                                      captured[0] if captured else None))
    return captured


def run_variant(model, name, captured, exact_blocks=0):
    """Sends every block that a worker would reuse through the codec, but for the first
    `exact_blocks`, and answers on what comes back. A block shared by several prompts counts once
    in the errors."""
    outcome = Outcome(Codec(name, model.block_shape), CodecErrors(), [])
    known = {}
    for prompt in captured:
        copies = np.empty((prompt.reusable, *model.block_shape), np.float32)
        for index in range(prompt.reusable):
            block = prompt.blocks[index]
            if index < exact_blocks:
                copies[index] = block
                continue
            key = tuple(prompt.tokens[:(index + 1) * model.kv.tokens_per_block])
            if key not in known:
                known[key] = outcome.codec.through(block)
                if known[key] is None:  # The block is not stored, so a worker computes it again.
                    outcome.not_encoded += 1
                    known[key] = block
                else:
                    outcome.errors.add(bf16.to_float32(bf16.from_float32(block)), known[key])
            copies[index] = known[key]
        outcome.replays.append(model.replay(prompt, copies))
    return outcome, len(known)


def speeds(codec, blocks, seconds=1.0):
    """Returns the speeds of encode, decode and memcpy in GB of bf16 a second: medians over blocks, taken in turns."""
    took = {"encode": [], "decode": [], "memcpy": []}
    bits = [bf16.from_float32(block) for block in blocks]
    slots = [np.zeros(codec.stored_bytes, np.uint8) for _ in blocks]
    back = np.zeros_like(bits[0])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for raw, slot in zip(bits, slots):
            for name, work in (("encode", lambda: codec.native.encode(raw, slot)),
                               ("decode", lambda: codec.native.decode(slot, back)),
                               ("memcpy", lambda: np.copyto(back, raw))):
                start = time.perf_counter()
                work()
                took[name].append(time.perf_counter() - start)
    return {name: bits[0].nbytes / median(times) / 1e9 for name, times in took.items()}


def print_table(outcomes, blocks):
    print(f"\n{blocks} blocks; errors against the bf16 block, K and V, and of attention's outputs "
          "against\nfloat32 KV; agreeing: mean tokens before the answer parts from float32's")
    head = ("codec", "rel L2 K", "rel L2 V", "worst layer K", "worst layer V", "max K", "max V",
            "1 - cos", "attention", "stored", "agreeing", "equal")
    print("".join(f"{name:>16}" for name in head))
    for outcome in outcomes:
        errors = outcome.errors
        worst = ["{:.4f} ({})".format(*errors.worst_layer(axis)) for axis in (KEYS, VALUES)]
        ratio = outcome.codec.stored_bytes / (2 * np.prod(outcome.codec.block_shape))
        cells = (outcome.codec.name, f"{errors.relative_l2(KEYS):.5f}",
                 f"{errors.relative_l2(VALUES):.5f}", *worst, f"{errors.largest(KEYS):.4f}",
                 f"{errors.largest(VALUES):.4f}", f"{errors.one_minus_cosine():.1e}",
                 f"{outcome.attention_error:.5f}", f"{ratio:.4f}", f"{outcome.agreeing:.2f}",
                 f"{outcome.equal_share:.2f}")
        print("".join(f"{cell:>16}" for cell in cells))


def figure(name, value, unit, ratio, reference):
    print(f"figure codecs.{name} {value:.6g} {unit} {ratio:.4g} {reference}")


def print_figures(outcome, rounded, speed):
    name, errors = outcome.codec.name, outcome.errors
    bound = BOUNDS[name]
    of_bound = f"of_the_bound_{bound}" if bound else "exact"
    for letter, error in (("", errors.relative_l2_of_all()), ("_k", errors.relative_l2(KEYS)),
                          ("_v", errors.relative_l2(VALUES))):
        figure(f"{name}.rel_l2{letter}", error, "1", error / bound if bound else error, of_bound)
    for axis, letter in ((KEYS, "k"), (VALUES, "v")):
        figure(f"{name}.max_{letter}", errors.largest(axis), "1", errors.largest(axis),
               "largest_element_of_its_plane")
    cosine, attention = errors.one_minus_cosine(), outcome.attention_error
    figure(f"{name}.one_minus_cos", cosine, "1", cosine / 5e-4, "of_0.0005_unpromised")
    of_rounded = attention / rounded.attention_error
    figure(f"{name}.attention_rel_l2", attention, "1", of_rounded, "bf16_against_float32")
    bound = ATTENTION_BOUNDS[name]
    figure(f"{name}.attention", of_rounded, "bf16s", of_rounded / bound, f"of_the_bound_{bound}")
    stored = outcome.codec.stored_bytes
    figure(f"{name}.stored", stored, "B", stored / rounded.codec.stored_bytes, "bf16_block")
    figure(f"{name}.not_encoded", outcome.not_encoded, "blocks", outcome.not_encoded, "none")
    for way in ("encode", "decode"):
        figure(f"{name}.{way}", speed[way], "GB/s", speed[way] / speed["memcpy"], "memcpy")
    figure(f"{name}.agreeing", outcome.agreeing, "tokens", outcome.agreeing / rounded.agreeing,
           "bf16")
    figure(f"{name}.equal", outcome.equal_share, "share",
           outcome.equal_share / rounded.equal_share, "bf16")


def beyond_bounds(outcomes):
    """Returns a sentence for each error above its bound. `outcomes`: those of all variants."""
    rounded = next(outcome for outcome in outcomes if outcome.codec.name == "bf16")
    found = []
    for outcome in outcomes:
        name, errors = outcome.codec.name, outcome.errors
        measured = []
        if name in BOUNDS:
            measured = [("K", errors.relative_l2(KEYS), BOUNDS[name]),
                        ("V", errors.relative_l2(VALUES), BOUNDS[name]),
                        ("K and V", errors.relative_l2_of_all(), BOUNDS[name])]
        if name in ATTENTION_BOUNDS:
            measured.append(("attention", outcome.attention_error,
                             ATTENTION_BOUNDS[name] * rounded.attention_error))
        found += [f"{name}: relative L2 error of {what} is {error:.5f}, its bound is {bound:.5f}"
                  for what, error, bound in measured if error > bound]
    return found


def conclude(outcomes):
    """Prints what is beyond its bound. Returns the exit code: 1 if anything is."""
    found = beyond_bounds(outcomes)
    for sentence in found:
        print(f"bench_codecs: {sentence}", file=sys.stderr)
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), help="how many of the fifty")
    parser.add_argument("--max-tokens", type=int, default=24, help="longest answer")
    parser.add_argument("--exact-blocks", type=int, default=0,
                        help="how many of a prompt's first blocks a worker computes again")
    options = parser.parse_args()
    started = time.perf_counter()
    model = load_model()
    captured = capture(model, PROMPTS[:options.prompts], options.max_tokens)
    print(f"captured {len(captured)} prompts of {len(captured[0].tokens)} tokens and so, "
          f"{time.perf_counter() - started:.0f} s", flush=True)
    outcomes = []
    for name in VARIANTS:
        outcome, blocks = run_variant(model, name, captured, options.exact_blocks)
        outcomes.append(outcome)
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
    print_table(outcomes, blocks)
    rounded = outcomes[VARIANTS.index("bf16")]
    figure("bf16.agreeing", rounded.agreeing, "tokens",
           rounded.agreeing / outcomes[0].agreeing, "float32")
    figure("bf16.equal", rounded.equal_share, "share", rounded.equal_share, "float32")
    for outcome in outcomes[VARIANTS.index("bf16") + 1:]:
        print_figures(outcome, rounded, speeds(outcome.codec, captured[0].blocks))
    return conclude(outcomes)


if __name__ == "__main__":
    sys.exit(main())
