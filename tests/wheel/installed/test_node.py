"""The wheel that pip installed is a node: agent, client and CLI work together, from the wheel alone."""

import importlib.metadata
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import kvtier
import node


class Installed(unittest.TestCase):
    def test_all_comes_from_the_environment(self):
        for path in (kvtier.__file__, kvtier._kvtier.__file__, *map(str, (
                node.PROGRAMS / "kvtier", node.PROGRAMS / "kvtier-agent"))):
            self.assertTrue(path.startswith(sys.prefix), path)
            self.assertTrue(os.access(path, os.X_OK if "bin" in path else os.R_OK))
        self.assertEqual(importlib.metadata.version("kvtier"), kvtier.__version__)

    def test_it_needs_no_other_package(self):
        needed = importlib.metadata.requires("kvtier") or []
        self.assertEqual([name for name in needed if "extra" not in name], [])
        self.assertTrue([name for name in needed if name.startswith("vllm") and "<" in name])

    def test_types_and_docstrings_are_there(self):
        package = pathlib.Path(kvtier.__file__).parent
        self.assertTrue((package / "py.typed").is_file())
        self.assertTrue((package / "_kvtier.pyi").is_file())
        for name in kvtier.__all__:
            with self.subTest(name):
                self.assertTrue(getattr(kvtier, name).__doc__)


class Nodes(unittest.TestCase):
    def test_what_is_put_comes_back_with_the_same_bytes(self):
        with node.Node() as one, one.client() as client:
            self.assertEqual(node.put_and_get(client), 8)

    def test_so_it_does_from_a_disk(self):
        with tempfile.TemporaryDirectory() as disk, \
                node.Node(f"--disk_dir={disk}", "--disk_bytes=64MiB", "--slab_bytes=1MiB",
                          "--segment_bytes=8MiB", "--disk_buffered") as one, \
                one.client() as client:
            self.assertEqual(node.put_and_get(client, durable=True), 8)
            one.ask("evict", "--tier", "host", "--yes")
            hit = client.onboard(client.register_space(node.spec()), node.keys(8), timeout_s=5)
            with hit:
                self.assertEqual(hit.sources, ["disk"] * 8)
                self.assertEqual([bytes(block) for block in hit], node.blocks(8))

    def test_a_node_that_is_not_named_is_its_host_and_the_cli_tells_its_status(self):
        with node.Node() as one, one.client() as client:
            node.put_and_get(client)
            status = one.ask("status")
            self.assertIn(socket.gethostname(), status)
            self.assertIn(f"kvtier-agent {kvtier.__version__}", status)
            self.assertIn("host", one.ask("tiers"))

    def test_both_programs_tell_their_flags_and_version(self):
        said = subprocess.run([node.PROGRAMS / "kvtier", "version"], capture_output=True, text=True)
        self.assertIn(f"kvtier {kvtier.__version__},", said.stdout)
        helped = subprocess.run([node.PROGRAMS / "kvtier-agent", "--help"], capture_output=True,
                                text=True)
        self.assertIn("--host_bytes", helped.stdout)


if __name__ == "__main__":
    unittest.main()
