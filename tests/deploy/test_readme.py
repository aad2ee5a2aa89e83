"""The README names no file of the repository that is not there."""

import re
import unittest

import programs

README = programs.DEPLOY / "README.md"


def named_paths(text):
    """Paths that a sentence or a command names, globs included."""
    return set(re.findall(r"(?<![\w/.-])(?:deploy|tests/deploy|kustomize|docker|seccomp|systemd)"
                          r"/[\w./*-]*", text))


class Readme(unittest.TestCase):
    def test_every_path_it_names_exists(self):
        paths = named_paths(README.read_text())
        self.assertGreater(len(paths), 10)
        for path in paths:
            root = programs.REPO if path.startswith(("deploy/", "tests/")) else programs.DEPLOY
            self.assertTrue(list(root.glob(path.rstrip("/."))), path)


if __name__ == "__main__":
    unittest.main()
