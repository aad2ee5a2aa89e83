"""The worker's client."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Iterable, Sequence as SequenceOf
from typing import TYPE_CHECKING, Any

from . import _kvtier
from .arguments import listed, typed
from .blocks import Hit, HostMemory, Put
from .calls import Call, Part, PartsCall
from .kept import Dropped, Kept, KeptList, KeptPrefix, KeptUse
from .paged_kv import PagedKv
from .sequences import Arrived, Match, PutCounts, Sequence, Ticket
from .space import Limits, Space, SpaceSpec

if TYPE_CHECKING:
    from typing_extensions import Buffer

_open_clients: weakref.WeakSet[Client] = weakref.WeakSet()


# Clients are closed before the interpreter ends, since the ends of submitted calls need it.
@atexit.register
def _close_all() -> None:
    for client in list(_open_clients):
        client.close()
    _kvtier.await_endings()


def _natives(sequences: Iterable[Sequence]) -> list[_kvtier._Sequence]:
    return [typed(f"sequences[{place}]", sequence, Sequence)._native()
            for place, sequence in enumerate(listed("sequences", sequences))]


def _handles(spaces: Iterable[Space]) -> list[int]:
    return [_handle(space, f"spaces[{place}]") for place, space in enumerate(listed("spaces", spaces))]


def _handle(space: Space, name: str = "space") -> int:
    return typed(name, space, Space)._handle


def _hits(natives: Iterable[_kvtier.Hit]) -> list[Hit]:
    return [Hit(native) for native in natives]


def _matches(natives: Iterable[_kvtier._Match]) -> list[Match]:
    return [Match(*native) for native in natives]


class Client:
    """One worker's client of its node's agent. Thread-safe; the GIL is released in every wait.

    `keys` are engine keys, 8..64 bytes each, in prefix order, 8192 at most. `sequences` are 1 to 256
    runs and sets, with 8192 keys together, in one call. A ValueError names the argument that is not
    valid, and a TypeError the one that is of another type.

    A `timeout_s` of None means the client's own. A call never takes longer than its timeout, 60 s at
    most, and returns at once without an agent. With 0 the call waits for no block, disk or node: it
    returns what is here now, and the agent has 20 ms to answer. A timeout that is negative, infinite
    or no number is a ValueError.
    """

    def __init__(self, socket_dir: str = "/run/kvtier", tenant: str = "default",
                 tenant_secret: bytes = b"", timeout_s: float = 2.0,
                 connect_timeout_s: float = 1.0, group: str = "") -> None:
        """Waits for the first try to connect, and never raises because there is no agent.

        Raises ValueError for an option that is not valid. An empty secret is the open tenant's. With a
        `group` the client works on the blocks of that share group, of which the tenant is a member:
        it reads them, and stores blocks there if it may write; otherwise its puts store nothing.
        """
        self._native = _kvtier.Client(socket_dir, tenant, tenant_secret, timeout_s,
                                      connect_timeout_s, group)
        _open_clients.add(self)

    def register_space(self, spec: SpaceSpec, timeout_s: float | None = None) -> Space:
        """Registers a space; works without an agent. Raises ValueError naming field and value.

        Waits for the agent to take it. With a timeout of 0 it never waits: the agent is told in the
        background, and calls made before it knows the space are misses.
        """
        return Space(spec, self._native.register_space(typed("spec", spec, SpaceSpec)._native(), timeout_s))

    def unregister_space(self, space: Space) -> None:
        """Forgets a space, which makes room for another. Never waits.

        Other parts of the program that registered the same spec lose it, too. Hits and puts of the
        space stay with the caller, and its blocks stay where they are.
        """
        self._native.unregister_space(_handle(space))

    def residences(self, space: Space, keys: SequenceOf[bytes]) -> list[str]:
        """Looks keys, in any order, up in the node's shared table, without a call.

        Returns for each key the nearest tier of this node that has its block ("gpu", "host" or
        "disk"), "absent", or "perhaps" if only the agent knows. The answer is a guess, since blocks
        may leave; only onboard() makes sure. Without an agent all are "absent".
        """
        return self._native.residences(_handle(space), listed("keys", keys))

    def resident_run(self, space: Space, keys: SequenceOf[bytes]) -> int:
        """Returns how many leading keys are not "absent" in the table of residences()."""
        return self._native.resident_run(_handle(space), listed("keys", keys))

    def match(self, space: Space, keys: SequenceOf[bytes], timeout_s: float | None = None,
              local_only: bool = False) -> Match:
        """Returns where the longest known prefix of `keys` is."""
        return self.match_sequences([Sequence(space, keys)], timeout_s, local_only)[0]

    def match_sequences(self, sequences: Iterable[Sequence], timeout_s: float | None = None,
                        local_only: bool = False) -> list[Match]:
        """Returns where the blocks of each sequence are, as one Match for each."""
        return _matches(self._native.match(_natives(sequences), timeout_s, local_only))

    def match_group(self, spaces: Iterable[Space], keys: SequenceOf[bytes],
                    timeout_s: float | None = None, local_only: bool = False) -> Match:
        """Returns the leading blocks of the run `keys` that every rank of a group has.

        A block's tier is the farthest in which a rank has it. Each rank has a space of its own;
        spaces times keys is 8192 at most.
        """
        return Match(*self._native.match_group(_handles(spaces), listed("keys", keys), timeout_s, local_only))

    def onboard(self, space: Space, keys: SequenceOf[bytes], timeout_s: float | None = None,
                target: str = "host", local_only: bool = False) -> Hit:
        """Returns the leading blocks of `keys` that are in host memory (or the GPU pool) in time, leased.

        `timeout_s` should be no longer than recomputing would take.
        """
        return self.onboard_sequences([Sequence(space, keys)], timeout_s, target, local_only)[0]

    def onboard_sequences(self, sequences: Iterable[Sequence], timeout_s: float | None = None,
                          target: str = "host", local_only: bool = False) -> list[Hit]:
        """Onboards each sequence and returns one Hit for each; of a set all blocks that came.

        Hit.index(i) is the place of block i's key in its sequence. All leases begin together, when
        the last sequence is ready or the time is up.
        """
        return _hits(self._native.onboard(_natives(sequences), target, timeout_s, local_only))

    def reserve(self, space: Space, keys: SequenceOf[bytes], parent: bytes | None = None,
                target: str = "host", timeout_s: float | None = None,
                lengths: SequenceOf[int] | None = None) -> Put:
        """Reserves slots for the blocks of `keys`; `parent` is the key before them, None for a root.

        `lengths` are the bytes of each block, in a space with any_length only.
        """
        return self.reserve_sequences([Sequence(space, keys, parent, lengths=lengths)], target,
                                      timeout_s)

    def reserve_sequences(self, sequences: Iterable[Sequence], target: str = "host",
                          timeout_s: float | None = None) -> Put:
        """Reserves slots for the blocks of all sequences in one Put, with entries sequence by sequence."""
        return Put(self._native.reserve(_natives(sequences), target, timeout_s))

    def advise(self, sequences: Iterable[Sequence], timeout_s: float | None = None) -> int:
        """Tells the node what is known now about the next use of blocks, by each sequence's hint.

        Call it for example at the end of a request, with `finish`. The call does not count as a use of
        the blocks. Returns how many of them are in the node's memory; 0 if no agent answered, which costs
        hits at worst.
        """
        return self._native.advise(_natives(sequences), timeout_s)

    def delete(self, sequences: Iterable[Sequence],
               timeout_s: float | None = None) -> tuple[int, int] | None:
        """Drops blocks of the tenant from every tier of this node for ever, a restart included.

        Returns how many were dropped, and how many stay because they are leased or being copied;
        None: no agent answered in time. Other nodes keep theirs.
        """
        return self._native.delete(_natives(sequences), timeout_s)

    def drop_prefix(self, sequences: Iterable[Sequence],
                    timeout_s: float | None = None) -> Dropped | None:
        """Drops the named blocks and all blocks of this node that continue them.

        Returns None if no agent answered in time.
        """
        native = self._native.kept().drop(_natives(sequences), timeout_s)
        return None if native is None else Dropped(*native)

    def keep(self, sequences: Iterable[Sequence], ttl_s: float = 300.0,
             timeout_s: float | None = None) -> Kept | None:
        """Keeps those of the sequences' blocks that the node has in host memory for `ttl_s`: a prompt cache.

        `ttl_s` is a second to an hour. Blocks that only a disk of the node has are loaded within
        `timeout_s`. As many blocks are kept as fit into the tenant's quota, leading ones first. The
        kept prefix belongs to the tenant, not to this client. Another call with the same sequences
        renews it; a shorter time does not shorten it. Returns None if no agent answered in time.
        Raises ValueError, naming the argument.
        """
        native = self._native.kept().keep(_natives(sequences), ttl_s, timeout_s)
        return None if native is None else Kept(*native)

    def list_kept(self, timeout_s: float | None = None) -> KeptList | None:
        """Returns the prefixes that the tenant keeps on this node; None: no agent answered in time."""
        native = self._native.kept().list_kept(timeout_s)
        if native is None:
            return None
        prefixes, used, quota = native
        return KeptList([KeptPrefix(*prefix) for prefix in prefixes], KeptUse(*used),
                        KeptUse(*quota))

    def end_kept(self, kept_id: int, timeout_s: float | None = None) -> int | None:
        """Ends the kept prefix of that id before its time; 0 ends all of the tenant on this node.

        Blocks of an ended prefix stay until room is needed. Returns how many prefixes ended; None: no agent
        answered in time.
        """
        return self._native.kept().end(kept_id, timeout_s)

    def limits(self, space: Space) -> Limits:
        """Returns how many blocks of the space the current agent has room for, or why it is not usable. Never waits."""
        return Limits(**self._native.limits(_handle(space)))

    def put_all(self, space: Space, keys: SequenceOf[bytes],
                blocks: SequenceOf[Buffer | SequenceOf[Buffer]], parent: bytes | None = None,
                timeout_s: float = 2.0) -> PutCounts:
        """Stores a run of any length, as many blocks at a time as fit the tenant's memory well.

        blocks[i] are the bytes of the block of keys[i]: a contiguous buffer, or a list of buffers
        that follow each other; in a space with any_length a block is as long as they are. Each time
        that there is no room the call waits up to `timeout_s` for blocks to go to a disk. Raises
        ValueError, naming the argument; blocks that were stored stay.
        """
        lists: list[Any] = [block if isinstance(block, (list, tuple)) else [block]
                            for block in listed("blocks", blocks)]
        return PutCounts(*self._native.put_all(_handle(space), listed("keys", keys), lists, parent, timeout_s))

    def take_ticket(self, sequences: Iterable[Sequence], timeout_s: float | None = None,
                    redemptions: int = 1, lifetime_s: float = 10.0,
                    local_only: bool = False) -> Ticket:
        """Brings blocks to host memory and holds them for other processes of the tenant.

        `redemptions` ranks, 1 to 64, redeem the ticket, each once; the ticket ends after `lifetime_s`, a
        minute at most. Raises ValueError, naming the argument.
        """
        return Ticket(*self._native.take_ticket(_natives(sequences), timeout_s, local_only,
                                                redemptions, lifetime_s))

    def redeem(self, ticket: bytes, rank: int, spaces: Iterable[Space],
               timeout_s: float | None = None) -> list[Hit]:
        """Leases the blocks that the ticket of these 16 bytes holds and returns a Hit for each of its sequences.

        `spaces` are the sequences' spaces, of this client. The hits are empty if the ticket is
        unknown, over, another tenant's, or redeemed by this rank already.
        """
        return _hits(self._native.redeem(ticket, rank, _handles(spaces), timeout_s))

    def release_ticket(self, ticket: bytes) -> None:
        """Ends a ticket before its time. Never blocks."""
        self._native.release_ticket(ticket)

    def paged_kv(self, space: Space, slots: int) -> PagedKv:
        """Returns KV memory for blocks of `space` in the GPU pool: `slots` slots, or fewer.

        Raises ValueError if there is none: no agent, or no pool for blocks of this size.
        """
        return PagedKv(self._native.paged_kv(_handle(space), slots, space.spec.tokens_per_block))

    def prefetch(self, space: Space, keys: SequenceOf[bytes], timeout_s: float | None = None,
                 local_only: bool = False) -> int:
        """Asks for blocks to be brought to host memory and returns how many are there or coming."""
        return self.prefetch_sequences([Sequence(space, keys)], timeout_s, local_only)

    def prefetch_sequences(self, sequences: Iterable[Sequence], timeout_s: float | None = None,
                           local_only: bool = False) -> int:
        """Asks for the blocks of all sequences and returns how many are there or coming."""
        return self._native.prefetch(_natives(sequences), timeout_s, local_only)

    # The submit_* calls do not wait. They raise ValueError as the waiting ones, and BlockingIOError
    # when 256 calls are in progress: try again when one has ended.

    def submit_match(self, sequences: Iterable[Sequence], timeout_s: float | None = None,
                     local_only: bool = False) -> Call[list[Match]]:
        """Starts match_sequences() without waiting."""
        call: Call[list[Match]] = Call()
        self._native.submit_match(_natives(sequences), timeout_s, local_only,
                                  lambda natives: call._end(_matches(natives)))
        return call

    def submit_onboard(self, sequences: Iterable[Sequence], timeout_s: float | None = None,
                       target: str = "host", local_only: bool = False) -> Call[list[Hit]]:
        """Starts onboard_sequences() without waiting. Hits that are not fetched end with the Call."""
        call: Call[list[Hit]] = Call()
        self._native.submit_onboard(_natives(sequences), target, timeout_s, local_only,
                                    lambda natives: call._end(_hits(natives)))
        return call

    def submit_onboard_parts(self, sequences: Iterable[Sequence], timeout_s: float | None = None,
                             local_only: bool = False,
                             on_part: Callable[[Part], object] | None = None) -> PartsCall:
        """Brings blocks to host memory and hands them over as they become ready.

        Blocks in host memory come at once, while the rest is on its way from a disk or another
        node. The caller takes the parts from the PartsCall; or `on_part(part)` is called with each, in
        the client's own thread, as the callbacks of a Call are.
        """
        call = PartsCall(on_part)
        self._native.submit_onboard_parts(
            _natives(sequences), timeout_s, local_only, call._arrive,
            lambda natives: call._end([Arrived(*native) for native in natives]))
        return call

    def submit_reserve(self, sequences: Iterable[Sequence], target: str = "host",
                       timeout_s: float | None = None) -> Call[Put]:
        """Starts reserve_sequences() without waiting."""
        call: Call[Put] = Call()
        self._native.submit_reserve(_natives(sequences), target, timeout_s,
                                    lambda native: call._end(Put(native)))
        return call

    def submit_prefetch(self, sequences: Iterable[Sequence], timeout_s: float | None = None,
                        local_only: bool = False) -> Call[int]:
        """Starts prefetch_sequences() without waiting."""
        call: Call[int] = Call()
        self._native.submit_prefetch(_natives(sequences), timeout_s, local_only, call._end)
        return call

    def submit_advise(self, sequences: Iterable[Sequence],
                      timeout_s: float | None = None) -> Call[int]:
        """Starts advise() without waiting. Its result need not be fetched."""
        call: Call[int] = Call()
        self._native.submit_advise(_natives(sequences), timeout_s, call._end)
        return call

    def submit_delete(self, sequences: Iterable[Sequence],
                      timeout_s: float | None = None) -> Call[tuple[int, int] | None]:
        """Starts delete() without waiting."""
        call: Call[tuple[int, int] | None] = Call()
        self._native.submit_delete(_natives(sequences), timeout_s, call._end)
        return call

    def submit_take_ticket(self, sequences: Iterable[Sequence], timeout_s: float | None = None,
                           redemptions: int = 1, lifetime_s: float = 10.0,
                           local_only: bool = False) -> Call[Ticket]:
        """Starts take_ticket() without waiting."""
        call: Call[Ticket] = Call()
        self._native.submit_take_ticket(_natives(sequences), timeout_s, local_only, redemptions,
                                        lifetime_s, lambda native: call._end(Ticket(*native)))
        return call

    def submit_redeem(self, ticket: bytes, rank: int, spaces: Iterable[Space],
                      timeout_s: float | None = None) -> Call[list[Hit]]:
        """Starts redeem() without waiting. Hits that are not fetched end with the Call."""
        call: Call[list[Hit]] = Call()
        self._native.submit_redeem(ticket, rank, _handles(spaces), timeout_s,
                                   lambda natives: call._end(_hits(natives)))
        return call

    def submit_commit(self, put: Put, step: int = 0, durable: bool = False,
                      timeout_s: float | None = None) -> Call[int]:
        """Starts put.commit() without waiting, for a put that this client reserved.

        Ends `put` as commit() does, unless it raises.
        """
        call: Call[int] = Call()
        typed("put", put, Put)._submit_commit(self._native, step, durable, timeout_s, call._end)
        return call

    def begin_step(self) -> int:
        """Begins a step, before the worker's threads touch slots of the GPU pool; returns its number.

        Slots that are released during the step are used again only after end_step(). Returns 0 if the
        agent keeps no steps of this worker; then nothing waits for end_step().
        """
        return self._native.begin_step()

    def end_step(self, step: int) -> None:
        """Tells the agent that `step` and all steps before it have ended."""
        self._native.end_step(step)

    def ping(self, timeout_s: float = 2.0) -> bool:
        """Makes one empty call; returns whether the agent answered. Raises ValueError if `timeout_s` is 0."""
        return self._native.ping(timeout_s)

    def host_memory(self) -> HostMemory | None:
        """Returns the host memory of the current session, to be pinned for a device.

        Returns None without an agent. Hits lie in `read` and slots in `write`, at the same offsets
        unless `is_staged`. The views stay mapped as long as an object holds them.
        """
        native = self._native.host_memory()
        if native is None:
            return None
        read, write, is_staged = native
        return HostMemory(memoryview(read), None if write is None else memoryview(write), is_staged)

    @property
    def connected(self) -> bool:
        """Whether the client is connected to an agent at this moment."""
        return self._native.connected()

    def stats(self) -> dict[str, Any]:
        """Returns counts of what this client did, and `last_error`, the text of its latest error.

        Counts are by name. `onboarded_from` has blocks by the tier that had them; `missed_because`
        blocks by the reason that Hit.missed gives for their sequence; `latencies` for each kind of
        call that was answered its `calls`, `p50_s` and `p99_s`, as the client measured them.
        """
        return self._native.stats()

    def close(self) -> None:
        """Ends the session, and ends submitted calls as misses. Idempotent.

        Hits and puts may outlive the client; valid() is False then. Waits for the callbacks of
        submitted calls, unless one of them closes the client.
        """
        self._native.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
