#!/usr/bin/env python3
"""A worker: answers questions about a document, sharing the KV of the document through kvtier.

    worker.py --prompt-file LICENSE --question "Who wrote this?" --json
    worker.py --serve          one JSON request a line on stdin, one JSON answer a line on stdout

A request is {"id", "prompt" or "prompt_file", "question", "max_tokens", "use_cache",
"prefix_tokens"}; all but the document and the question may be left out. An answer carries the id
and the fields of smollm.answering.Answer, or the id and "error".
"""

import argparse
import json
import sys
import time
from pathlib import Path

from smollm.answering import Answerer, Ask
from smollm.block_digests import BlockDigests
from smollm.model import Decoder
from smollm.pool_kv import PoolKv
from smollm.prefix_store import PrefixStore, space_fields
from smollm.shared_prefix import SharedPrefix
from smollm.stored_form import EncodedForm, Float32Form
from smollm.tokenizer import Tokenizer
from smollm.weights import ModelMissing, load_weights, open_model


CODECS = ("raw", "fp8_e4m3", "int8", "packed_exponents")


def verifies(options):
    return bool(options.verify or options.digests or options.write_digests)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", metavar="PATH.gguf", help="default: the installed model package")
    parser.add_argument("--socket-dir", default="/run/kvtier", help="where the agent listens")
    parser.add_argument("--tenant", default="default")
    parser.add_argument("--tenant-secret-file", type=Path, help="file that holds the secret alone")
    parser.add_argument("--prompt-file", type=Path, help="the document")
    parser.add_argument("--question", action="append", default=[], help="may be given again")
    parser.add_argument("--max-tokens", type=int, default=32, help="longest answer")
    parser.add_argument("--tokens-limit", type=int, help="cut the document prefix to this many")
    parser.add_argument("--context-tokens", type=int, default=4096, help="size of the KV pool")
    parser.add_argument("--kv-codec", default="raw", choices=CODECS,
                        help="how blocks are stored: float32 (raw), or bf16 through a codec, and "
                             "then answers from reused KV may differ")
    parser.add_argument("--gpu-pool", type=int, metavar="SLOTS",
                        help="keep the KV in so many slots of the agent's GPU pool, which the CPU "
                             "can touch where it is emulated")
    parser.add_argument("--no-cache", action="store_true", help="never speak to kvtier")
    parser.add_argument("--timeout-s", type=float, default=2.0, help="longest wait for kvtier")
    parser.add_argument("--verify", action="store_true",
                        help="compare onboarded blocks with what was computed for the same key")
    parser.add_argument("--digests", type=Path, help="known digests (JSON); implies --verify")
    parser.add_argument("--write-digests", type=Path,
                        help="add the digests of computed blocks to this file; implies --verify")
    parser.add_argument("--json", action="store_true", help="print answers as JSON lines")
    parser.add_argument("--serve", action="store_true", help="take requests on stdin")
    options = parser.parse_args(arguments)
    if options.kv_codec != "raw" and verifies(options):
        parser.error("verification compares bits, which --kv-codec does not keep")
    if not options.serve and not (options.prompt_file and options.question):
        parser.error("--prompt-file and --question are needed without --serve")
    if options.gpu_pool and options.no_cache:
        parser.error("--gpu-pool needs the agent that --no-cache leaves out")
    return options


def connect(options):
    """Returns a client, or None with --no-cache.

    The package is imported here, so that a worker without a cache runs without kvtier installed.
    """
    if options.no_cache:
        return None
    import kvtier

    secret = kvtier.read_secret_file(options.tenant_secret_file) if options.tenant_secret_file else b""
    return kvtier.Client(socket_dir=options.socket_dir, tenant=options.tenant,
                         tenant_secret=secret, timeout_s=options.timeout_s)


def open_pool(options, weights, client):
    """Returns KV memory in the agent's pool, or None for the worker's own. Raises ValueError."""
    if not options.gpu_pool:
        return None
    import kvtier

    space = client.register_space(kvtier.SpaceSpec(**space_fields(weights)))
    return PoolKv(weights.shape, client.paged_kv(space, options.gpu_pool))


def open_store(options, weights, kv, client):
    """Returns the PrefixStore, or None without a client."""
    if not client:
        return None
    import kvtier

    spec = kvtier.SpaceSpec(**space_fields(weights, options.kv_codec))
    form = Float32Form(kv)
    if options.kv_codec != "raw":
        form = EncodedForm(kv, kvtier.BlockCodec(spec))
    return PrefixStore(client, client.register_space(spec), kv, form)


def known_digests(options):
    """Returns the digests to verify against, or None when nothing is to be verified."""
    if not verifies(options):
        return None
    digests = BlockDigests()
    if options.digests:
        digests.load(options.digests)
    return digests


def ask_from(request):
    """Reads one request. Raises KeyError, TypeError, ValueError or OSError when it is not one."""
    document = request.get("prompt")
    if document is None:
        document = Path(request["prompt_file"]).read_text(encoding="utf-8")
    prefix_tokens = request.get("prefix_tokens")
    return Ask(document=document, question=str(request["question"]),
               max_tokens=int(request.get("max_tokens", 32)),
               use_cache=bool(request.get("use_cache", True)),
               prefix_tokens=None if prefix_tokens is None else int(prefix_tokens))


def serve(answerer, digests, options, lines, out):
    """Answers one request a line until `lines` ends. A bad request is answered with its error."""
    for line in filter(str.strip, lines):
        request = {}
        try:
            parsed = json.loads(line)
            if not isinstance(parsed, dict):
                raise ValueError("a request is a JSON object")
            request = parsed
            answer = answerer.answer(ask_from(request)).fields()
        except (KeyError, TypeError, ValueError, OSError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": request.get("id"), **answer}), file=out, flush=True)
        write_digests(digests, options)


def answer_questions(answerer, options):
    document = options.prompt_file.read_text(encoding="utf-8")
    for question in options.question:
        answer = answerer.answer(Ask(document, question, options.max_tokens, not options.no_cache,
                                     options.tokens_limit))
        if options.json:
            print(json.dumps(answer.fields()), flush=True)
        else:
            print(f"{answer.text.strip()}\n  [{answer.ttft_s:.3f} s to the first token; "
                  f"{answer.tokens_reused} of {answer.prompt_tokens} tokens reused]", flush=True)


def write_digests(digests, options):
    if options.write_digests:
        digests.save(options.write_digests)


def main(arguments=None):
    options = parse_arguments(arguments)
    started = time.perf_counter()
    try:
        file = open_model(options.model)
    except (ModelMissing, OSError, ValueError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 1
    weights = load_weights(file)
    client = connect(options)
    try:
        pool = open_pool(options, weights, client)
    except ValueError as error:
        print(f"worker: --gpu-pool: {error}", file=sys.stderr)
        return 1
    decoder = Decoder(weights, options.context_tokens, pool)
    store = open_store(options, weights, decoder.kv, client)
    digests = known_digests(options)
    answerer = Answerer(decoder, Tokenizer(file.metadata), store, digests, options.timeout_s,
                        SharedPrefix(pool) if pool else None)
    try:
        if options.serve:
            ready = {"ready": True, "load_s": time.perf_counter() - started,
                     "block_bytes": (store or decoder.kv).block_bytes, "connected": bool(
                         store and store.connected)}
            print(json.dumps(ready), flush=True)
            serve(answerer, digests, options, sys.stdin, sys.stdout)
        else:
            answer_questions(answerer, options)
            write_digests(digests, options)
    finally:
        if client:
            client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
