"""One line of requests, each the previous one plus a tail.

A lineage holds what the session's branch says to the model (`items`), what of it the model is shown
(`shown`), and the sealed bytes. Building a request converts what is new and copies the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from unipi_hookspecs import AssistantMessage, Thinking

from .bound import Past, past_of, refused
from .canonical import split
from .ledger import Ledger, Reason, head_change
from .marks import bridge
from .seal import Prefix, Sealed, Shared
from .window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unipi_hookspecs import Boundary, Message, Model

    from .wire import Head, HeadSpec, WireApi

_BLOCK = b'"type":'


@frozen(eq=False)
class Item:
    """A message of the branch and the session entry that holds it."""

    entry_id: str
    message: Message


@frozen
class Decision:
    """What the model is shown in place of an entry's message, decided once and kept.

    Either another `message`, or nothing (`dropped`), or other `wire` bytes: all wire messages that
    the entry becomes, parted by commas.
    """

    entry_id: str
    message: Message | None = None
    dropped: bool = False
    wire: bytes | None = None


@frozen
class Mark:
    """Where the last request ended, as kept in the session to be recognised after a restart.

    `first` and `last` are the entries at both ends of what was covered; `markers` the places of
    the cache markers in its messages.
    """

    epoch: int
    first: str
    last: str
    fingerprint: str
    markers: tuple[int, ...] = ()


class Lineage:
    """The requests of one session and purpose, inside one epoch after another."""

    def __init__(self, api: WireApi, secret: bytes, ledger: Ledger | None = None) -> None:
        self.api = api
        self.ledger = ledger or Ledger()
        self.items: list[Item] = []
        self.excluded: set[str] = set()
        self.spec: HeadSpec | None = None
        self.prefix: Prefix | None = None
        self.fingerprint: str | None = None  # of the last request
        self._secret = secret
        self._decisions: dict[str, Decision] = {}
        self.unbound: set[str] = set()  # entries whose thinking is left out
        self._left: dict[tuple[str, str], Past] = {}  # the last request to each one left
        self._hidden: list[Decision] = []  # by exclusion, not yet taken
        self._shown: list[Message] = []
        self._ids: list[str] = []
        self._covered = 0  # items[:_covered] have been projected and sent
        self._sent = 0  # _shown[:_sent] were in the last request
        self.cold = False  # whether the provider's time for the last prompt is over
        self.after = b""  # members behind the messages, of which no provider reads anything
        self.set_aside = False  # whether the last request left out a plugin's cache marker
        # Sent since the provider last wrote an entry; None: more than any marker could bridge.
        self._unanswered: list[bytes] | None = []
        self._pending: Reason | None = None
        self._diverged: str | None = None

    # What the branch says.

    def append(self, item: Item) -> None:
        """The branch has grown."""
        self.items.append(item)

    def replace(self, items: Sequence[Item], reason: Reason) -> None:
        """The branch is another one: after a compaction, a move in the tree, a reload."""
        self.items = list(items)
        self._shown, self._ids = [], []
        self._covered = self._sent = 0
        self.want_boundary(reason)

    def want_boundary(self, reason: Reason) -> None:
        """Let the next request begin a new epoch; the first reason is the one recorded."""
        if self._pending is None:
            self._pending = reason

    @property
    def boundary_wanted(self) -> bool:
        return self._pending is not None

    @property
    def asked_by(self) -> str | None:
        """The plugin that has asked for the boundary which is due, if one has."""
        owner = self._pending.owner if self._pending is not None else None
        return None if owner in (None, "host", "user") else owner

    def decide(self, decision: Decision) -> None:
        """Take over a decision that an earlier process stored."""
        self._decisions[decision.entry_id] = decision

    def is_dropped(self, entry_id: str) -> bool:
        """Whether the model is shown nothing of an entry."""
        decision = self._decisions.get(entry_id)
        return decision is not None and decision.dropped

    def retire(self, ends: Callable[[Message], bool]) -> list[Decision]:
        """Leave out what was true of the old head alone, as the next request begins an epoch.

        Returns what must be remembered of it.
        """
        gone = [
            Decision(item.entry_id, dropped=True)
            for item in self.items
            if ends(item.message) and not self.is_dropped(item.entry_id)
        ]
        for decision in gone:
            self.decide(decision)
        if gone:
            self._shown, self._ids = [], []
            self._covered = self._sent = 0
        return gone

    def was_sent(self, custom_type: str) -> bool:
        """Whether a message of this custom type has been sent in this epoch."""
        return any(
            getattr(message, "custom_type", None) == custom_type
            for message in self._shown[: self._sent]
        )

    def after_sent(self) -> tuple[Message, Message] | None:
        """The last message that was sent and the first that was not, where there are both."""
        if not 0 < self._covered < len(self.items):
            return None
        return self.items[self._covered - 1].message, self.items[self._covered].message

    # Building a request.

    def project(self) -> tuple[Sequence[Message], int]:
        """All messages of the next request, and the index of the first that was never sent."""
        del self._shown[self._sent :], self._ids[self._sent :]
        for item in self.items[self._covered :]:
            message: Message | None = item.message
            decision = self._decisions.get(item.entry_id)
            if decision is not None and decision.wire is None:
                message = decision.message
            elif getattr(message, "custom_type", None) in self.excluded:
                message = None
                hidden = Decision(item.entry_id, dropped=True)
                self._hidden.append(hidden)
                self.decide(hidden)
            if message is not None:
                self._shown.append(message)
                self._ids.append(item.entry_id)
        return Window(self._shown, len(self._shown)), self._sent

    def take_hidden(self) -> list[Decision]:
        """What an exclusion has kept from the model since the last call, to be remembered.

        A later process may be asked to exclude another type, or too late.
        """
        hidden, self._hidden = self._hidden, []
        return hidden

    def accept(
        self, tail: Sequence[tuple[int, Message]], first: int | None = None
    ) -> list[Decision]:
        """Seal what plugins made of the messages from `first` on; None: of the new ones.

        Returns what must be remembered of it.
        """
        if first is None:
            first = self._sent
        new = self._shown[first:]
        ids = self._ids[first:]
        decisions: list[Decision] = []
        kept = dict(tail)
        for place, (entry_id, old) in enumerate(zip(ids, new, strict=True)):
            message = kept.get(place)
            if message is not old:
                decisions.append(Decision(entry_id, message, dropped=message is None))
        if decisions:
            del self._shown[first:], self._ids[first:]
            self._shown += kept.values()
            self._ids += [ids[place] for place in kept]
            for decision in decisions:
                self._decisions[decision.entry_id] = decision
        return decisions

    def new_fragments(self, spec: HeadSpec) -> list[tuple[str, bytes]]:
        """The wire messages that the next request adds: entry id and bytes."""
        return self._convert(self._shown[self._sent :], self._ids[self._sent :], spec)

    def all_fragments(self, spec: HeadSpec) -> list[tuple[str, bytes]]:
        """Every wire message of the next request, for the first one of an epoch."""
        return self._convert(self._shown, self._ids, spec)

    def reason_for(self, spec: HeadSpec) -> Reason | None:
        """Why the next request cannot extend the last one, as far as is known before it is built."""
        if self.prefix is None or self.spec is None:
            return self._pending or Reason("first", "host")
        if self._pending is not None:
            return self._pending
        cause = head_change(self.spec, spec)
        return Reason(cause, "user") if cause else None

    def extend(self, fragments: Sequence[bytes], marked: Sequence[tuple[int, int]] = ()) -> Sealed:
        """Seal a request that is the last one plus these wire messages.

        `marked` are blocks that a plugin marked for the cache, as (wire message, block), both
        counted from 0; those that there is no room for are left out.
        """
        prefix = self.prefix
        assert prefix is not None, "an epoch begins with `restart`"
        shared, first = prefix.body_size, len(prefix)
        prefix.extend(fragments)
        self._take_marks(marked, first)
        if prefix.marks.marker is not None and prefix.marks.marker.look_back:
            shared = min(shared, self._bridge(first, prefix.marks.marker.look_back) or shared)
        return self._seal(Shared(shared, first))

    def _take_marks(self, marked: Sequence[tuple[int, int]], first: int) -> None:
        assert self.prefix is not None, "asked for while building one"
        before = len(self.prefix.marks.foreign)
        for message, block in marked:
            if message >= first:
                self._mark(message, block, foreign=True)
        self.set_aside = len(self.prefix.marks.foreign) < before + len(marked)

    def answered(self, prompt: int | None) -> None:
        """An answer came: the next request can read what was sent, so many tokens if reported."""
        self._unanswered = []
        if prompt is not None:
            self.ledger.saw_prompt(prompt)

    def _bridge(self, first: int, look_back: int) -> int | None:
        """Mark a new block where the old end would be out of reach; see `marks`.

        Returns where an older marker had to go, as an offset into the body.
        """
        prefix = self.prefix
        assert prefix is not None, "asked for while extending one"
        if self._unanswered is None:
            return None
        new = [prefix.message(index) for index in range(first, len(prefix))]
        earlier = self._unanswered[:]
        self._unanswered += new
        if sum(raw.count(_BLOCK) + 1 for raw in self._unanswered) < look_back:
            return None  # there are no more blocks than that, and most turns have far fewer
        behind = sum(len(self.api.block_ends(raw)) for raw in earlier)
        places = [
            (first + index, block, end)
            for index, raw in enumerate(new)
            for block, end in enumerate(self.api.block_ends(raw))
        ]
        if behind + len(places) >= look_back - 1:
            self._unanswered = None  # no block of a later request lies within reach
        chosen = bridge([end for _, _, end in places], behind, look_back)
        return None if chosen is None else self._mark(*places[chosen][:2])

    def _mark(self, message: int, block: int, *, foreign: bool = False) -> int | None:
        prefix = self.prefix
        assert prefix is not None, "asked for while extending one"
        ends = self.api.block_ends(prefix.message(message))
        if block >= len(ends) or ends[block] < 0:
            return None
        gone = prefix.marks.add(prefix.start_of(message) + ends[block], foreign=foreign)
        return None if gone is None else gone + prefix.marks.before(gone)

    def unbind_all(self) -> list[str]:
        """Leave the thinking of all answers out, with the next request as a boundary."""
        ids = [
            item.entry_id
            for item in self.items
            if item.entry_id not in self.unbound
            and isinstance(item.message, AssistantMessage)
            and any(isinstance(block, Thinking) for block in item.message.content)
        ]
        self.unbound.update(ids)
        return ids

    def beside(
        self, spec: HeadSpec, head: Head, tail: Sequence[Message], upto: int | None = None
    ) -> Sealed:
        """Seal a request that is the next one plus `tail`, of which nothing is kept.

        It reads what the last request wrote to the cache. With `upto` only so many messages stand
        before the tail, where all of them would be too many.
        """
        shown, sent = self.project()
        prefix = self.prefix
        if upto is not None or prefix is None or self.boundary_wanted:
            head = prefix.head if prefix is not None and not self.boundary_wanted else head
            prefix = Prefix(head, self._secret, self.api.marker(spec))
            sent = 0
        kept = range(sent, len(shown) if upto is None else min(upto, len(shown)))
        new = self._convert([shown[i] for i in kept], [self._ids[i] for i in kept], spec)
        after = (raw for _, raw in self.api.fragments(tail, spec.model))
        return prefix.beside([*(raw for _, raw in new), *after])

    def unbind(self, model: Model, head: Head, fragments: Sequence[tuple[str, bytes]]) -> list[int]:
        """The fragments whose thinking the next request, which begins an epoch, must leave out."""
        past = self._left.get(_served_by(model))
        same = self.spec is not None and _served_by(self.spec.model) == _served_by(model)
        if self.prefix is not None and same:
            past = past_of(self.prefix)
        return refused(past, head, fragments, self.api.without_thinking)

    def restart(
        self,
        spec: HeadSpec,
        head: Head,
        reason: Reason,
        wire: Sequence[bytes],
        owner: str | None = None,
        marked: Sequence[tuple[int, int]] = (),
    ) -> tuple[Sealed, Boundary | None]:
        """Seal a request whose head or history is new; `wire` is all of its messages.

        `owner` is the plugin whose rewrite the policy let through, if the messages are one. When
        the result extends the last request after all, no boundary is crossed. For `marked` see
        `extend`.
        """
        before = self.prefix
        left = _served_by(self.spec.model) if self.spec is not None else None
        if before is not None and left is not None and left != _served_by(spec.model):
            self._left[left] = past_of(before)
        prefix = Prefix(head, self._secret, self.api.marker(spec))
        prefix.extend(wire)
        surviving = 0
        if before is not None and before.head == head:
            surviving = before.common(prefix)
            prefix.marks.places += [p for p in before.marks.places if p < surviving]
        boundary = self._cross(before, surviving, reason, spec)
        self.spec, self.prefix = spec, prefix
        self._pending, self._diverged = None, owner
        self._take_marks(marked, 0)
        shared = Shared()
        if before is not None and before.head == head:
            shared = prefix.shared_with(before, surviving)
        return self._seal(shared), boundary

    @property
    def diverged(self) -> str | None:
        """The plugin whose rewrite the last request carried, if any."""
        return self._diverged

    def mark(self) -> Mark | None:
        """Where the last request ended."""
        if self.fingerprint is None or not self._covered:
            return None
        first, last = self.items[0].entry_id, self.items[self._covered - 1].entry_id
        markers = tuple(self.prefix.marks.places) if self.prefix is not None else ()
        return Mark(self.ledger.number, first, last, self.fingerprint, markers)

    def resume(self, spec: HeadSpec, head: Head, mark: Mark) -> bool:
        """Go on where another process stopped; False when the bytes are not what it sent.

        Everything is rebuilt from the stored head and the branch and compared by keyed digest.
        """
        last = next((i for i, item in enumerate(self.items) if item.entry_id == mark.last), -1)
        covered = self.items[: last + 1]
        if not covered or covered[0].entry_id != mark.first:
            return False
        everything, self.items = self.items, covered
        self.project()
        prefix = Prefix(head, self._secret, self.api.marker(spec))
        prefix.extend(raw for _, raw in self._convert(self._shown, self._ids, spec))
        survived = prefix.fingerprint() == mark.fingerprint
        self.items = everything
        if survived:
            self.spec, self.prefix = spec, prefix
            prefix.marks.places += [place for place in mark.markers if 0 < place < prefix.size]
            self.fingerprint = mark.fingerprint
            self._covered, self._sent = len(covered), len(self._shown)
        return survived

    def _seal(self, shared: Shared) -> Sealed:
        assert self.prefix is not None, "sealed only once there is a prefix"
        self._covered, self._sent = len(self.items), len(self._shown)
        sealed = self.prefix.seal(shared, self.after)
        self.fingerprint = sealed.fingerprint
        return sealed

    def _cross(
        self, before: Prefix | None, surviving: int, reason: Reason, spec: HeadSpec
    ) -> Boundary | None:
        total = before.size if before is not None else 0
        if self.cold:
            total = 0  # nothing of it was kept any longer
        if before is not None and surviving == before.size and self._pending is None:
            return None
        return self.ledger.cross(reason, surviving=surviving, total=total, prices=spec.model.prices)

    def _convert(
        self, messages: Sequence[Message], ids: Sequence[str], spec: HeadSpec
    ) -> list[tuple[str, bytes]]:
        converted: list[tuple[str, bytes]] = []
        place = 0
        begins = True  # a message may have several fragments; a decision is about all of them
        for count, raw in self.api.fragments(messages, spec.model):
            decision = self._decisions.get(ids[place])
            if decision is None or decision.wire is None:
                converted.append((ids[place], self._bare(ids[place], raw)))
            elif begins:
                wires = split(decision.wire)
                converted += [(ids[place], self._bare(ids[place], wire)) for wire in wires]
            place += count
            begins = count > 0
        return converted

    def _bare(self, entry_id: str, raw: bytes) -> bytes:
        return self.api.without_thinking(raw) if entry_id in self.unbound else raw


def _served_by(model: Model) -> tuple[str, str]:
    """Whose thinking a model takes back: that of its provider, over the same API."""
    return model.provider, model.api
