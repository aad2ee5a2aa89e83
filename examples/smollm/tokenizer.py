"""Tokenizer: byte-level BPE rebuilt from the vocabulary inside a GGUF file, and the chat prompt.

Digits are split one by one before the byte-level step, as the `smollm` pre-tokenizer does.
"""

from dataclasses import dataclass

from tokenizers import AddedToken, Tokenizer as BpeTokenizer, decoders, models, pre_tokenizers

_CONTROL = 3  # GGUF token type of control tokens, which only the template produces, never text.
_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


@dataclass(frozen=True)
class Prompt:
    """One question about one document, as tokens. `prefix` holds nothing of the question."""

    prefix: list  # The system turn, the opening of the user turn, the document.
    suffix: list  # The question, the end of the user turn, the opening of the answer.

    @property
    def tokens(self):
        return self.prefix + self.suffix


class Tokenizer:
    """Text to token ids and back. Immutable after construction."""

    def __init__(self, metadata):
        """Raises ValueError unless `metadata` (of a GgufFile) describes a byte-level BPE."""
        kind = metadata.get("tokenizer.ggml.model")
        if kind != "gpt2":
            raise ValueError(f"tokenizer {kind!r}: this example knows byte-level BPE (gpt2) only")
        pieces = metadata["tokenizer.ggml.tokens"]
        merges = [tuple(pair.split(" ")) for pair in metadata["tokenizer.ggml.merges"]]
        self._bpe = BpeTokenizer(models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)}, merges=merges))
        self._bpe.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
        self._bpe.decoder = decoders.ByteLevel()
        self._bpe.add_special_tokens([
            AddedToken(piece, special=True, normalized=False)
            for piece, kind in zip(pieces, metadata["tokenizer.ggml.token_type"])
            if kind == _CONTROL])
        self.end_token = metadata["tokenizer.ggml.eos_token_id"]

    def encode(self, text):
        """Returns the token ids of `text`. Control words spelled out in `text` become control tokens."""
        return self._bpe.encode(text, add_special_tokens=False).ids

    def decode(self, tokens):
        """Returns the text of `tokens`, without the control tokens."""
        return self._bpe.decode(list(tokens), skip_special_tokens=True)

    def chat_prompt(self, document, question, prefix_tokens=None):
        """Returns the chat turn that asks `question` about `document`; the document comes first.

        Document and question are tokenised apart, so the prefix is the same tokens whatever is
        asked. `prefix_tokens` cuts the prefix to that many tokens.
        """
        prefix = self.encode(f"<|im_start|>system\n{_SYSTEM}<|im_end|>\n"
                             f"<|im_start|>user\n{document}")
        suffix = self.encode(f"\n\nQuestion: {question}<|im_end|>\n<|im_start|>assistant\n")
        return Prompt(prefix[:prefix_tokens], suffix)
