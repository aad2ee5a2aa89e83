"""The words of comments and pages: each rule catches what is planted for it, and the tree keeps all of them."""

import unittest

import picture
import tree
import word_rules

_GLOSSARY = {word_rules.GLOSSARY: "# Glossary\n\n## Words that are ruled out\n| not | but |\n|---|---|\n"
                                  "| throw away | evict, drop |\n"}

# rule, a tree that breaks it, a part of the complaint
PLANTED = (
    (word_rules.openers, {"core/a.h": "int x = 0;  // Of the block.\n"}, "core/a.h:1: the comment begins with 'Of'"),
    (word_rules.openers, {"core/a.h": "// What it is.\nint x;\n"}, "'What'"),
    (word_rules.openers, {"proto/kvtier/v1/a.proto": "bytes a = 1;  // Whose it is.\n"}, "'Whose'"),
    (word_rules.openers, {"client/c/a.h": "/* Behind the\n * others. */\n"}, "'Behind'"),
    (word_rules.openers, {"client/c/a.c": "/*\n * Who asks.\n */\n"}, "'Who'"),
    (word_rules.openers, {"bench/a.py": "x = 1  # Of a tenant.\n"}, "bench/a.py:1"),
    (word_rules.openers, {"bench/a.py": 'def f():\n    """What it does."""\n'}, "bench/a.py:2"),
    (word_rules.openers, {"bench/a.py": 'def f():\n    """Behind the others."""\n'}, "'Behind'"),
    (word_rules.openers, {"core/CMakeLists.txt": "# Of the presets.\n"}, "'Of'"),
    (word_rules.openers, {"scripts/a": "#!/bin/sh\n# What it runs.\n"}, "scripts/a:2"),
    (word_rules.openers, {"deploy/a.yaml": "a: 1\n# Who reads it.\n"}, "deploy/a.yaml:2"),
    (word_rules.openers, {"pyproject.toml": "# What is built.\n"}, "'What'"),
    (word_rules.openers, {"core/a.h": "// Holds blocks.\n//\n// Of a tenant.\n"}, "core/a.h:1"),
    (word_rules.openers, {"bench/a.py": 'def f():\n    """Runs.\n\n    What it runs.\n    """\n'}, "'What'"),
    (word_rules.synonyms, {"core/a.h": "// Throws nothing; may throw away\n// blocks.\n"}, "'throw away' is ruled out"),
    (word_rules.synonyms, {"docs/a.md": "# A\n\nBlocks that we throw away.\n"}, "docs/a.md:3"),
    (word_rules.synonyms, {"docs/a.md": "# A\n\nBlocks that we throw\naway.\n"}, "docs/a.md:3"),
    (word_rules.synonyms, {"core/a.h": "// A pass throws\n// away blocks.\n"}, "core/a.h:1"),
    (word_rules.page_lines, {"docs/a.md": "x" * 123 + "\n"}, "123 columns"),
    # Three pages were committed with both sides of a conflict.
    (word_rules.merges, {"docs/a.md": "# A\n\n<<<<<<< HEAD\nOne.\n=======\nTwo.\n"}, "docs/a.md:3"),
    (word_rules.merges, {"core/a.h": "int x;\n>>>>>>> reader\n"}, "core/a.h:2"),
)

# rule, a tree that keeps it
LAWFUL = (
    (word_rules.openers, {"core/a.h": "// Ends at the first hole\n// of the run.\n"
                                      'auto a = "// Of text";  // Office of the block.\n'}),
    (word_rules.openers, {"bench/a.py": 'x = "# Of text"\n# A run\n# of blocks.\ny = """Of text"""\n'}),
    (word_rules.synonyms, {"core/a.h": 'auto throw_away = "throw away";\n', "docs/a.md": "# A\n"}),
    (word_rules.merges, {"docs/a.md": "# A\n=======\n", "core/a.h": "auto x = y <<<<<<< 1;\n"}),
    (word_rules.page_lines, {"docs/a.md": "x" * 122 + "\n| " + "y" * 200 + " |\n```\n" + "z" * 200 + "\n```\n"}),
)


class Words(unittest.TestCase):
    def test_each_planted_violation_is_caught(self):
        for rule, files, complaint in PLANTED:
            with self.subTest(rule.__name__, files=files):
                found = list(rule(_GLOSSARY | files))
                self.assertEqual(len(found), 1, found)
                self.assertIn(complaint, found[0])

    def test_lawful_neighbours_are_left_alone(self):
        for rule, files in LAWFUL:
            with self.subTest(rule.__name__, files=files):
                self.assertEqual(list(rule(_GLOSSARY | files)), [])

    def test_a_glossary_without_its_table_is_a_complaint(self):
        with self.assertRaises(IndexError):
            list(word_rules.synonyms({word_rules.GLOSSARY: "# Glossary\n"}))

    def test_the_tree_keeps_every_rule(self):
        files = tree.read()
        self.assertGreater(len(word_rules.ruled_out(files[word_rules.GLOSSARY])), 5)
        self.assertLessEqual({"scripts/lint", ".ci/run", "pyproject.toml", "CMakeLists.txt"}, set(files))
        for rule in word_rules.RULES:
            with self.subTest(rule.__name__, says=rule.__doc__):
                if complaints := list(rule(files)):
                    self.fail("\n" + "\n".join(complaints))


if __name__ == "__main__":
    unittest.main()
