#!/usr/bin/env python3
"""Asks a language model questions about one document on two kvtier nodes, with its KV recomputed,
fetched from host memory, read back from disk (also after kill -9 of the agent) and fetched from the
other node, and shows that the answers are the same. scripts/demo prepares what this needs."""

import argparse
import signal
import sys
import time
from pathlib import Path

from demonstration.cluster import Cluster, ClusterFailed
from demonstration.report import figures, holds, table
from demonstration.scenarios import Scenarios

# A text that every Debian system has (package base-files).
_DEFAULT_DOCUMENT = Path("/usr/share/common-licenses/GPL-3")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/demo",
                                     description="kvtier with a real language model on two nodes.")
    parser.add_argument("--prompt-file", type=Path, default=_DEFAULT_DOCUMENT,
                        help="the document, any UTF-8 text (default: %(default)s)")
    parser.add_argument("--prefix-tokens", type=int, default=1600,
                        help="cut the document to this many tokens (default: %(default)s)")
    parser.add_argument("--max-tokens", type=int, default=16,
                        help="length of an answer (default: %(default)s)")
    options = parser.parse_args()
    if not options.prompt_file.is_file():
        parser.error(f"--prompt-file {options.prompt_file}: not a readable file")
    if not 64 <= options.prefix_tokens <= 3500:
        parser.error(f"--prefix-tokens {options.prefix_tokens}: 64 to 3500")
    if not 1 <= options.max_tokens <= 256:
        parser.error(f"--max-tokens {options.max_tokens}: 1 to 256")
    return options


def main():
    options = parse_arguments()
    # systemd, CI and `kill` end a program as Ctrl-C does: in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()

    def progress(text):
        print(f"[{time.monotonic() - started:6.1f} s] {text}", flush=True)

    document = options.prompt_file.read_text(encoding="utf-8", errors="replace")
    try:
        with Cluster(["node-a", "node-b"]) as cluster:
            progress("starting one coordinator and two agents on loopback")
            cluster.start()
            progress("loading the model in a worker on node-a")
            scenarios = Scenarios(cluster, document, options, progress).run()
            print(f"\n{options.prompt_file}, {len(document)} characters:\n")
            print(table(scenarios), end="\n\n", flush=True)
            cluster.print_status()
    except ClusterFailed as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; every process is ended and every file removed", file=sys.stderr)
        return 130
    print(f"\n{figures(scenarios)}", flush=True)
    return 0 if holds(scenarios) else 1


if __name__ == "__main__":
    sys.exit(main())
