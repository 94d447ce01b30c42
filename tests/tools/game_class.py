"""A made-up class that has played the games: what its students hand in, drawn with a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distlib.games.game_list import all_games
from distlib.games.handed_plays import plays_notebook
from distlib.games.my_games import BestPlay, MyGames
from distlib.training.schedules.puzzle import level_of
from distlib.training.strategy.cluster_game import cluster_level
from distlib.training.zero.memory_golf import hole_of

AT = "2026-12-01T12:00:00+00:00"


def draw_choices(rng: random.Random, game: str, level: int) -> dict[str, Any]:
    """What a student may have chosen: the authors' record, or numbers near it that may not be played at all."""
    record = all_games()[game].record(level)
    if rng.random() < 0.2:
        return record
    return {"server": _server, "grid": _grid, "golf": _golf, "layout": _layout}[game](rng, level)


def _server(rng: random.Random, level: int) -> dict[str, Any]:
    bound = rng.choice([0, 0, 2, 8, "infinity"])
    backups = rng.choice([0, 1]) if bound == 0 else 0
    return {
        "rate": rng.choice([1.6, 2.4, 3.2, 4.8, 6.4]),
        "servers": rng.randint(1, 4),
        "bound": bound,
        "backups": backups,
    }


def _grid(rng: random.Random, number: int) -> dict[str, Any]:
    """1F1B with some warm-up on each rank."""
    level = level_of(number)
    rows = []
    for rank in range(level.ranks):
        ahead = min(level.room, level.ranks - rank + rng.randint(0, 1))
        row = [f"F{each}" for each in range(ahead)]
        for each in range(level.microbatches):
            row += [f"I{each}", f"W{each}"] if level.halves and rng.random() < 0.7 else [f"B{each}"]
            row += [f"F{each + ahead}"] if each + ahead < level.microbatches else []
        rows.append(" ".join(row))
    return {"rows": rows}


def _golf(rng: random.Random, number: int) -> dict[str, Any]:
    return {
        "stage": rng.randint(0, 3),
        "blocks_per_unit": rng.choice([1, 1, 2, 4]),
        "checkpointed": rng.randint(0, hole_of(number).blocks),
        "microbatches": rng.choice([1, 2, 4, 8]),
        "prefetch": rng.random() < 0.8,
        "reshard": rng.random() < 0.5,
    }


def _layout(rng: random.Random, number: int) -> dict[str, Any]:
    level = cluster_level(number)
    ranks = level.cluster.world_size
    tp = rng.choice([each for each in (1, 2, 4, 8) if ranks % each == 0])
    pp = rng.choice([each for each in (1, 2, 4, 8) if ranks // tp % each == 0])
    dp = ranks // tp // pp
    return {
        "dp": dp,
        "pp": pp,
        "tp": tp,
        "stage": rng.randint(0, 3),
        "microbatches": rng.choice(
            [each for each in (1, 2, 4, 8, 16) if level.batch % (ranks // tp // pp * each) == 0]
        ),
        "recompute": rng.choice(["none", "attention", "full"]),
        "order": rng.choice(["dp-pp-tp", "pp-dp-tp", "tp-dp-pp"]),
        "layers": None,
    }


def handed_in(plays: Sequence[tuple[str, int, dict[str, Any]]], pseudonym: str = "") -> str:
    """The notebook that a student hands in."""
    kept = tuple(BestPlay(*(name, "", "", level, "", 0, "", False, 0, AT, choices)) for name, level, choices in plays)
    return plays_notebook(MyGames(kept, pseudonym))


def put_games(submitted: Path, student: str, notebook: str) -> Path:
    """Put a hand-in where `distlib collect games` puts it."""
    folder = submitted / student / "games"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "games.ipynb").write_text(notebook, encoding="utf-8")
    return folder / "games.ipynb"


def make_game_class(submitted: Path, students: int, seed: int = 0) -> int:
    """Hand in for a class: five plays for each student, of every game at least one; two thirds have a pseudonym.

    Returns how many plays there are.
    """
    rng, number = random.Random(seed), 0
    levels = {game.name: list(game.levels) for game in all_games().values()}
    for student in range(students):
        chosen = [(name, rng.choice(of_game)) for name, of_game in levels.items()]
        others = [(name, level) for name, of_game in levels.items() for level in of_game if (name, level) not in chosen]
        chosen += rng.sample(others, max(0, 5 - len(chosen)))
        plays = [(name, level, draw_choices(rng, name, level)) for name, level in chosen]
        pseudonym = f"{rng.choice(['Night', 'Tide', 'Quiet', 'Amber'])} Owl {student}" if student % 3 else ""
        put_games(submitted, f"student-{student:03}", handed_in(plays, pseudonym))
        number += len(plays)
    return number
