"""The tree as it is, held against the picture of docs/ARCHITECTURE.md."""

import unittest

import include_rules
import link_rules
import name_rules
import picture
import tree


class Tree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = tree.read()

    def test_every_rule_holds(self):
        for rule in (*include_rules.RULES, *name_rules.RULES, *link_rules.RULES):
            with self.subTest(rule.__name__, says=rule.__doc__):
                complaints = list(rule(self.files))
                if complaints:
                    self.fail("\n" + "\n".join(complaints))

    def test_it_looked_at_something(self):
        for folder in picture.LAYERS:
            self.assertIn(f"{folder}/CMakeLists.txt", self.files)
        self.assertIn("core/block_key.h", self.files)
        self.assertGreater(sum(len(list(tree.includes(t))) for t in self.files.values()), 100)


if __name__ == "__main__":
    unittest.main()
