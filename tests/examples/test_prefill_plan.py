import unittest

import example_model  # noqa: F401  (puts examples/ on the path)
from smollm import prefill_plan
from smollm.prefill_plan import FIXED_ROWS, ROW_QUANTUM

STARTS = (0, 16, 48, 64, 240, 256, 1600)
LENGTHS = (1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 700)


class PrefillPlanTest(unittest.TestCase):
    def test_pieces_cover_every_token_once(self):
        for stable in (True, False):
            for start in STARTS:
                for length in LENGTHS:
                    pieces = prefill_plan.plan(start, start + length, stable)
                    tokens = [t for piece in pieces for t in range(piece.start, piece.stop)]
                    self.assertEqual(tokens, list(range(start, start + length)))

    def test_stable_rows_are_padded_to_the_quantum_only(self):
        for length in LENGTHS:
            rows = sum(piece.rows for piece in prefill_plan.plan(32, 32 + length, True))
            self.assertEqual(rows, -(-length // ROW_QUANTUM) * ROW_QUANTUM)

    def test_fixed_rows_put_a_token_in_the_same_row_wherever_prefill_starts(self):
        for start in STARTS:
            for piece in prefill_plan.plan(start, start + 300, False):
                self.assertEqual(piece.rows, FIXED_ROWS)
                self.assertEqual(piece.first_row, piece.start % FIXED_ROWS)
                self.assertLessEqual(piece.first_row + piece.stop - piece.start, FIXED_ROWS)

    def test_start_inside_a_block_is_refused(self):
        with self.assertRaises(ValueError):
            prefill_plan.plan(17, 40, True)


if __name__ == "__main__":
    unittest.main()
