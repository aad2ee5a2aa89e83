"""Onboards in parts of the kvtier package against a FakeAgent, as test_python_client.py."""

import os
import threading
import unittest

import kvtier
from kvtier import Arrived, Sequence
from test_python_client import WithAgent, eventually, make_keys


class Parts(WithAgent):
    """The fake agent hands over two blocks of a sequence at a time."""

    def setUp(self):
        super().setUp()
        self.put(make_keys(0, 5))

    def submit(self, count=5, is_set=False, **options):
        options.setdefault("timeout_s", 20)
        return self.client.submit_onboard_parts(
            [Sequence(self.space, make_keys(0, count), is_set=is_set)], **options)

    def test_parts_are_iterated_as_they_come(self):
        call = self.submit(count=6)
        places = []
        for part in call:
            self.assertEqual(part.sequence, 0)
            self.assertIsNone(part.hit.missed)
            places += [part.hit.index(i) for i in range(len(part.hit))]
            self.assertTrue(part.hit.valid())
        self.assertEqual(places, [0, 1, 2, 3, 4])
        self.assertTrue(call.done())
        self.assertEqual(call.result(0), [Arrived(5, "absent")])
        self.assertIsNone(call.next_part(0))

    def test_a_part_is_there_while_the_rest_is_waited_for(self):
        self.agent("hang parts")
        call = self.submit()
        with call.next_part(10).hit as hit:
            self.assertEqual(len(hit), 2)
            self.assertTrue(hit.valid())
        self.assertFalse(call.done())
        self.assertRaises(TimeoutError, call.next_part, 0)
        self.assertRaises(TimeoutError, call.result, 0.001)
        self.assertRaisesRegex(ValueError, "timeout_s is -1", call.next_part, -1)
        self.agent("resume")
        self.assertEqual([len(part.hit) for part in call], [2, 1])
        self.assertEqual(call.result(), [Arrived(5, None)])

    def test_a_callback_gets_each_part_and_what_it_raises_is_logged(self):
        parts, threads = [], set()

        def on_part(part):
            threads.add(threading.get_ident())
            parts.append(part)
            if len(parts) == 1:
                raise KeyError("the first")

        with self.assertLogs("kvtier", "ERROR") as logged:
            call = self.submit(is_set=True, on_part=on_part)
            self.assertEqual(call.result(10), [Arrived(5, None)])
        self.assertIn("KeyError", logged.output[0])
        self.assertEqual([len(part.hit) for part in parts], [2, 2, 1])
        self.assertNotIn(threading.get_ident(), threads)
        self.assertEqual(list(call), [])

    def test_parts_that_nobody_takes_are_given_back(self):
        call = self.submit()
        call.result(10)
        self.assertEqual(self.agent("leases"), "5")
        del call
        self.assertTrue(eventually(lambda: self.agent("leases") == "0"))

    def test_a_callback_may_close_the_client(self):
        self.agent("hang parts")
        call = self.submit(on_part=lambda part: self.client.close())
        self.assertEqual(call.result(10), [Arrived(2, "unreachable")])

    def test_closing_the_client_ends_it(self):
        self.agent("hang parts")
        call = self.submit()
        self.assertEqual(len(call.next_part(10).hit), 2)
        self.client.close()
        self.assertEqual(call.result(0), [Arrived(2, "unreachable")])
        self.assertEqual(list(call), [])

    def test_without_an_agent_there_is_no_part(self):
        self.agent("kill")
        self.assertTrue(eventually(lambda: not self.client.connected))
        call = self.submit()
        self.assertEqual(list(call), [])
        self.assertEqual(call.result(), [Arrived(0, "unreachable")])

    def test_what_cannot_be_asked_is_a_value_error(self):
        with self.assertRaisesRegex(ValueError, "timeout"):
            self.submit(timeout_s=-1)
        with self.assertRaises(ValueError):
            self.client.submit_onboard_parts([])

    def test_in_a_forked_child_the_parts_never_come(self):
        self.agent("hang parts")
        call = self.submit()
        self.assertIsInstance(call.next_part(10), kvtier.Part)
        child = os.fork()
        if child == 0:
            try:
                call.next_part(10)
            except RuntimeError:
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.agent("resume")
        self.assertEqual(call.result(10), [Arrived(5, None)])


if __name__ == "__main__":
    unittest.main()
