"""Which rows a prefill computes together, so that a token's KV never depends on what was reused.

A hit leaves a prompt half done, and the rest must come out bit for bit as it would have without
the hit. Floating-point sums depend on their order, and a BLAS picks the order from the shape of
the whole product. Two plans keep the promise:

  * stable rows: the BLAS computes a row the same way in every product whose row count is a
    multiple of ROW_QUANTUM (measured at start, `model.rows_are_stable`). Then any cut will do,
    and the last piece is padded only up to the quantum.
  * fixed rows: it does not. Then every product has FIXED_ROWS rows, and token t is always row
    t % FIXED_ROWS of its piece; the rows of reused tokens are left empty.
"""

from dataclasses import dataclass

ROW_QUANTUM = 16
BULK_ROWS = 256  # With more rows the products of a 576-wide model gain no more speed.
FIXED_ROWS = 64


@dataclass(frozen=True)
class Piece:
    """Tokens [start, stop) of the prompt, computed in one product of `rows` rows.

    Token `start` is row `first_row`; rows of no token are zero and their results are dropped.
    """

    start: int
    stop: int
    first_row: int
    rows: int


def plan(start, stop, stable_rows):
    """Cuts tokens [start, stop) into Pieces. REQUIRES: start is a multiple of ROW_QUANTUM."""
    if start % ROW_QUANTUM:
        raise ValueError(f"prefill starts at token {start}, not a multiple of {ROW_QUANTUM}")
    pieces = []
    while start < stop:
        if stable_rows:
            end = min(start + BULK_ROWS, stop)
            rows = -(-(end - start) // ROW_QUANTUM) * ROW_QUANTUM
            pieces.append(Piece(start, end, 0, rows))
        else:
            base = start - start % FIXED_ROWS
            end = min(base + FIXED_ROWS, stop)
            pieces.append(Piece(start, end, start - base, FIXED_ROWS))
        start = end
    return pieces
