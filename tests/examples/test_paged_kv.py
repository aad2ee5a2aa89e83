import unittest
from types import SimpleNamespace

from example_model import needs_numpy

SHAPE = SimpleNamespace(layers=2, kv_heads=3, head_dim=4)


@needs_numpy
class PagedKvTest(unittest.TestCase):
    def setUp(self):
        import numpy
        from smollm.paged_kv import PagedKv

        self.numpy = numpy
        self.kv = PagedKv(SHAPE, slots=8)

    def random_block(self, seed):
        random = self.numpy.random.default_rng(seed)
        return random.standard_normal((2, 2, 16, 3, 4), self.numpy.float32)

    def scattered_table(self):
        """Returns a table whose slots are not consecutive."""
        tables = [self.kv.allocate(1) for _ in range(8)]
        for index in (1, 4, 6):
            self.kv.free(tables[index])
        return self.kv.allocate(3)

    def test_block_bytes_of_the_example_model(self):
        from smollm.paged_kv import PagedKv

        model = SimpleNamespace(layers=30, kv_heads=3, head_dim=64)
        self.assertEqual(PagedKv(model, slots=1).block_bytes, 737280)

    def test_exported_block_is_the_imported_one(self):
        table, run = self.kv.allocate(3), bytearray(self.kv.block_bytes)
        self.kv.import_block(table, 1, self.random_block(1).tobytes())
        self.kv.export_block(table, 1, run)
        self.assertEqual(bytes(run), self.random_block(1).tobytes())

    def test_stored_tokens_are_exported_in_block_order(self):
        table, block = self.kv.allocate(2), self.random_block(2)
        for layer in range(2):
            self.kv.store(layer, table, 16, block[layer])
        run = bytearray(self.kv.block_bytes)
        self.kv.export_block(table, 1, run)
        self.assertEqual(bytes(run), block.tobytes())

    def test_tile_reads_the_same_through_consecutive_and_scattered_slots(self):
        for table in (self.kv.allocate(3), self.scattered_table):
            if callable(table):
                self.setUp()
                table = table()
            self.assertEqual(table.consecutive, table.slots[2] - table.slots[0] == 2)
            for block in range(3):
                self.kv.import_block(table, block, self.random_block(block).tobytes())
            tile = self.kv.tile(1, 0, table, 1, 2)
            expected = [self.random_block(block)[1, 0] for block in (1, 2)]
            self.assertTrue(self.numpy.array_equal(tile, self.numpy.concatenate(expected)))

    def test_full_pool_refuses_and_freed_slots_return(self):
        from smollm.paged_kv import PoolFull

        table = self.kv.allocate(7)
        with self.assertRaises(PoolFull):
            self.kv.allocate(2)
        self.kv.free(table)
        self.assertEqual(self.kv.free_slots, 8)


if __name__ == "__main__":
    unittest.main()
