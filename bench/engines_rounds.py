"""Rounds of the bench: every arm is asked in turn, and beside it what its bytes cost without an engine."""

import random
import time
from dataclasses import dataclass, field

from engines_arm import Arm
from engines_fleet import BLOCKS, PROMPT_BYTES, PROMPT_TOKENS, Fleet
from engines_plain_client import Memory, PlainClient, PlainCopies

_QUIET_S = 1.5  # An engine's worker polls for a second after each answer, and takes a core from the next one.
_VOCABULARY = range(1000, 49000)  # Token ids that prompts are drawn from; none is a special token.


@dataclass
class Costs:
    """Seconds of what an arm is compared with, one value a round, or a sample."""

    memcpy: list[float] = field(default_factory=list)  # Seconds to copy a prompt's bytes in the engine's pieces.
    disk_path: list[float] = field(default_factory=list)  # Seconds of the plain client for as many bytes from the disk.
    peer_path: list[float] = field(default_factory=list)  # Seconds of the plain client for those from the peer.
    empty_step: list[float] = field(default_factory=list)  # Seconds of a step of the engine that computes nothing.


class Rounds:
    """All rounds of one run, with prompts that `seed` makes."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet, self._seed = fleet, seed
        self._cold, self._hits, self._unaligned = fleet.cold_arms(), fleet.hit_arms(), fleet.unaligned_arms()
        self._after_kill = fleet.after_kill_arm()
        self._copies = PlainCopies(BLOCKS)
        self._memory = Memory(PROMPT_BYTES)
        self._first = PlainClient(str(fleet.first.socket_dir)) if fleet.first else None
        self._second = PlainClient(str(fleet.second.socket_dir)) if fleet.second else None
        self._keys: list[bytes] = []
        self.costs = Costs(empty_step=fleet.empty_step)
        self.equal_texts = 0
        self.texts = 0
        self._begun = 0
        self.done = 0  # Rounds that count.

    @property
    def arms(self) -> list[Arm]:
        """Returns all arms, in the order of a table."""
        after_kill = [self._after_kill] if self._after_kill else []
        return [*self._cold[:1], *self._hits, *after_kill, *self._unaligned[1:], *self._cold[1:], *self._unaligned[:1]]

    def run(self, counts: bool = True) -> None:
        """Runs a round, whose values count or not. Raises RuntimeError if an arm never
        had an answer from its source; no value of the round counts then."""
        self._begun += 1
        try:
            self._run(self._begun, counts)
        except BaseException:
            self._forget_from(self.done)
            raise
        self.done += counts

    def _run(self, number: int, counts: bool) -> None:
        prompt = self._prompt(2 * number)
        self._compute(prompt, number, counts)
        if self._unaligned:
            shorter = self._prompt(2 * number + 1)
            for arm in self._unaligned:
                time.sleep(_QUIET_S)
                arm.ask(shorter, counts)
        for arm in self._turned(self._hits, number):
            time.sleep(_QUIET_S)
            self._measure_beside(arm, counts)
            arm.ask(prompt, counts)
        if self._after_kill is not None:
            time.sleep(_QUIET_S)
            self._after_kill.ask(prompt, counts)
        if counts:
            self._compare_texts()

    def close(self) -> None:
        """Hangs up."""
        for client in (self._first, self._second):
            if client is not None:
                client.close()

    def _forget_from(self, round_number: int) -> None:
        """Drops what was noted in this round and after it."""
        for arm in self.arms:
            del arm.seconds[round_number:], arm.texts[round_number:]
        for values in (self.costs.memcpy, self.costs.disk_path, self.costs.peer_path):
            del values[round_number:]

    def _compute(self, prompt: list[int], number: int, counts: bool) -> None:
        """Has all engines compute the prompt, and waits until kvtier has it in both tiers and tells of it."""
        node = self._fleet.first
        before = node.tier("host")["inserts"] if node is not None else 0
        for arm in self._turned(self._cold, number):
            arm.ask(prompt, counts)
        if node is None:
            return
        node.await_blocks(before + BLOCKS)
        self._keys = [b"plain%08d%08d" % (number, i) for i in range(BLOCKS)]
        self._first.put(self._keys, self._memory)
        node.await_blocks(before + 2 * BLOCKS)
        if self._second is not None:
            self._second.await_located(self._keys)

    def _measure_beside(self, arm: Arm, counts: bool) -> None:
        """Measures what the arm's bytes cost without an engine, just before it is asked."""
        if arm.name == "disk":
            self._fleet.first.empty_host_memory()
            self._note(self.costs.disk_path, self._first.onboard_seconds(self._keys), counts)
        elif arm.name == "peer":
            self._fleet.second.empty_host_memory()
            self._note(self.costs.peer_path, self._second.onboard_seconds(self._keys), counts)
        elif arm.name == "host":
            self._note(self.costs.memcpy, self._copies.load_seconds(), counts)

    def _compare_texts(self) -> None:
        whole = [*self._cold, *self._hits, *([self._after_kill] if self._after_kill else [])]
        expected = next(arm for arm in whole if arm.name == "floor").texts[-1]
        self.texts += len(whole)
        self.equal_texts += sum(arm.texts[-1] == expected for arm in whole)

    def _prompt(self, number: int) -> list[int]:
        return random.Random(f"{self._seed} {number}").choices(_VOCABULARY, k=PROMPT_TOKENS)

    @staticmethod
    def _note(values: list[float], value: float, counts: bool) -> None:
        if counts:
            values.append(value)

    @staticmethod
    def _turned(arms: list[Arm], number: int) -> list[Arm]:
        """Returns the arms, each round beginning with another one."""
        at = number % len(arms)
        return arms[at:] + arms[:at]
