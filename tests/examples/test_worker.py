import io
import json
import unittest
from types import SimpleNamespace

import example_model
from example_model import needs_model, needs_numpy


@needs_model
class ServeTest(unittest.TestCase):
    def serve(self, *lines):
        import worker
        from smollm.answering import Answerer

        answerer = Answerer(*example_model.loaded())
        options, out = SimpleNamespace(write_digests=None), io.StringIO()
        worker.serve(answerer, None, options, lines, out)
        return [json.loads(line) for line in out.getvalue().splitlines()]

    def test_request_is_answered_under_its_id(self):
        request = {"id": 7, "prompt": "The sky is green today.", "max_tokens": 4,
                   "question": "What colour is the sky?"}
        (answer,) = self.serve(json.dumps(request))
        self.assertEqual((answer["id"], answer["tokens_reused"]), (7, 0))
        self.assertLessEqual(len(answer["output_tokens"]), 4)
        self.assertGreater(answer["ttft_s"], 0)
        for name in ("blocks_reused", "bytes_moved", "total_s", "text", "blocks_verified",
                     "wrong_blocks", "match"):
            self.assertIn(name, answer)

    def test_bad_request_is_answered_with_its_error_and_serving_goes_on(self):
        answers = self.serve("not json", "[1]", '{"id": 1}', "\n",
                             '{"id": 2, "prompt_file": "/nonexistent", "question": "?"}',
                             '{"id": 3, "prompt": "' + "word " * 2000 + '", "question": "?"}')
        self.assertEqual([answer["id"] for answer in answers], [None, None, 1, 2, 3])
        self.assertTrue(all("error" in answer for answer in answers))
        self.assertIn("PromptTooLong", answers[-1]["error"])


@needs_numpy
class ArgumentsTest(unittest.TestCase):
    def test_question_and_document_are_needed_without_serve(self):
        import contextlib
        import importlib.util

        if importlib.util.find_spec("gguf") is None:
            self.skipTest("NOT TESTED: gguf is not installed")
        import worker

        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            worker.parse_arguments(["--question", "Who?"])
        options = worker.parse_arguments(["--serve"])
        self.assertEqual((options.timeout_s, options.max_tokens), (2.0, 32))
        self.assertEqual(options.kv_codec, "raw")
        for bad in (["--kv-codec", "zip"], ["--kv-codec", "int8", "--verify"]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                worker.parse_arguments(["--serve", *bad])


if __name__ == "__main__":
    unittest.main()
