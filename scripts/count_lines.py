"""Counts lines of the source files that git tracks, and prints tables in Markdown.

    count_lines.py REVISION [REVISION]

Each table has a row for each top-level folder: one table of all sources, one of those of the GPU.
Code is what is neither blank nor a comment; a Python docstring is a comment.

>>> kinds("a.cc", "// Says why.\\nint a;  // Here.\\n\\n/* Two\\n   lines. */\\nint b;\\n")
Counter({'comments': 3, 'code': 2, 'blank': 1})
>>> text = '"One."\\n"\\""Two\\nlines.\\n"\\""\\n# Three.\\nb = "\\""\\n# text\\n"\\""\\n'
>>> kinds("a.py", text)
Counter({'code': 4, 'comments': 4})
>>> kinds("CMakeLists.txt", "# Why.\\nadd(a)\\n")
Counter({'comments': 1, 'code': 1})
>>> [is_gpu(path) for path in ("tier_gpu/a.cc", "agent/gpu_load.cc", "tests/agent/gpu_steps_test.cc")]
[True, True, True]
>>> [is_gpu(path) for path in ("client/host_lanes/host_job.cc", "tests/tier_host/slot_pool_test.cc")]
[False, False]
"""

import io
import re
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = re.compile(r"\.(cc|h|cu|cuh|py|c|proto|txt|cmake)$")

# Paths of the GPU tier, its tests and benches included. What moved or was renamed stays in the
# list by both names, so that a difference shows what was deleted and not what went elsewhere.
GPU = re.compile(
    # Folders that hold nothing else.
    r"^(kernels|tier_gpu|client/lanes|client/device_lanes|tests/gpu|tests/tier_gpu)/"
    r"|^tests/testing/faulty_device"
    r"|^tests/client/worker_pool"
    r"|^(agent|bench)/gpu"
    r"|^tests/testing/(host_cuda/|fake_cuda)"
    # Files whose name says so, in folders that hold other code, too.
    r"|^(agent|client|core|cli|bench|tests|examples)/(.*/)?[^/]*"
    r"(gpu|cuda|lanes|calibration|kernel|pool_ledger|take_back|earlier_workers|reclaim_pool"
    r"|pool_socket|pool_offer|lost_pool|paged_kv|granted_slots|take_slots|block_table|slot_|device_"
    r"|step_page|worker_steps|stepping_worker|region_cases)"
    r"|^bench/[^/]*codec"
    # Other files that the GPU bench of 2dad422 was linked from.
    r"|^bench/(block_races|call_copies|row_copies|gemm|step_compute|second_process|torch_copies"
    r"|plain_ways|rig_cell|bench_plan)\."
    # Files that told processes apart, for the pool that outlived its agent.
    r"|^(tests/)?core/process_id"
    # It was kernels/codec_layout.h once; the file beside it says where host memory lies for the GPUs.
    r"|^core/codec_layout\.h"
    r"|^(tests/)?tier_host/memory_binder"
)
# Names that mean other lanes and slots: of host memory, and of SHA-256 in vector registers.
NOT_GPU = re.compile(r"(^|/)host_lanes|^core/sha256_lanes|^tests/tier_host/slot_")


def is_gpu(path: str) -> bool:
    return GPU.search(path) is not None and NOT_GPU.search(path) is None


def kinds(path: str, text: str) -> Counter[str]:
    """Counts the text's lines as code, comments and blank."""
    counts: Counter[str] = Counter()
    python = path.endswith(".py")
    marks = ("#",) if path.endswith((".py", ".txt", ".cmake")) else ("//",)
    inside = ""  # Kind of the lines, "comments" or "code", until a comment or a string of several lines ends.
    for line in map(str.strip, text.splitlines()):
        ends = line.count('"""') % 2 == 1 if python else "*/" in line
        if inside:
            counts[inside if line or inside == "code" else "blank"] += 1
            inside = "" if ends else inside
        elif not line:
            counts["blank"] += 1
        elif python and '"""' in line:
            kind = "comments" if re.match(r'r?"""', line) else "code"
            counts[kind] += 1
            inside = kind if ends else ""
        elif not python and line.startswith("/*"):
            counts["comments"] += 1
            inside = "" if ends else "comments"
        else:
            counts["comments" if line.startswith(marks) else "code"] += 1
    return counts


def count(revision: str) -> dict[str, dict[str, Counter[str]]]:
    """Returns by table ("all", "gpu") and folder how many lines of each kind there are."""
    command = ["git", "-C", str(REPOSITORY), "archive", "--format=tar", revision]
    archive = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    tables: dict[str, dict[str, Counter[str]]] = {
        "all": defaultdict(Counter),
        "gpu": defaultdict(Counter),
    }
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            content = tar.extractfile(member) if SOURCE.search(member.name) else None
            if content is None:
                continue
            counts = kinds(member.name, content.read().decode(errors="replace"))
            folder = member.name.split("/")[0] + "/" if "/" in member.name else "(top)"
            tables["all"][folder] += counts
            if is_gpu(member.name):
                tables["gpu"][folder] += counts
    return tables


def row(name: str, revisions: list[Counter[str]]) -> str:
    """Returns a row: for code, comments and all lines, each revision's figure and the difference."""
    cells = [name]
    for figure in ("code", "comments", "lines"):
        values = [c.total() if figure == "lines" else c[figure] for c in revisions]
        cells += [f"{value:,}" for value in values]
        if len(values) == 2:
            cells.append(f"{values[1] - values[0]:+,}")
    return "| " + " | ".join(cells) + " |"


def table(title: str, names: list[str], revisions: list[dict[str, Counter[str]]]) -> str:
    heads = [title]
    for figure in ("code", "comments", "all lines"):
        heads += [f"{figure}, {name}" for name in names] + ["difference"] * (len(names) - 1)
    rows = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for folder in sorted({folder for folders in revisions for folder in folders}):
        rows.append(row(f"`{folder}`", [folders.get(folder, Counter()) for folders in revisions]))
    rows.append(row("all", [sum(folders.values(), Counter()) for folders in revisions]))
    return "\n".join(rows)


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: scripts/count-lines REVISION [REVISION]", file=sys.stderr)
        return 64
    try:
        revisions = [count(revision) for revision in arguments]
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    for title, key in (("all sources", "all"), ("GPU", "gpu")):
        print(table(title, arguments, [tables[key] for tables in revisions]), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
