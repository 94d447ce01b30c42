"""The scene of a chunk history: one large grid, whose cells change from round to round.

         chunk 0    chunk 1
        ┌──┬──┐    ┌──┬──┐
rank 0  │0 │  │    │0 │1 │◄┐    a cell has a square for each rank's contribution, always the same one;
        └──┴──┘    └──┴──┘ │    a thick outline: all are inside once, the full sum
rank 1  │0 │1 │    │  │1 │─┘    the arrow: rank 1 sent this chunk to rank 0 in this round
        └──┴──┘    └──┴──┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from distlib.draw.chunks.chunk_history import ChunkHistory, ChunkMessage, name_chunks, tell_cell
from distlib.draw.chunks.markers import Cell, format_count, is_part, is_repeated
from distlib.draw.players.chunk_layout import HEAD, LABELS, MARGIN, Layout, is_whole, lay_out
from distlib.draw.players.scene import INK, Look, Scene, SceneStep, Shape, arrow, box, runs, write
from distlib.draw.players.timeline_scene import tell_site
from distlib.draw.style import SMALL, TITLE, VERMILLION, WIDTH, color_of, count, format_bytes, text_on

_TOP, _KEY = 30.0, 22.0  # CSS pixels: the title, the key
_TOLD = 32  # with more messages than this, the alternative text does not say who sends what


def chunk_scene(history: ChunkHistory, title: str) -> Scene:
    """The scene of a history: step k is "after round k"."""
    layout = lay_out(history)
    shapes = [
        write(6, 20, title, TITLE, bold=True),
        *_key(_TOP + 12),
        *_names(history, layout),
        *_cells(history, layout),
        *_arrows(history, layout),
    ]
    height = _TOP + _KEY + layout.size[1]
    width = max(min(WIDTH, MARGIN + LABELS + layout.size[0] + MARGIN), 630.0)
    return Scene(title, width, height, shapes, list(_steps(history)), _alt(history, title), "a cell or an arrow")


def _corner(layout: Layout, rank: int, chunk: int) -> tuple[float, float]:
    x, y = layout.cell_at(rank, chunk)
    return MARGIN + LABELS + x, _TOP + _KEY + y


def _key(y: float) -> Iterator[Shape]:
    yield box(6, y - 10, 16, 12, {"fill": "none", "stroke": INK, "stroke-width": 2.4})
    yield write(28, y, "full sum", SMALL)
    yield box(94, y - 11, 14, 14, {"fill": color_of(0)})
    yield box(94, y - 11, 14, 14, {"fill": f"hatch:{text_on(color_of(0))}"})
    yield write(114, y, "counted twice", SMALL)
    yield box(214, y - 10, 16, 12, _ODD)
    yield write(236, y, "does not belong here", SMALL)


_ODD: Look = {
    "fill": f"hatch:{VERMILLION}",
    "fill-opacity": 0.5,
    "stroke": VERMILLION,
    "stroke-width": 2,
    "stroke-dasharray": "5 3",
}


def _names(history: ChunkHistory, layout: Layout) -> Iterator[Shape]:
    width, height = layout.cell
    for chunk in range(history.chunks):
        x, y = _corner(layout, 0, chunk)
        yield write(x + width / 2, y - 8, f"chunk {chunk}" if width >= 52 else str(chunk), SMALL, anchor="middle")
    if width < 52:
        yield write(MARGIN + LABELS - 8, _TOP + _KEY + HEAD - 8, "chunk", SMALL, anchor="end")
    for rank in range(history.world_size):
        _, y = _corner(layout, rank, 0)
        yield write(MARGIN + LABELS - 8, y + height / 2 + 4, f"rank {rank}", SMALL + 1, anchor="end", sticks=True)


def _cells(history: ChunkHistory, layout: Layout) -> Iterator[Shape]:
    for rank in range(history.world_size):
        for chunk in range(history.chunks):
            cells = [state[rank][chunk] for state in history.states]
            left, top = _corner(layout, rank, chunk)
            for contributor in range(history.world_size):
                down, across = divmod(contributor, layout.across)
                x, y = left + across * layout.square, top + down * layout.square
                yield from _square(layout, contributor, [cell.counts[contributor] for cell in cells], x, y)
            astray = [history.is_astray(round, rank, chunk) for round in range(history.rounds + 1)]
            yield from _outlines(layout, cells, astray, left, top)
            for cell, first, end in runs(cells):
                owner = f" It belongs to rank {chunk}." if astray[first] else ""
                tip = f"rank {rank}, chunk {chunk}: {tell_cell(cell)}{owner}"
                yield box(left, top, *layout.cell, {"fill": "transparent"}, first=first, end=end, tip=tip)


def _square(layout: Layout, rank: int, counts: list[float], x: float, y: float) -> Iterator[Shape]:
    """One rank's square in a cell: empty, filled, or filled in part; hatched if counted several times."""
    inner, color = layout.square - layout.gap, color_of(rank)
    yield box(x, y, inner, inner, {"fill": INK, "opacity": 0.12})
    for times, first, end in runs(counts):
        if times == 0:
            continue
        filled = inner * times if 0 < times < 1 else inner
        yield box(x, y + inner - filled, inner, filled, {"fill": color}, first=first, end=end)
        if is_repeated(times):
            look: Look = {"fill": f"hatch:{text_on(color)}", "opacity": 0.45}
            yield box(x, y, inner, inner, look, first=first, end=end)
        if layout.numbered:
            yield _digit(layout, rank, times, x + inner / 2, y + inner / 2, first, end)


def _digit(layout: Layout, rank: int, times: float, x: float, y: float, first: int, end: int | None) -> Shape:
    words = format_count(times) if is_part(times) else f"×{format_count(times)}" if is_repeated(times) else str(rank)
    fill = INK if is_part(times) else text_on(color_of(rank))
    size = min(14.0, max(SMALL, 0.55 * layout.square))
    return write(x, y + 0.36 * size, words, size, is_repeated(times), "middle", fill=fill, first=first, end=end)


def _outlines(layout: Layout, cells: list[Cell], astray: list[bool], left: float, top: float) -> Iterator[Shape]:
    """A thick outline where a cell holds the full sum; a hatching where it holds what does not belong there."""
    width, height = layout.cell[0] - layout.gap + 4, layout.cell[1] - layout.gap + 4
    full: Look = {"fill": "none", "stroke": INK, "stroke-width": 2.4}
    for look, marked in ((full, [cell.is_full for cell in cells]), (_ODD, _do_not_belong(cells, astray))):
        for is_marked, first, end in runs(marked):
            if is_marked:
                yield box(left - 2, top - 2, width, height, look, first=first, end=end)


def _do_not_belong(cells: list[Cell], astray: list[bool]) -> list[bool]:
    return [is_astray or not cell.is_clean for cell, is_astray in zip(cells, astray, strict=True)]


def _arrows(history: ChunkHistory, layout: Layout) -> Iterator[Shape]:
    for round in range(1, history.rounds + 1):
        lanes: Counter[int] = Counter()
        for message in history.messages_in(round):
            whole = is_whole(message, history.chunks)
            for chunk in (-1,) if whole else message.chunks:
                lanes[chunk] += 1
                yield _bracket(layout, message, max(chunk, 0), lanes[chunk] * layout.lane, whole)


def _bracket(layout: Layout, message: ChunkMessage, chunk: int, out: float, leftward: bool) -> Shape:
    """From the sender's cell out into the gap next to it, along it, and into the receiver's cell."""
    (x, above), (_, below) = _corner(layout, message.src, chunk), _corner(layout, message.dst, chunk)
    edge, half = x - 4 if leftward else x + layout.cell[0] + 3, layout.cell[1] / 2
    turn = edge - out if leftward else edge + out
    line = [(edge, above + half), (turn, above + half), (turn, below + half), (edge, below + half)]
    return arrow(line, INK, 1.6, first=message.round, end=message.round + 1, tip=describe(message))


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe(message: ChunkMessage) -> str:
    """A message in a line: from whom to whom, which chunk, how much, and which line sent it."""
    what = name_chunks(message.chunks) if message.chunks else "no whole chunk"
    text = f"rank {message.src} → rank {message.dst}: {what}, round {message.round}"
    if message.sent is None:
        return text
    return f"{text}, {format_bytes(message.sent.nbytes)}, sent by {tell_site(message.sent.site)}"


def _alt(history: ChunkHistory, title: str) -> str:
    """All steps in words, as alternative text."""
    full = ", ".join(f"{f'round {step}' if step else 'start'}: {held}" for step, held in enumerate(history.full_sums))
    text = (
        f"{title}. Grids of {count(history.world_size, 'rank')} by {count(history.chunks, 'chunk')}, one for each "
        f"round. {history.summary()} Step by step: {full}."
    )
    return " ".join([text, *_tell_messages(history), *history.findings])


def _tell_messages(history: ChunkHistory) -> Iterator[str]:
    """Who sends which chunks to whom, round by round; nothing where there are too many messages to listen to."""
    if len(history.messages) > _TOLD:
        return
    for round in range(1, history.rounds + 1):
        told = (f"{m.src} sends {name_chunks(m.chunks)} to {m.dst}" for m in history.messages_in(round) if m.chunks)
        if words := ", ".join(told):
            yield f"Round {round}: {words}."


def _steps(history: ChunkHistory) -> Iterator[SceneStep]:
    """A warning stays from the round on in which something was odd; an error that ended the run is there at once."""
    odd = history.findings_by_round
    if history.error is not None:
        after = f"in round {history.rounds + 1}" if history.rounds else "before anything was received"
        odd = [(0, f"This run ended in an error, {after}:\n{history.error}"), *odd]
    for round in range(history.rounds + 1):
        warning = "\n".join(sentence for first, sentence in odd if first <= round)
        yield _step(history, round, history.tell_full_sums(round), warning)


def _step(history: ChunkHistory, round: int, cells: str, warning: str) -> SceneStep:
    held = [_tell_rank(history, round, rank) for rank in range(history.world_size)]
    if round == 0:
        return SceneStep("start", f"The start: nothing has been sent. {cells}", held, warning)
    messages = history.messages_in(round)
    name = f"round {round} of {history.rounds}"
    words = f"After {name}: {count(len(messages), 'message')}. {cells}"
    return SceneStep(name, words, [*map(describe, messages), *held], warning)


def _tell_rank(history: ChunkHistory, round: int, rank: int) -> str:
    """What a rank holds, for those who can't point at a cell: "rank 1 holds contributions to chunk 0: 0+1; …"."""
    held = []
    for chunk, cell in enumerate(history.states[round][rank]):
        told = "all" if cell.is_full else {"-": "none"}.get(str(cell), str(cell))
        owner = f" (belongs to rank {chunk})" if history.is_astray(round, rank, chunk) else ""
        held.append(f"chunk {chunk}: {told}{owner}")
    return f"rank {rank} holds contributions to {'; '.join(held)}"
