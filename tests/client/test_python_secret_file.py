"""One file is one secret, for the agent as for Python: every byte of it, less one newline at its end.

Run by CTest with PYTHONPATH=<build>/python; needs no agent.
"""

import os
import pathlib
import tempfile
import threading
import time
import unittest

import kvtier
from kvtier.vllm.options import parse_options

# Contents of files, and the secrets in them. tests/core/secret_file_test.cc has those of the other programs.
CASES = [(b"sixteen and more", b"sixteen and more"), (b"sixteen and more\n", b"sixteen and more"),
         (b"sixteen and more\n\n", b"sixteen and more\n"), (b"sixteen and more\r\n", b"sixteen and more\r"),
         (b" sixteen and more \t", b" sixteen and more \t"), (b"\nsixteen and more", b"\nsixteen and more"),
         (b"sixteen\0and more\0", b"sixteen\0and more\0"), (bytes(range(255, 239, -1)), bytes(range(255, 239, -1))),
         (b"\x0b\x0c\x85\xa0", b"\x0b\x0c\x85\xa0")]


class SecretFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "acme"

    def write(self, content, mode=0o600):
        self.path.write_bytes(content)
        self.path.chmod(mode)

    def refused(self, said):
        for read in (kvtier.read_secret_file, lambda path: parse_options({"tenant_secret_file": str(path)}).tenant_secret()):
            with self.assertRaisesRegex(ValueError, said):
                read(self.path)

    def test_each_byte_counts_but_one_newline_at_the_end(self):
        for content, secret in CASES:
            with self.subTest(content):
                self.write(content)
                self.assertEqual(kvtier.read_secret_file(self.path), secret)
                self.assertEqual(kvtier.read_secret_file(str(self.path)), secret)

    def test_the_connector_reads_the_same(self):
        for content, secret in CASES[:5]:
            with self.subTest(content):
                self.write(content)
                self.assertEqual(parse_options({"tenant_secret_file": str(self.path)}).tenant_secret(), secret)
        self.assertEqual(parse_options({}).tenant_secret(), b"")

    def test_what_is_no_secret_is_refused_by_name(self):
        self.refused("acme cannot be read: No such file")
        self.write(b"\n")
        self.refused("acme holds no secret")
        self.write(bytes(2**16 + 1))
        self.refused("acme has more than 65536 bytes")
        for mode in (0o644, 0o604, 0o660):
            self.write(b"sixteen and more", mode)
            self.refused(f"acme has mode 0{mode:o}")
        self.write(b"sixteen and more", 0o440)
        self.assertEqual(kvtier.read_secret_file(self.path), b"sixteen and more")
        self.path.unlink()
        os.mkfifo(self.path, 0o600)
        self.refused("acme is no plain file")

    def test_a_half_written_file_is_waited_for(self):
        self.write(b"the first half,")

        def end():
            time.sleep(0.1)
            with self.path.open("ab") as file:
                file.write(b" and the second")
        thread = threading.Thread(target=end)
        thread.start()
        self.assertEqual(kvtier.read_secret_file(self.path), b"the first half, and the second")
        thread.join()


if __name__ == "__main__":
    unittest.main()
