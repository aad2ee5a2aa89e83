"""Errors and log lines: written to build/messages.txt for a reader; each rule catches what is planted for it."""

import unittest

import message_rules
import messages
import tree

_WHERE = {"core/a.cc": 'return absl::InvalidArgumentError(absl::StrCat("--rate=", rate, ": is 1 to ",\n'
                       '                                               kMost, ", as a, b"));\n'
                       'Log(LogLevel::kError, "stopped");\nreturn absl::DataLossError(why);\n'
                       '// absl::NotFoundError("in a comment")\n'
                       'throw py::value_error(name + " is " + std::to_string(n) + "; must be 0");\n'
                       'return refused(is_new ? "is new" : "is old");\n',
          "client/python/kvtier/a.py": 'raise ValueError(f"n is {n!r}; must be {0 + 1}")\n'
                                       '_log.warning("kvtier: %s took %.1f s", name, took)\n'
                                       'raise KeyError(name)\nprint("no message")\n',
          "bench/a.py": 'raise ValueError("no message of a program")\n'}
_COLLECTED = [
    ("client/python/kvtier/a.py", 1, "ValueError", "n is <n>; must be <0 + 1>"),
    ("client/python/kvtier/a.py", 2, "Log", "kvtier: <name> took <took> s"),
    ("core/a.cc", 1, "InvalidArgumentError", "--rate=<rate>: is 1 to <kMost>, as a, b"),
    ("core/a.cc", 3, "Log", "stopped"),
    ("core/a.cc", 6, "value_error", "<name> is <n>; must be 0"),
    ("core/a.cc", 7, "refused", "<is new|is old>"),
]

# A message of each part of the product that has any, so that a part that is not collected any more is noticed.
_PARTS = ("agent/flows/", "agent/sessions/", "agent/services/", "agent/peers/", "agent/disk/", "agent/gpu/",
          "agent/index/", "cli/", "client/c/", "client/lanes/", "client/host_lanes/", "client/device_lanes/",
          "client/python/", "client/python/kvtier/", "client/python/kvtier/vllm/", "coordinator/", "core/", "proto/",
          "tier_disk/cipher/", "tier_disk/directory/", "tier_disk/io/", "tier_disk/log/", "tier_disk/manifest/",
          "tier_gpu/device/", "tier_gpu/plan/", "tier_gpu/tables/", "tier_host/")

# rule, folder, kind, a message that breaks it, a part of the complaint
PLANTED = (
    (message_rules.beginnings, "core", "DataLossError", "Failed to read <path>", "does not say what happened"),
    (message_rules.beginnings, "core", "DataLossError", "The file <path> is damaged", "begins with 'The'"),
    (message_rules.sentences, "core", "Log", "the disk <path> is full.", "ends with a period"),
    (message_rules.sentences, "core", "Log", "the disk <path> is full. Make room", "more than one sentence"),
    (message_rules.sentences, "core", "Log", "the disk <path>\nis full", "more than one sentence"),
    (message_rules.subjects, "agent", "NotFoundError", "it was dropped before it was loaded", "to what it happened"),
    (message_rules.refusals, "core", "InvalidArgumentError", "slots is 0", "what the value must be"),
    (message_rules.refusals, "client", "ValueError", "block <index> of a hit of <n> blocks", "what the value must be"),
    (message_rules.refusals, "tier_gpu", "WrongShape", "layers is <must>, the space's has 3", "what the value must be"),
    (message_rules.remedies, "agent", "ResourceExhaustedError", "sessions: all <limit> are in use", "what to do"),
    (message_rules.remedies, "client", "PermissionDeniedError", "the agent does not serve this user", "what to do"),
    (message_rules.words, "agent", "Log", "tenant <name> is let in no more", "'let in'"),
    (message_rules.words, "core", "DataLossError", "<path> contradicts itself", "its parts do not fit together"),
)

# rule, folder, kind, a message that keeps it
LAWFUL = (
    (message_rules.beginnings, "agent", "Log", "GPU pool: <count> slots are in use"),
    (message_rules.beginnings, "core", "NotFoundError", "'<Name>' is unknown"),
    (message_rules.sentences, "core", "Log", "tenant <name> of <kind>. and so on"),
    (message_rules.subjects, "agent", "refused", "it is given twice; give it once"),
    (message_rules.subjects, "agent", "Log", "its parts are <count>"),
    (message_rules.refusals, "core", "InvalidArgumentError", "slots is 0; must be positive"),
    (message_rules.refusals, "core", "InvalidArgumentError", "--listen: <status>"),
    (message_rules.refusals, "core", "DataLossError", "slots is 0"),
    (message_rules.remedies, "agent", "ResourceExhaustedError", "sessions: all <limit> are in use; close some"),
    (message_rules.remedies, "tier_disk", "ResourceExhaustedError", "the file system is full"),
    (message_rules.words, "agent", "Log", "warmth of <warm> blocks"),
)


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = list(messages.collect(tree.read()))

    def test_they_are_collected_for_a_reader(self):
        lines = [f"{path}:{line}: {kind}: {message}\n" for path, line, kind, message in self.found]
        target = tree.REPO / "build" / "messages.txt"
        target.parent.mkdir(exist_ok=True)
        target.write_text("".join(lines), encoding="utf-8")
        self.assertGreater(len(lines), 1000)

    def test_every_part_of_the_product_is_among_them(self):
        for part in _PARTS:
            with self.subTest(part):
                self.assertTrue(any(path.startswith(part) for path, *_ in self.found))

    def test_the_collector_reads_what_is_planted(self):
        self.assertEqual(list(messages.collect(_WHERE)), _COLLECTED)

    def test_each_planted_message_is_caught(self):
        for rule, folder, kind, message, complaint in PLANTED:
            with self.subTest(rule.__name__, message=message):
                found = list(rule(folder, kind, message))
                self.assertEqual(len(found), 1, found)
                self.assertIn(complaint, found[0])

    def test_lawful_neighbours_are_left_alone(self):
        for rule, folder, kind, message in LAWFUL:
            with self.subTest(rule.__name__, message=message):
                self.assertEqual(list(rule(folder, kind, message)), [])

    def test_the_messages_keep_every_rule(self):
        for rule in message_rules.RULES:
            with self.subTest(rule.__name__, says=rule.__doc__):
                complaints = [f"{path}:{line}: {message!r}: {complaint}" for path, line, kind, message in self.found
                              for complaint in rule(tree.folder_of(path), kind, message)]
                if complaints:
                    self.fail("\n" + "\n".join(complaints))


if __name__ == "__main__":
    unittest.main()
