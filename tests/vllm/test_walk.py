"""The ten-minute walk of docs/engines/vllm.md, run as a script with programs that stand in for those that it starts."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs/engines/vllm.md"
# A server ends by SIGTERM. As any program that a script starts in the background, it ignores SIGINT.
_SERVER = """#!/bin/bash
trap 'echo "$0 ends" >>"$EVENTS"; rm -f "$0.up"; exit 0' TERM
echo "$0 begins" >>"$EVENTS"
touch "$0.up"
while :; do sleep 0.05; done
"""
_CURL = """#!/bin/bash
case "$*" in
  *health*) [[ -e "$BIN/vllm.up" ]] ;;
  *metrics*) echo 'vllm:kvtier_loaded_blocks_total{engine="0"} 0.0' ;;
  *) cat >/dev/null; echo "asked" >>"$EVENTS" ;;
esac
"""
_PROGRAMS = {"vllm": _SERVER, "kvtier-agent": _SERVER, "curl": _CURL, "pip": "#!/bin/bash\n",
             "kvtier": '#!/bin/bash\necho "kvtier $1" >>"$EVENTS"\n'}


def walk():
    """Returns the lines of the walk."""
    section = _PAGE.read_text(encoding="utf-8").split("## A hit across a restart, in ten minutes")[1]
    return re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]


class Walk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bin, self.events = self.folder / "bin", self.folder / "events"
        self.bin.mkdir()
        for name, text in _PROGRAMS.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        (self.bin / "python").symlink_to(sys.executable)

    def run_script(self, timeout_s=60):
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "BIN": str(self.bin),
                       "EVENTS": str(self.events)}
        script = subprocess.Popen(["bash", "-c", walk()], cwd=self.folder, env=environment, start_new_session=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            script.wait(timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)  # Ends what a script that hangs has left.
            script.wait()

    # It waited for ever for an engine that it had interrupted: background programs of a script ignore SIGINT.
    def test_ends_as_a_script_and_leaves_nothing_running(self):
        self.run_script()
        events = [line.replace(f"{self.bin}/", "") for line in self.events.read_text().splitlines()]
        self.assertEqual(events[2:], ["asked", "vllm ends", "vllm begins", "asked", "kvtier status", *events[-2:]])
        self.assertEqual(sorted(events[:2]), ["kvtier-agent begins", "vllm begins"])
        self.assertEqual(sorted(events[-2:]), ["kvtier-agent ends", "vllm ends"])

    def test_ends_also_where_the_engine_does_not_start(self):
        (self.bin / "vllm").write_text("#!/bin/bash\nexit 1\n")
        self.run_script()
        self.assertIn("kvtier status", self.events.read_text())

    # It said 34.0 and gave 8.0, with the 128 tokens that a block of vLLM has on a CPU.
    def test_names_the_size_of_the_blocks_that_it_counts(self):
        self.assertIn("--block-size 32", walk())


if __name__ == "__main__":
    unittest.main()
