"""The wheel's gRPC, Protobuf and Abseil do not meet those of others in the same process."""

import importlib.util
import pathlib
import subprocess
import sys
import unittest

import node

HERE = pathlib.Path(__file__).parent

# grpcio answers itself, on a Unix socket of its own.
CALL = {"grpc": """
import concurrent.futures, grpc, os, tempfile
class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request[::-1])
with tempfile.TemporaryDirectory() as folder:
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1), handlers=[Echo()])
    server.add_insecure_port(f"unix:{folder}/echo.sock")
    server.start()
    with grpc.insecure_channel(f"unix:{folder}/echo.sock") as channel:
        assert channel.unary_unary("/a.B/C")(b"abc", timeout=20) == b"cba"
    server.stop(None).wait()
print("grpc answered")
""", "torch": """
import torch
assert torch.equal(torch.ones(3) + torch.ones(3), torch.full((3,), 2.0))
print("torch computed")
"""}
# A program that uses the wheel.
KVTIER = """
import kvtier, sys
sys.path.insert(0, {here!r})
import node
with kvtier.Client(socket_dir={socket_dir!r}) as client:
    assert node.put_and_get(client) == 8
print("kvtier put and got")
"""


class Neighbours(unittest.TestCase):
    def run_both(self, other, first):
        """Imports both in a process of its own, `first` first, and uses both, twice."""
        if importlib.util.find_spec(other) is None:
            self.skipTest(f"no {other} is installed beside it")
        with node.Node() as one:
            one.client().close()
            kvtier = KVTIER.format(here=str(HERE), socket_dir=one.folder.name)
            second = other if first == "kvtier" else "kvtier"
            calls = [CALL[other], kvtier] if first == other else [kvtier, CALL[other]]
            code = f"import {first}\nimport {second}\n" + "".join(calls * 2)
            ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True,
                                 timeout=300)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(len(ran.stdout.splitlines()), 4)

    def test_grpc_imported_before_it(self):
        self.run_both("grpc", "grpc")

    def test_grpc_imported_after_it(self):
        self.run_both("grpc", "kvtier")

    def test_torch_imported_before_it(self):
        self.run_both("torch", "torch")

    def test_torch_imported_after_it(self):
        self.run_both("torch", "kvtier")


if __name__ == "__main__":
    unittest.main()
