import struct
import tempfile
import unittest
from pathlib import Path

from example_model import needs_model


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


# One key of each shape this reader meets, one float32 tensor [2, 3], default alignment.
HEADER = (b"GGUF" + struct.pack("<IQQ", 3, 1, 3)
          + string("name") + struct.pack("<I", 8) + string("tiny")
          + string("count") + struct.pack("<II", 4, 42)
          + string("words") + struct.pack("<IIQ", 9, 8, 2) + string("a") + string("b")
          + string("matrix") + struct.pack("<I2QIQ", 2, 3, 2, 0, 0))
TENSOR = struct.pack("<6f", *range(6))


@needs_model
class GgufFileTest(unittest.TestCase):
    def open(self, content):
        from smollm.gguf_file import GgufFile

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "tiny.gguf"
        path.write_bytes(content)
        return GgufFile(path)

    def test_metadata_and_tensor_are_read(self):
        file = self.open(HEADER + bytes(-len(HEADER) % 32) + TENSOR)
        self.assertEqual(file.metadata, {"name": "tiny", "count": 42, "words": ["a", "b"]})
        self.assertEqual(file.read("matrix").tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_header_cut_anywhere_is_refused(self):
        for size in range(1, len(HEADER)):
            with self.assertRaises(ValueError):
                self.open(HEADER[:size])

    def test_other_files_are_refused(self):
        with self.assertRaisesRegex(ValueError, "not a GGUF file"):
            self.open(b"PK\x03\x04" + bytes(100))
        with self.assertRaisesRegex(ValueError, "version 99"):
            self.open(b"GGUF" + struct.pack("<IQQ", 99, 0, 0))


if __name__ == "__main__":
    unittest.main()
