"""Blocks as DLPack tensors and mapped memory, against a FakeAgent as test_python_client.py.

The consumer is this test, by ctypes: what numpy and torch read, whichever of them is at hand.
"""

import ctypes
import gc
import unittest

from test_python_client import BLOCK_BYTES, WithAgent, eventually, make_keys

HOST = (1, 0)
READ_ONLY = 1


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("dimensions", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    pass


Managed._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p),
                    ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed)))]


class Versioned(ctypes.Structure):
    pass


Versioned._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                      ("context", ctypes.c_void_p),
                      ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))),
                      ("flags", ctypes.c_uint64), ("tensor", Tensor)]

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = [ctypes.py_object, ctypes.c_char_p]


def take(exporter, versioned):
    """Consumes a tensor as a library does; the caller calls the deleter."""
    if versioned:
        capsule = exporter.__dlpack__(max_version=(1, 1))
        kind, name, used = Versioned, b"dltensor_versioned", b"used_dltensor_versioned"
    else:
        capsule = exporter.__dlpack__()
        kind, name, used = Managed, b"dltensor", b"used_dltensor"
    managed = ctypes.cast(_pointer(capsule, name), ctypes.POINTER(kind))
    take.names.append(ctypes.c_char_p(used))  # The capsule does not copy its name.
    _rename(capsule, take.names[-1])
    return managed


take.names = []


class Dlpack(WithAgent):
    def read(self, tensor):
        self.assertEqual((tensor.device_type, tensor.device_id), HOST)
        self.assertEqual((tensor.dimensions, tensor.code, tensor.bits, tensor.lanes), (1, 1, 8, 1))
        self.assertEqual((tensor.shape[0], tensor.strides[0], tensor.byte_offset),
                         (BLOCK_BYTES, 1, 0))
        return ctypes.string_at(tensor.data, BLOCK_BYTES)

    def test_a_slot_is_written_by_either_version(self):
        for i, versioned in enumerate((False, True)):
            keys = make_keys(i, 1)
            with self.client.reserve(self.space, keys) as put:
                exporter = put.dlpack(0)
                self.assertEqual(exporter.__dlpack_device__(), HOST)
                managed = take(exporter, versioned)
                tensor = managed.contents.tensor
                self.read(tensor)
                ctypes.memset(tensor.data, 65 + i, BLOCK_BYTES)
                managed.contents.deleter(managed)
                self.assertEqual(put.commit(), 1)
            with self.client.onboard(self.space, keys) as hit:
                self.assertEqual(bytes(hit[0]), bytes([65 + i]) * BLOCK_BYTES)

    def test_a_leased_block_is_read_only_and_outlives_the_hit(self):
        self.put(make_keys(0, 1))
        with self.client.onboard(self.space, make_keys(0, 1)) as hit:
            expected = bytes(hit[0])
            managed = take(hit.dlpack(0), versioned=True)
            self.assertEqual((managed.contents.major, managed.contents.flags), (1, READ_ONLY))
            self.assertEqual(self.read(managed.contents.tensor), expected)
            with self.assertRaisesRegex(BufferError, "read-only"):
                hit.dlpack(0).__dlpack__()
        self.client.close()
        gc.collect()
        self.assertEqual(len(self.read(managed.contents.tensor)), BLOCK_BYTES)  # Still mapped.
        managed.contents.deleter(managed)

    def test_what_nobody_takes_is_dropped(self):
        with self.client.reserve(self.space, make_keys(0, 1)) as put:
            for _ in range(100):
                put.dlpack(0).__dlpack__()
                put.dlpack(0).__dlpack__(max_version=(1, 0), dl_device=HOST, copy=False)

    def test_what_cannot_be_is_refused(self):
        with self.client.reserve(self.space, make_keys(0, 2)) as put:
            for asked, text in (({"stream": 1}, "stream"), ({"dl_device": (2, 0)}, "dl_device"),
                                ({"copy": True}, "copy")):
                with self.assertRaisesRegex(BufferError, text):
                    put.dlpack(0).__dlpack__(**asked)
            self.assertRaises(IndexError, put.dlpack, 2)
            put.give_back(0)
            self.assertIsNone(put.dlpack(0))
            put.release()
            self.assertIsNone(put.dlpack(1))
        with self.client.onboard(self.space, make_keys(9, 1)) as hit:
            self.assertRaises(IndexError, hit.dlpack, 0)


class Memory(WithAgent):
    def test_hits_lie_in_what_is_read_and_slots_in_what_is_written(self):
        with self.client.reserve(self.space, make_keys(0, 1)) as put:
            memory = self.client.host_memory()
            self.assertFalse(memory.is_staged)
            self.assertTrue(memory.read.readonly and not memory.write.readonly)
            self.assertEqual(len(memory.read), len(memory.write))
            put[0][:] = bytes(range(250)) * (BLOCK_BYTES // 250)
            at = bytes(memory.write).find(bytes(range(250)))
            self.assertGreaterEqual(at, 0)
            self.assertEqual(put.commit(), 1)
        self.assertEqual(bytes(memory.read[at:at + 250]), bytes(range(250)))
        self.agent("kill")
        self.assertTrue(eventually(lambda: self.client.host_memory() is None))
        self.assertEqual(bytes(memory.read[at:at + 250]), bytes(range(250)))  # Still mapped.


if __name__ == "__main__":
    unittest.main()
