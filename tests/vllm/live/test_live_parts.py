"""Checks that judge the real engine, shown able to fail: comparisons of bytes and texts, the report, the prompts."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import run
from control import BLOCK_TOKENS, Control
from damage import flip_bytes
from observations import Window, compare, read_lines
from prompts import COUNT, make_prompts
from report import Report
from vllm_process import Answer


def line(kind, key="k", digest="d", at=1.0, space="s"):
    return {"kind": kind, "key": key, "digest": digest, "at": at, "space": space}


class ComparisonTest(unittest.TestCase):
    def test_a_block_with_the_bytes_that_were_saved_is_right(self):
        found = compare([line("save"), line("load", at=2.0)])
        self.assertEqual((found.compared, found.wrong), (1, []))

    def test_a_block_with_other_bytes_is_wrong(self):
        load = line("load", digest="other", at=2.0)
        self.assertEqual(compare([line("save"), load]).wrong, [load])

    def test_a_block_that_nobody_saved_is_wrong(self):
        self.assertEqual(len(compare([line("save", key="another"), line("load", at=2.0)]).wrong), 1)

    def test_a_block_that_was_saved_in_another_space_is_wrong(self):
        self.assertEqual(len(compare([line("save", space="t"), line("load", at=2.0)]).wrong), 1)

    def test_a_block_that_was_saved_only_later_is_wrong(self):
        self.assertEqual(len(compare([line("save", at=3.0), line("load", at=2.0)]).wrong), 1)

    def test_any_of_several_saves_of_a_key_is_right_and_the_key_is_counted(self):
        found = compare([line("save"), line("save", digest="e", at=1.5), line("load", at=2.0)])
        self.assertEqual((found.variants, found.wrong), (1, []))


class LinesTest(unittest.TestCase):
    def test_all_processes_are_read_and_a_line_that_was_not_ended_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "engine").mkdir()
            Path(folder, "engine", "worker-1.jsonl").write_text(json.dumps(line("save")) + "\n" + '{"kind": "lo')
            Path(folder, "scheduler-2.jsonl").write_text(json.dumps(line("load", at=2.0)) + "\n")
            self.assertEqual(sorted(found["kind"] for found in read_lines(Path(folder))), ["load", "save"])
            self.assertEqual(Window(Path(folder), 1.5).loaded_keys(), {"k"})
            self.assertEqual(Window(Path(folder), 2.5).loaded_keys(), set())


class ControlTest(unittest.TestCase):
    def setUp(self):
        stem = list(range(BLOCK_TOKENS))
        self.control = Control(["a", "b", "c"], [stem + [1], stem + [2], stem], ["x", "y", "z"], frozenset({0, 1}), 1.0)

    def test_a_text_that_differs_from_the_control_is_wrong(self):
        answers = [Answer(text, 0, 0, 0.0) for text in ("x", "other", "other")]
        self.assertEqual(len(self.control.wrong(range(3), answers)), 1)  # The third text may differ.

    def test_a_shared_block_counts_once_and_the_last_token_is_never_loaded(self):
        self.assertEqual([self.control.blocks(numbers) for numbers in ([0], [0, 1], [2])], [1, 1, 0])


class ReportTest(unittest.TestCase):
    def finished(self, *steps):
        """Returns the exit code and the last line of a report of the scenarios "one" and "two"."""
        report, said = Report(("one", "two")), io.StringIO()
        with contextlib.redirect_stdout(said):
            for name, step in steps:
                with report.scenario(name) as seen:
                    step(seen)
            code = report.finish()
        return code, said.getvalue().splitlines()[-1]

    def test_a_scenario_that_was_not_reached_has_failed(self):
        self.assertEqual(self.finished(("one", lambda seen: None)), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_complaint_fails_its_scenario_alone(self):
        self.assertEqual(self.finished(("one", lambda seen: seen.expect(False, "no")), ("two", lambda seen: None)),
                         (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_dead_engine_fails_its_scenario_and_the_run_goes_on(self):
        def dies(seen):
            raise ConnectionResetError("gone")

        self.assertEqual(self.finished(("one", dies), ("two", lambda seen: None)), (1, "1 passed, 1 failed, 0 skipped"))

    def test_all_is_well_only_when_all_passed(self):
        self.assertEqual(self.finished(*((name, lambda seen: None) for name in ("one", "two"))),
                         (0, "2 passed, 0 failed, 0 skipped"))

    def test_a_scenario_that_is_not_of_the_run_is_a_mistake(self):
        with self.assertRaises(ValueError):
            self.finished(("three", lambda seen: None))


class PromptsTest(unittest.TestCase):
    def test_there_are_fifty_different_prompts_and_they_are_the_same_in_every_run(self):
        self.assertEqual(len(set(make_prompts())), COUNT)
        self.assertEqual(make_prompts(), make_prompts())

    def test_many_prompts_begin_as_another_one_does(self):
        prompts = make_prompts()
        shared = sum(any(one is not other and one[:200] == other[:200] for other in prompts) for one in prompts)
        self.assertGreaterEqual(shared, COUNT // 2)


class DamageTest(unittest.TestCase):
    def test_bytes_are_flipped_where_the_file_has_some_and_nowhere_else(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(1 << 20) + b"x" * (1 << 20))
            file.flush()
            self.assertEqual(flip_bytes(Path(file.name)), 32)
            content = Path(file.name).read_bytes()
            self.assertEqual(content[:1 << 20], bytes(1 << 20))
            self.assertEqual(sum(byte != ord("x") for byte in content[1 << 20:]), 32)


class PartsTest(unittest.TestCase):
    def test_no_scenario_is_named_twice_in_a_part(self):
        for part, names in run.NAMES.items():
            self.assertEqual(len(names), len(set(names)), part)


if __name__ == "__main__":
    unittest.main()
