"""Which rank holds which contributions to which chunk, round by round: the data behind `play_chunks`.

A function `(comm, tensor)` runs on a world with marked tensors (see `markers`) and a communicator that takes notes (see
`watch`). Ranks do not go in step, and they differ in how often they communicate. So their notes are put side by side by
rounds, as `distlib.trace` counts them: what a rank holds "after round k" is what it holds once it has finished all
its messages up to round k, and before its next. Of two ranks shown at the same moment, neither can then hold what the
other has not sent yet, which counting calls would not promise:

    through a master       rank 0   recv, recv, recv, send, send, send     6 calls: rounds 1 1 1 2 2 2
                           rank 1   send, recv                             2 calls: rounds 1 2
"""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from distlib.communicator import Communicator
from distlib.draw.chunks.markers import Cell, Markers, format_count, is_part, is_repeated
from distlib.draw.chunks.promises import End, find_broken, is_astray, promised_cells
from distlib.draw.chunks.watch import GroupPath, Received, Record, Sent, Split, State, records_path, run_watched
from distlib.draw.style import count
from distlib.trace import Message
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real.world import World
from distlib.worlds.simulated.simulator import SimulatedWorld

MAX_RANKS = 16
"""More ranks than this are not watched: nobody could read the picture."""


@dataclass(frozen=True, slots=True)
class ChunkMessage:
    """A message that was received. `chunks` are those inside; () if it carried something else.

    `sent` is the message as the world's trace has it: bytes and lines of code. None where nothing was recorded.
    """

    round: int
    src: int
    dst: int
    chunks: tuple[int, ...]
    sent: Message | None = field(default=None, compare=False)


@dataclass
class ChunkHistory:
    """What each rank held of each chunk, after each round. `print(history)` shows it as text.

    Attributes:
        world_size: how many ranks.
        chunks: how many chunks the tensor was cut into.
        states: states[k][rank][chunk] is a `Cell`: what that rank held of that chunk after round k; k = 0 is the start.
        messages: all messages that were received, by round.
        error: the exception that ended the run early, or None. The states then go as far as the run went.
        returned_new: the ranks on which the function returned a tensor other than the one it was given.
        end: where full sums should be in the end, as `watch_chunks` was told; None: it was not.
    """

    world_size: int
    chunks: int
    states: list[list[list[Cell]]]
    messages: list[ChunkMessage] = field(default_factory=list)
    error: RankError | None = None
    returned_new: list[int] = field(default_factory=list)
    end: End | None = None

    @property
    def rounds(self) -> int:
        """How many rounds there were."""
        return len(self.states) - 1

    @property
    def full_sums(self) -> list[int]:
        """After each round, how many cells (of world_size × chunks) hold the full sum."""
        return [sum(cell.is_full for row in state for cell in row) for state in self.states]

    @property
    def findings(self) -> list[str]:
        """What is odd, a sentence each, with the round in which it was first seen; [] if nothing is."""
        return [sentence for _, sentence in self.findings_by_round]

    @property
    def findings_by_round(self) -> list[tuple[int, str]]:
        """The findings, each with the round in which it was first seen."""
        found = [_find(self, look, ending) for look, ending in _ODDITIES] + [(self.rounds, self._find_new_tensor())]
        told = [(round, sentence) for round, sentence in found if sentence]
        broken = find_broken(self.states, self.end)
        return [broken] if broken[1] and not told and self.error is None else told

    def cell(self, round: int, rank: int, chunk: int) -> Cell:
        """What `rank` held of `chunk` after `round`."""
        return self.states[round][rank][chunk]

    def is_astray(self, round: int, rank: int, chunk: int) -> bool:
        """Whether `rank` holds a full sum of a reduce-scatter that belongs to another rank, and never comes there."""
        return self.end == "scattered" and self.error is None and is_astray(self.states, round, rank, chunk)

    def messages_in(self, round: int) -> list[ChunkMessage]:
        """The messages of one round."""
        return [message for message in self.messages if message.round == round]

    def summary(self) -> str:
        """How it ended, in two short sentences."""
        ended = f"Stopped in round {self.rounds + 1}" if self.error else f"Ended after {count(self.rounds, 'round')}"
        return f"{ended}. {self.tell_full_sums(self.rounds)}"

    def tell_full_sums(self, round: int) -> str:
        """How many cells hold the full sum after `round`; of a reduce-scatter also how many of those that should."""
        told = f"Cells with the full sum: {self.full_sums[round]} of {self.world_size * self.chunks}."
        if self.end != "scattered":
            return told
        promised = promised_cells(self.end, self.world_size, self.chunks)
        return (
            f"{told} Where it belongs: {sum(self.cell(round, *cell).is_full for cell in promised)} of {len(promised)}."
        )

    def __str__(self) -> str:
        parts = [self._panel(round) for round in range(self.rounds + 1)]
        parts += ["\n".join([self.summary(), *self.findings, *([str(self.error)] if self.error else [])])]
        return "\n\n".join(parts)

    def _panel(self, round: int) -> str:
        rows = [["", *(f"chunk {chunk}" for chunk in range(self.chunks))]]
        rows += [[f"rank {rank}", *map(str, cells)] for rank, cells in enumerate(self.states[round])]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        table = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([f"after round {round}" if round else "start", *self._arrows(round), *table])

    def _arrows(self, round: int) -> list[str]:
        told = [f"{m.src} to {m.dst}: {name_chunks(m.chunks)}" for m in self.messages_in(round)]
        return [f"(rank {', '.join(told)})"] if told else []

    def _find_new_tensor(self) -> str:
        if not self.returned_new:
            return ""
        ranks = ", ".join(map(str, self.returned_new))
        return f"On rank {ranks} the function returned another tensor. Only what is written into the given one counts."


def watch_chunks(
    world: World | SimulatedWorld,
    function: Callable[[Communicator, torch.Tensor], Any],
    chunks: int | None = None,
    *,
    start: Literal["own", "scattered"] = "own",
    end: End | None = None,
    timeout: float | None = None,
) -> ChunkHistory:
    """Run `function(comm, tensor)` on `world` and note which contributions to which chunk each rank holds.

    The function gets a one-dimensional float32 tensor, cut into chunks of equal length; what it writes into that
    tensor is watched. It may be wrong: contributions that are missing, counted twice or in the wrong chunk are seen.

    Args:
        world: 1 to 16 ranks.
        function: for example `ring_all_reduce`, or a student's own.
        chunks: into how many chunks the function cuts the tensor; by default as many as there are ranks.
        start: "own": each rank holds its own contribution to each chunk. "scattered": moreover chunk r on rank r is
            the full sum already, as a reduce-scatter leaves it and an all-gather expects it.
        end: where the function should leave full sums, so that it is said if it does not. "scattered": of chunk r on
            rank r. "everywhere": of each chunk on each rank. None: anywhere.
        timeout: seconds after which the run is stopped, as in `World.run`.

    Returns:
        The history. If something goes wrong on a rank it goes up to then, and `history.error` says what.

    Raises:
        ValueError: too many ranks, a number of chunks below 1, or another word for `start` or `end`.
        RankError: something went wrong before any rank had begun.
    """
    markers = _choose_markers(world.world_size, chunks, start, end)
    with tempfile.TemporaryDirectory(prefix="distlib-watch-") as folder:
        error, returned_new = None, []
        try:
            results = world.run(run_watched, function, folder, markers, start == "scattered", timeout=timeout)
            returned_new = [rank for rank, is_new in enumerate(results) if is_new]
        except RankError as raised:
            error = raised
        records = [_read_records(records_path(folder, rank)) for rank in range(world.world_size)]
    if error is not None and not all(records):
        raise error
    states, messages = _Replay(records, markers).line_up()
    found = _find_sent(messages, world.trace.messages)
    return ChunkHistory(markers.world_size, markers.chunks, states, found, error, returned_new, end)


def _find_sent(messages: Sequence[ChunkMessage], recorded: Sequence[Message]) -> list[ChunkMessage]:
    """The messages, each with the one of the trace that it is: of those of one round and pair of ranks, in order."""
    waiting: dict[tuple[int, int, int], deque[Message]] = defaultdict(deque)
    for one in recorded:
        waiting[one.round, one.src, one.dst].append(one)
    alike = [(message, waiting[message.round, message.src, message.dst]) for message in messages]
    return [replace(message, sent=candidates.popleft() if candidates else None) for message, candidates in alike]


def _choose_markers(world_size: int, chunks: int | None, start: str, end: str | None) -> Markers:
    if world_size > MAX_RANKS:
        raise ValueError(f"expected a world of at most {MAX_RANKS} ranks to watch, got {world_size}: use a smaller one")
    if start not in ("own", "scattered"):
        raise ValueError(f"expected start='own' or 'scattered', got {start!r}")
    if end not in ("scattered", "everywhere", None):
        raise ValueError(f"expected end='scattered', 'everywhere' or None, got {end!r}")
    chunks = world_size if chunks is None else chunks
    if not isinstance(chunks, int) or not 1 <= chunks <= 2 * MAX_RANKS:
        raise ValueError(f"expected 1 to {2 * MAX_RANKS} chunks, got {chunks!r}")
    if "scattered" in (start, end) and chunks != world_size:
        where = "start" if start == "scattered" else "end"
        raise ValueError(f"{where}='scattered' needs one chunk a rank: {world_size} chunks, got {chunks}")
    return Markers(world_size, chunks)


def _read_records(path: str) -> list[Record]:
    """All records of one rank; of a rank that was killed while it wrote, all but the last."""
    records: list[Record] = []
    with contextlib.suppress(FileNotFoundError, EOFError, pickle.UnpicklingError), open(path, "rb") as file:
        while True:
            records.append(pickle.load(file))
    return records


# ── lining the ranks up ──────────────────────────────────────────────────────────────────────────────────────────────


class _Replay:
    """Goes through the notes of all ranks in an order in which they can have happened, and counts rounds."""

    def __init__(self, records: Sequence[Sequence[Record]], markers: Markers) -> None:
        self._records = records
        self._markers = markers
        self._members = _find_members(records)
        self._next = [0] * len(records)
        self._received = [0] * len(records)  # the highest round each rank has received
        self._through = [0] * len(records)  # the highest round each rank has had a part in
        self._on_their_way: dict[tuple[object, ...], deque[tuple[int, Sent]]] = defaultdict(deque)
        self._states: list[list[tuple[int, State]]] = [[] for _ in records]
        self._messages: list[ChunkMessage] = []

    def line_up(self) -> tuple[list[list[list[Cell]]], list[ChunkMessage]]:
        """What each rank held after each round, and the messages in order of rounds."""
        while any([self._advance(rank) for rank in range(len(self._records))]):
            pass
        rounds = max((message.round for message in self._messages), default=0)
        states = [self._states_after(round, is_last=round == rounds) for round in range(rounds + 1)]
        return states, sorted(self._messages, key=lambda m: (m.round, m.src, m.dst))

    def _advance(self, rank: int) -> bool:
        """Take in this rank's notes up to a message that has not been sent yet. True if there was any."""
        begun_at = self._next[rank]
        records = self._records[rank]
        while self._next[rank] < len(records) and self._take_in(rank, records[self._next[rank]]):
            self._next[rank] += 1
        return self._next[rank] > begun_at

    def _take_in(self, rank: int, record: Record) -> bool:
        if isinstance(record, State):
            self._states[rank].append((self._through[rank], record))
        elif isinstance(record, Sent):
            dst = self._members[record.group][record.dst]
            round = self._received[rank] + 1
            self._on_their_way[record.group, rank, dst, record.tag].append((round, record))
            self._through[rank] = max(self._through[rank], round)
        elif isinstance(record, Received):
            return self._take_in_received(rank, record)
        return True

    def _take_in_received(self, rank: int, record: Received) -> bool:
        src = self._members[record.group][record.src]
        waiting = self._on_their_way[record.group, src, rank, record.tag]
        if not waiting:
            return False
        round, sent = waiting.popleft()
        self._messages.append(ChunkMessage(round, src, rank, sent.chunks))
        self._received[rank] = max(self._received[rank], round)
        self._through[rank] = max(self._through[rank], round)
        return True

    def _states_after(self, round: int, is_last: bool) -> list[list[Cell]]:
        """By rank, the last state before it took part in any later round; in the end, its last state."""
        kept = [[state for through, state in states if is_last or through <= round][-1] for states in self._states]
        return [self._markers.read(state.values) for state in kept]


def _find_members(records: Sequence[Sequence[Record]]) -> dict[GroupPath, list[int]]:
    """The ranks of the world that each communicator consists of, in its own order."""
    members: dict[GroupPath, list[int]] = {(): list(range(len(records)))}
    splits = [(note, rank) for rank, notes in enumerate(records) for note in notes if isinstance(note, Split)]
    for depth in sorted({len(note.group) for note, _ in splits}):
        groups: dict[GroupPath, list[tuple[int, int, int]]] = defaultdict(list)
        for note, rank in splits:
            if len(note.group) == depth and note.color is not None:
                old = members[note.group].index(rank)
                key = note.key if note.key is not None else old
                groups[*note.group, (note.number, note.color)].append((key, old, rank))
        members |= {path: [rank for _, _, rank in sorted(entries)] for path, entries in groups.items()}
    return members


# ── what is odd ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _find(history: ChunkHistory, look: Callable[[Cell], str], ending: str) -> tuple[int, str]:
    """About the first cell in which `look` finds something, and how many there are in the end: round and sentence."""
    for round, state in enumerate(history.states):
        for rank, cells in enumerate(state):
            for chunk, cell in enumerate(cells):
                if found := look(cell):
                    affected = sum(bool(look(cell)) for row in history.states[-1] for cell in row)
                    when = f"After round {round}" if round else "At the start"
                    ends = f"In the end: {count(affected, 'cell')} {ending}."
                    return round, f"{when}, chunk {chunk} on rank {rank} {found} {ends}"
    return 0, ""


def _look_for_repeated(cell: Cell) -> str:
    often = [f"rank {rank}'s contribution {_times(n)}" for rank, n in enumerate(cell.counts) if is_repeated(n)]
    return f"holds {_list(often)}." if often and not cell.uneven else ""


def _look_for_foreign(cell: Cell) -> str:
    chunks = sorted({chunk for _, chunk, _ in cell.foreign})
    return f"holds what belongs to {name_chunks(chunks)}." if chunks and not cell.uneven else ""


def _look_for_uneven(cell: Cell) -> str:
    return "was changed only in part: is it cut at the correct places, and is every buffer written?" * cell.uneven


def _look_for_parts(cell: Cell) -> str:
    parts = [f"{format_count(n)} of rank {rank}'s contribution" for rank, n in enumerate(cell.counts) if is_part(n)]
    return f"holds {_list(parts)}." if parts and not cell.uneven else ""


_ODDITIES: tuple[tuple[Callable[[Cell], str], str], ...] = (
    (_look_for_repeated, "with a contribution that is counted more than once"),
    (_look_for_foreign, "with something of another chunk"),
    (_look_for_uneven, "like that"),
    (_look_for_parts, "with only a part of a contribution"),
)


def _times(number: float) -> str:
    return {2: "twice", 3: "three times"}.get(int(number), f"{int(number):,} times")


def _list(things: Sequence[str]) -> str:
    shown = [*things[:3], f"{len(things) - 3} more"] if len(things) > 4 else list(things)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def name_chunks(chunks: Sequence[int]) -> str:
    """Chunks in words: "no chunk", "chunk 3", "chunks 0, 1 and 3"."""
    if not chunks:
        return "no chunk"
    return f"chunk {chunks[0]}" if len(chunks) == 1 else f"chunks {_list([str(chunk) for chunk in chunks])}"


def tell_cell(cell: Cell) -> str:
    """What a cell holds, in a sentence: "the full sum", "the contributions of ranks 0 and 2", and what is odd."""
    odd = [found for look, _ in _ODDITIES if (found := look(cell))]
    inside = [str(rank) for rank, number in enumerate(cell.counts) if number]
    if cell.is_full:
        return "holds the full sum."
    if odd:
        return " ".join(odd)
    return f"holds the contribution{'s' * (len(inside) > 1)} of rank {_list(inside)}." if inside else "holds nothing."
