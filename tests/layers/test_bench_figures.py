"""The figures that are stated of benchmarks: file, page, benchmarks and slowdowns agree."""

import subprocess
import sys
import tempfile
import unittest

import tree

sys.path.insert(0, str(tree.REPO / "scripts"))
import bench_check  # noqa: E402
import bench_figures  # noqa: E402

SLOWDOWNS = tree.REPO / "tests/bench/slowdowns"


class BenchFigures(unittest.TestCase):
    def setUp(self):
        self.rows = bench_figures.parse(bench_figures.FILE.read_text())
        self.sources = bench_check.sources()

    def test_the_page_has_the_files_table(self):
        page = bench_figures.PAGE.read_text()
        self.assertEqual(page, bench_figures.with_table(page, self.rows),
                         "write it again: python3 scripts/bench_figures.py --write")
        self.assertIn(f"\n{bench_figures.LEAST} of it", page)

    def test_each_benchmark_has_figures_and_each_figure_a_benchmark(self):
        self.assertEqual({row.bench for row in self.rows}, set(self.sources))

    def test_each_benchmark_is_slowed_down_by_a_patch_that_fits(self):
        self.assertEqual({patch.stem for patch in SLOWDOWNS.iterdir()}, set(self.sources))
        for patch in SLOWDOWNS.iterdir():
            with self.subTest(patch.stem), tempfile.TemporaryDirectory() as copy:
                applied = subprocess.run([tree.REPO / "tests/mutants/apply", patch, tree.REPO, copy],
                                         stderr=subprocess.PIPE, text=True)
                self.assertEqual(applied.returncode, 0, applied.stderr)

    def test_another_table_is_another_page(self):
        page = bench_figures.PAGE.read_text()
        self.assertNotEqual(page, bench_figures.with_table(page, self.rows[1:]))


if __name__ == "__main__":
    unittest.main()
