"""CodecErrors: how far blocks are from what they were, over all blocks that were added."""

import numpy as np

KEYS, VALUES = 0, 1


class CodecErrors:
    def __init__(self):
        # By axis: K, V. The sums of squares of error and original, and their product.
        self._error, self._original, self._copy, self._product = np.zeros((4, 2))
        self._largest = np.zeros(2)
        self._by_plane = None  # Sums of [error, original], by layer and axis.

    def add(self, original, copy):
        """Adds blocks, which are [layer][K, V][token][head][dim] in float32."""
        x, y = original.astype(np.float64), copy.astype(np.float64)
        by_plane = np.stack([((y - x) ** 2).sum((2, 3, 4)), (x ** 2).sum((2, 3, 4))])
        self._by_plane = by_plane if self._by_plane is None else self._by_plane + by_plane
        self._error += by_plane[0].sum(0)
        self._original += by_plane[1].sum(0)
        self._copy += (y ** 2).sum((0, 2, 3, 4))
        self._product += (x * y).sum((0, 2, 3, 4))
        of_plane = np.abs(y - x).max((2, 3, 4)) / np.abs(x).max((2, 3, 4))
        self._largest = np.maximum(self._largest, of_plane.max(0))

    def relative_l2(self, axis):
        """Returns the relative L2 error, ||y - x|| / ||x||, of K or V."""
        return float(np.sqrt(self._error[axis] / self._original[axis]))

    def relative_l2_of_all(self):
        return float(np.sqrt(self._error.sum() / self._original.sum()))

    def worst_layer(self, axis):
        """Returns (relative L2 error, layer) of the layer that errs most."""
        by_layer = np.sqrt(self._by_plane[0, :, axis] / self._by_plane[1, :, axis])
        return float(by_layer.max()), int(by_layer.argmax())

    def largest(self, axis):
        """Returns the largest error of one element, as a fraction of the largest element of its plane."""
        return float(self._largest[axis])

    def one_minus_cosine(self):
        """Returns the cosine distance of all K and V as one vector."""
        norms = np.sqrt(self._original.sum() * self._copy.sum())
        return float(1 - self._product.sum() / norms)
