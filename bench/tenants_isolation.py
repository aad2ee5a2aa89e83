"""Whether a tenant can tell another one's blocks from nobody's: by answers, by counters, or by how long they take.

A worker asks by every call for keys of four kinds, in an order that is drawn: another tenant's; nobody's; nobody's
once more; and nobody's with 5 us more, which a loop in this program waits inside the time that is taken. For each call
a two-sample Kolmogorov-Smirnov test compares the times of each kind with nobody's, at 1 % over all calls (Bonferroni).
Another's and nobody's must pass, and the 5 us must be found, or the test could not see a leak.
"""

import gc
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import kvtier
from engines_medians import percentile_of, print_figure
from kolmogorov_smirnov import two_sample_p
from tenants_worker import TIMEOUT_S, Worker, keys_of, tenants_node

_OWNER, _ASKER = "owner", "asker"
_HOST_BYTES, _DISK_BYTES = "256MiB", "1GiB"
_GROUP = 512  # Blocks of the owner in each state.
_GROUPS = ("host", "disk", "kept", "ticketed", "leased", "reserved")
_TTL_S = 3600
_SECONDS_OF_TICKET = 60
_PLANTED_NS = 5000
_ALPHA = 0.01  # Significance level, for all calls together.
ENOUGH = 5000  # Least number of samples of each kind with which the planted leak must be found.
_THEIRS, _NOBODYS, _AGAIN, _PLANTED = range(4)
_WARM = 200
_SEED = 18

Answer = object
Ask = Callable[[int, int], Answer]  # Makes a call for the key of a kind and a number.


@dataclass
class _Seen:
    """The answers of one call and the times that it took, in microseconds, by kind."""

    times: list[list[float]] = field(default_factory=lambda: [[] for _ in range(4)])
    answers: list[set[str]] = field(default_factory=lambda: [set() for _ in range(4)])

    def p_of(self, kind: int) -> float:
        """Returns the p-value of a kind's times beside nobody's."""
        return two_sample_p(self.times[kind], self.times[_NOBODYS])

    def tells(self) -> bool:
        """Returns whether an answer differed."""
        return self.answers[_THEIRS] != self.answers[_NOBODYS] or len(self.answers[_NOBODYS]) > 1


class _Owner:
    """The other tenant: blocks in every state that a block may be in, held until it goes."""

    def __init__(self, node, socket_dir: str) -> None:
        self._worker = Worker(socket_dir, _OWNER, 0)
        self.keys = {group: keys_of(f"{group:9.9}".replace(" ", "_"), 0, _GROUP) for group in _GROUPS}
        self._put("disk")
        node.await_on_disk(_GROUP)
        node.empty_host_memory()
        for group in ("host", "kept", "ticketed", "leased"):
            self._put(group)
        client, space = self._worker.client, self._worker.space
        self.kept_id = client.keep([kvtier.Sequence(space, self.keys["kept"])], _TTL_S).id
        self._reserved: kvtier.Put | None = None
        self.renew()

    def renew(self) -> None:
        """Renews the leases, the reservations and the ticket, which end before the bench does."""
        client, space = self._worker.client, self._worker.space
        if self._reserved is not None:
            self._reserved.release()
        self._reserved = client.reserve(space, self.keys["reserved"])
        self._leased = client.onboard(space, self.keys["leased"])
        sequence = kvtier.Sequence(space, self.keys["ticketed"])
        self.ticket = client.take_ticket([sequence], redemptions=64, lifetime_s=_SECONDS_OF_TICKET).id
        if self.ticket is None or self.kept_id is None or not len(self._leased):
            raise RuntimeError("the owner's blocks are not there")

    def _put(self, group: str) -> None:
        self._worker.put_run(self.keys[group], _GROUP)

    def close(self) -> None:
        """Closes the client."""
        self._worker.client.close()

    def here(self) -> dict[str, int]:
        """Returns how many blocks of each group are on the node."""
        return {group: self._worker.client.match(self._worker.space, keys, TIMEOUT_S, local_only=True).local_blocks
                for group, keys in self.keys.items()}


class _Asker:
    """The tenant that asks: keys by kind, and each call as a function that says all that its answer has."""

    def __init__(self, socket_dir: str, owner: _Owner) -> None:
        self._worker = Worker(socket_dir, _ASKER, 64)
        self._worker.put_all()
        self.client, self._space, self._owner = self._worker.client, self._worker.space, owner
        theirs = [key for keys in owner.keys.values() for key in keys]
        # A list for each kind: a key that was asked for a moment ago is still in the caches.
        self._keys = (theirs, *(keys_of(name, 0, len(theirs)) for name in ("nobodys__", "nobodys2_", "nobodys3_")))
        self.count = len(theirs)

    def _key(self, kind: int, number: int) -> list[bytes]:
        return [self._keys[kind][number]]

    def _sequences(self, kind: int, number: int) -> list[kvtier.Sequence]:
        return [kvtier.Sequence(self._space, self._key(kind, number))]

    def calls(self) -> dict[str, Ask]:
        """Returns every call that names blocks, tickets or ids, by name."""
        client, space, at = self.client, self._space, self._sequences
        return {
            "match": lambda kind, n: client.match(space, self._key(kind, n), TIMEOUT_S, local_only=True),
            "onboard": lambda kind, n: self._onboard(kind, n),
            "onboard_parts": lambda kind, n: client.submit_onboard_parts(at(kind, n), TIMEOUT_S).result(TIMEOUT_S),
            "take_ticket": lambda kind, n: client.take_ticket(at(kind, n), TIMEOUT_S),
            "redeem": lambda kind, n: self._redeem(kind, n),
            "prefetch": lambda kind, n: client.prefetch(space, self._key(kind, n), TIMEOUT_S, local_only=True),
            "reserve": lambda kind, n: self._reserve(kind, n),
            "advise": lambda kind, n: client.advise(at(kind, n), TIMEOUT_S),
            "keep": lambda kind, n: client.keep(at(kind, n), _TTL_S, TIMEOUT_S),
            "end_kept": lambda kind, n: client.end_kept(
                self._owner.kept_id if kind == _THEIRS else (1 << 40) + n, TIMEOUT_S),
            "list_kept": lambda kind, n: client.list_kept(TIMEOUT_S),
            "delete": lambda kind, n: client.delete(at(kind, n), TIMEOUT_S),
            "drop_prefix": lambda kind, n: client.drop_prefix(at(kind, n), TIMEOUT_S),
            "residences": lambda kind, n: client.residences(space, self._key(kind, n)),
            "resident_run": lambda kind, n: client.resident_run(space, self._key(kind, n))}

    def _onboard(self, kind: int, number: int) -> Answer:
        with self.client.onboard(self._space, self._key(kind, number), TIMEOUT_S, local_only=True) as hit:
            return len(hit), hit.missed

    def _redeem(self, kind: int, number: int) -> Answer:
        ticket = self._owner.ticket if kind == _THEIRS else number.to_bytes(16, "little")
        return [(len(hit), hit.missed) for hit in self.client.redeem(ticket, 0, [self._space], TIMEOUT_S)]

    def _reserve(self, kind: int, number: int) -> Answer:
        with self.client.reserve(self._space, self._key(kind, number), timeout_s=TIMEOUT_S) as put:
            return put.states

    def counters(self) -> dict:
        """Returns what the client counted, without how long things took."""
        return {name: value for name, value in self.client.stats().items() if name != "latencies"}


def _grown(before: dict, after: dict) -> str:
    """Returns by how much counters grew, nested ones included."""
    return repr({name: (_grown(before[name], value) if isinstance(value, dict) else
                        value - before[name] if isinstance(value, int) else value)
                 for name, value in after.items()})


def _wait_until(end_ns: int) -> None:
    while time.perf_counter_ns() < end_ns:
        pass


def _sample(ask: Ask, count: int, samples: int, draws: random.Random) -> _Seen:
    """Asks for keys of the four kinds, in an order that is drawn, `samples` of each."""
    seen = _Seen()
    kinds = [_THEIRS, _NOBODYS, _AGAIN, _PLANTED]
    numbers = list(range(count))
    draws.shuffle(numbers)  # No number comes twice in a row: what was reserved before is given back in the background.
    for turn in range(-_WARM, samples):
        number = numbers[turn % count]
        draws.shuffle(kinds)
        for kind in kinds:
            began = time.perf_counter_ns()
            if kind == _PLANTED:
                _wait_until(began + _PLANTED_NS)
            answer = ask(kind, number)
            took = time.perf_counter_ns() - began
            if turn >= 0:
                seen.times[kind].append(took / 1e3)
                seen.answers[kind].add(repr(answer))
    return seen


def _counters_tell(asker: _Asker, ask: Ask, draws: random.Random) -> bool:
    """Returns whether counters of the client grow otherwise by another's blocks than by nobody's."""
    grown = []
    numbers = draws.sample(range(asker.count), _WARM)
    for kind in (_THEIRS, _NOBODYS):
        before = asker.counters()
        for number in numbers:
            ask(kind, number)
        grown.append(_grown(before, asker.counters()))
    return grown[0] != grown[1]


def measure_isolation(samples: int) -> bool:
    """Prints a line for each call and returns whether nothing tells another's blocks from nobody's."""
    draws = random.Random(_SEED)
    told, timed = [], []
    least = {_THEIRS: 1.0, _AGAIN: 1.0}
    found = 0
    with tenants_node("isolation", (_OWNER, _ASKER), _HOST_BYTES, _DISK_BYTES) as node:
        owner = _Owner(node, str(node.socket_dir))
        before = owner.here()
        asker = _Asker(str(node.socket_dir), owner)
        calls = asker.calls()
        limit = _ALPHA / len(calls)
        print(f"{samples} lookups of each kind by each of {len(calls)} calls, in an order that is drawn; a p-value "
              f"below {limit:.2g} tells")
        print("call             p50 us   another's    nobody's   5 us more")
        gc.disable()
        for name, ask in calls.items():
            owner.renew()
            seen = _sample(ask, asker.count, samples, draws)
            p = {kind: seen.p_of(kind) for kind in (_THEIRS, _AGAIN, _PLANTED)}
            print(f"{name:<14}{percentile_of(seen.times[_NOBODYS], 0.5):>9.1f}"
                  + "".join(f"{p[kind]:>12.2g}" for kind in p), flush=True)
            least = {kind: min(least[kind], p[kind]) for kind in least}
            found += p[_PLANTED] < limit
            if seen.tells() or _counters_tell(asker, ask, draws):
                told.append(name)
            if min(p[_THEIRS], p[_AGAIN]) < limit:
                timed.append(name)
            gc.collect()
        gc.enable()
        after = owner.here()
        asker.client.close()
        owner.close()
    for name, kind in (("anothers", _THEIRS), ("nobodys", _AGAIN)):
        print_figure(f"tenants.isolation.least_p_of_{name}", least[kind], "p", least[kind] / limit, "limit")
    print_figure("tenants.isolation.planted_found", found, "calls", found / len(calls), "all_calls")
    holds = not told and not timed and before == after
    if samples >= ENOUGH:
        holds = holds and found == len(calls)
    print(f"isolation: {'holds' if holds else 'FAILS'}: calls that tell by answers or counters: {told or 'none'}, by "
          f"times: {timed or 'none'}; 5 us more found in {found} of {len(calls)} calls (in all, from {ENOUGH} lookups "
          f"on); the owner's blocks are {'as before' if before == after else f'{after} of {before}'}")
    return holds
