"""The errors and log lines of the programs, written to build/messages.txt for a reader."""

import unittest

import messages
import tree

# Beginnings of messages that do not say what happened: a bare code, an exclamation, an apology.
_EMPTY_BEGINNINGS = ("error", "failed", "oops", "sorry", "invalid argument", "unknown error", "bad ")


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = list(messages.collect(tree.read()))

    def test_they_are_collected_for_a_reader(self):
        lines = [f"{path}:{line}: {kind}: {message}\n" for path, line, kind, message in self.found]
        target = tree.REPO / "build" / "messages.txt"
        target.parent.mkdir(exist_ok=True)
        target.write_text("".join(lines), encoding="utf-8")
        self.assertGreater(len(lines), 500)

    def test_the_collector_reads_what_is_planted(self):
        planted = {"core/a.cc": 'return absl::InvalidArgumentError(absl::StrCat("--rate=", rate, ": is 1 to ",\n'
                                '                                               kMost, ", as a, b"));\n'
                                'Log(LogLevel::kError, "stopped");\nreturn absl::DataLossError(why);\n'
                                '// absl::NotFoundError("in a comment")\n'}
        self.assertEqual([(line, kind, message) for _, line, kind, message in messages.collect(planted)],
                         [(1, "InvalidArgumentError", "--rate=<rate>: is 1 to <kMost>, as a, b"), (3, "Log", "stopped")])

    def test_each_says_what_happened_in_one_sentence(self):
        for path, line, _, message in self.found:
            with self.subTest(f"{path}:{line}", message=message):
                self.assertFalse(message.lower().strip().startswith(_EMPTY_BEGINNINGS))
                self.assertFalse(message.rstrip("\n ").endswith((".", "!")), "an error is joined to others: no period")
                self.assertNotIn("\n", message.rstrip("\n"))


if __name__ == "__main__":
    unittest.main()
