"""Completions over HTTP, streamed: when the first token comes, and what was reused for it."""

import contextlib
import http.client
import json
import time
from dataclasses import dataclass

_TIMEOUT_S = 300


@dataclass(frozen=True)
class Streamed:
    """One streamed completion."""

    first_s: float  # From the request's first byte until the first token's text is here, in seconds.
    text: str
    cached_tokens: int  # Tokens of the prompt that the engine says it did not compute.


class Stream:
    """An engine's port. Each request has a connection of its own, because an idle one is hung up after seconds."""

    def __init__(self, port: int) -> None:
        self._port = port

    def complete(self, prompt: list[int], tokens: int, parameters: dict | None = None) -> Streamed:
        """Returns the engine's completion of the token ids of `prompt`, at temperature 0."""
        body = {"model": "smollm2", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                "stream": True, "stream_options": {"include_usage": True}}
        if parameters is not None:
            body["kv_transfer_params"] = parameters
        payload = json.dumps(body)
        with contextlib.closing(self._connection()) as connection:
            began = time.monotonic()
            connection.request("POST", "/v1/completions", payload, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            first_s, text, cached = None, "", None
            for line in answer:
                now = time.monotonic()
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[len(b"data: "):])
                if event.get("choices"):
                    first_s = now - began if first_s is None else first_s
                    text += event["choices"][0]["text"]
                elif event.get("usage"):
                    cached = (event["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        if answer.status != 200 or first_s is None or cached is None:
            raise RuntimeError(f"the engine answered {answer.status} and no whole stream")
        return Streamed(first_s, text, cached)

    def post(self, path: str) -> None:
        """Posts an empty request, and waits for its answer. RuntimeError: it was refused."""
        with contextlib.closing(self._connection()) as connection:
            connection.request("POST", path, "{}", {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: the engine answered {answer.status}")

    def _connection(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
        connection.connect()
        return connection
