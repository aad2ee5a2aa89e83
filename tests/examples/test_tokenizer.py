import unittest

import example_model
from example_model import needs_model


@needs_model
class TokenizerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tokenizer = example_model.loaded()[1]

    def test_text_survives_the_round_trip(self):
        for text in ("Hello, world", "  two  spaces\n\n\tand tabs ", "naïve — 日本語 🙂", "a\x00b",
                     "In 2024 it's 3.14159", example_model.document()):
            self.assertEqual(self.tokenizer.decode(self.tokenizer.encode(text)), text)

    def test_digits_are_tokens_of_their_own(self):
        self.assertEqual(len(self.tokenizer.encode("20241")), 5)

    def test_template_words_become_control_tokens(self):
        self.assertEqual(self.tokenizer.encode("<|im_start|><|im_end|>"), [1, 2])
        self.assertEqual(self.tokenizer.end_token, 2)

    def test_prefix_of_a_prompt_does_not_depend_on_the_question(self):
        first = self.tokenizer.chat_prompt("A document.", "What is it?")
        second = self.tokenizer.chat_prompt("A document.", "(Who wrote it, and when?)")
        self.assertEqual(first.prefix, second.prefix)
        self.assertNotEqual(first.suffix, second.suffix)

    def test_prefix_tokens_cut_the_document_and_keep_the_question(self):
        whole = self.tokenizer.chat_prompt(example_model.document(), "Why?")
        cut = self.tokenizer.chat_prompt(example_model.document(), "Why?", 100)
        self.assertEqual(cut.tokens, whole.prefix[:100] + whole.suffix)


if __name__ == "__main__":
    unittest.main()
