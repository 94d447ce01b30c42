"""Playing handed-in choices again, in processes of their own: with little memory, each play for a short time.

    this process ──a play──► worker: a fork of a Python with torch
                 ◄──score, picture──  └─ 1 GiB beyond that, 60 s of processor time for a play; a worker that wants
                                         more is gone, and that play with it. A new one goes on

The choices are data, and the code that plays them is the course's, so there is no sandbox: what has to be held back is
only a replay that never ends. Equal choices are played once.

The fork server is Python's own (multiprocessing), not `distlib.worlds.forkserver`: a worker needs one function, and a
pipe for plays and scores.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

import torch

from distlib.games.choice_values import shown
from distlib.games.handed_plays import HandedPlay
from distlib.process_limits import allow_processor_seconds, limit_memory, limit_to

CPU_SECONDS = 60  # of one replay; the longest that a game allows takes ten
PATIENCE = 600.0  # seconds on a clock: a busy machine gives a replay little of its time
MEMORY = 1 << 30  # bytes of one replay, beyond what Python and torch take
_MOST_WORDS = 300


@dataclass(frozen=True)
class GameReplay:
    """What a play gave when it was played again.

    Attributes:
        score: None if it does not count.
        problem: why it does not; "" if it does.
        svg: the picture of the run; "" without a score.
        alt: the same in words.
    """

    score: float | None
    problem: str = ""
    svg: str = ""
    alt: str = ""


def replay_plays(
    plays: Collection[HandedPlay],
    *,
    jobs: int = 1,
    cpu_seconds: int = CPU_SECONDS,
    memory: int = MEMORY,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> dict[HandedPlay, GameReplay]:
    """Play each distinct play once.

    Args:
        plays: with a game and a level that there are.
        jobs: how many at a time.
        cpu_seconds, memory: what one replay may take; memory in bytes, beyond what Python and torch take.
        tell: called with how many are done, of how many.
    """
    todo = sorted(set(plays), key=lambda play: (play.game, play.level, play.choices), reverse=True)
    total, found, workers = len(todo), dict[HandedPlay, GameReplay](), list[_Worker]()
    try:
        while todo or any(worker.play for worker in workers):
            while todo and (worker := _idle(workers, jobs, cpu_seconds, memory)):
                worker.begin(todo.pop())
            for worker in _ready(workers):
                play = worker.play
                assert play is not None
                found[play] = worker.result()
                if worker.is_gone:
                    workers.remove(worker)
                tell(len(found), total)
    finally:
        for worker in workers:
            worker.stop()
    return found


def _idle(workers: list[_Worker], jobs: int, cpu_seconds: int, memory: int) -> _Worker | None:
    """A worker that has nothing to do, a new one if there may be more; None if all are busy."""
    idle = next((worker for worker in workers if worker.play is None), None)
    if idle is None and len(workers) < jobs:
        workers.append(idle := _Worker(cpu_seconds, memory))
    return idle


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Those that have a result, or are past their deadline; waits for the first."""
    busy = [worker for worker in workers if worker.play]
    left = min(worker.deadline for worker in busy) - time.monotonic()
    ready = wait([worker.connection for worker in busy], max(0.0, left))
    now = time.monotonic()
    return [worker for worker in busy if worker.connection in ready or worker.deadline <= now]


class _Worker:
    """A process that replays one play after the other.

    Attributes:
        play: what it is at; None if it has nothing to do.
        deadline: when its patience ends, on the monotonic clock.
        is_gone: whether it has ended.
    """

    def __init__(self, cpu_seconds: int, memory: int) -> None:
        self.play: HandedPlay | None = None
        self.deadline, self.is_gone, self._cpu_seconds = 0.0, False, cpu_seconds
        self.connection, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, "distlib.games.game_list", "distlib.games.server_race"])
        with theirs:
            self._process = context.Process(target=_work, args=(theirs, cpu_seconds, memory), daemon=True)
            self._process.start()

    def begin(self, play: HandedPlay) -> None:
        """Replay this one next."""
        self.play, self.deadline = play, time.monotonic() + PATIENCE
        with suppress(BrokenPipeError):  # it has ended: `result` finds out
            self.connection.send(play)

    def result(self) -> GameReplay:
        """What came of its play. If it could not be played to the end, the worker is gone."""
        self.play = None
        try:
            if self.connection.poll():
                received = self.connection.recv()
                assert isinstance(received, GameReplay)
                return received
            problem = f"its replay did not come to an end within {PATIENCE:g} s"
        except (EOFError, ConnectionResetError):
            self._process.join()
            status = self._process.exitcode
            too_long = f"its replay takes more than {self._cpu_seconds} s of processor time"
            problem = too_long if status == -signal.SIGXCPU else f"its replay ended with status {status}"
        self.stop()
        return GameReplay(None, problem)

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()
        self.is_gone = True


def _work(connection: Connection, cpu_seconds: int, memory: int) -> None:
    """What a worker does, until nobody is there any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the board's business
    torch.set_num_threads(1)
    limit_to(resource.RLIMIT_CORE, 0)
    limit_memory(memory)
    with suppress(EOFError):
        while True:
            play = connection.recv()
            allow_processor_seconds(cpu_seconds + 1)
            try:
                answer = replay_here(play)
            except MemoryError:
                answer = GameReplay(None, f"its replay takes more than {memory >> 20} MiB")
            connection.send(answer)


def replay_here(play: HandedPlay) -> GameReplay:
    """Play it in this process."""
    from distlib.draw.players.still import still_svg
    from distlib.games.game_list import all_games

    game = all_games()[play.game]
    try:
        result = game.play(play.level, json.loads(play.choices))
        score = game.score(result)
    except (ValueError, TypeError, RecursionError, RuntimeError) as error:
        return GameReplay(None, " ".join(str(error).split())[:_MOST_WORDS] or type(error).__name__)
    if score is None:
        return GameReplay(None, "it does not count: it does not fit, or does not reach the goal")
    scene = game.scene(result)
    return GameReplay(score, svg=still_svg(scene, "currentColor"), alt=scene.alt)


def why_unknown(play: HandedPlay) -> str:
    """Why a play is of no game or level that there is; "" if it is of one."""
    from distlib.games.game_list import all_games

    if type(play.game) is not str or play.game not in all_games():
        return f"there is no game {shown(play.game)}"
    if type(play.level) is not int or play.level not in all_games()[play.game].levels:
        return f"{all_games()[play.game].title} has no level {shown(play.level)}"
    return ""
