"""`distlib hand-in`: the saved notebook of an exercise, or plays of the games, on their way to the instructor."""

from __future__ import annotations

import argparse
import sys

from distlib.classroom.uploads.hand_in import Declined, HandInError, Interrupted, hand_in_notebook
from distlib.classroom.uploads.hand_in_games import GamesReceipt, hand_in_games
from distlib.classroom.uploads.receipt import Receipt
from distlib.cli.check import run_check
from distlib.cli.saying import say
from distlib.games.handed_plays import ASSIGNMENT as GAMES


def hand_in_from_terminal(options: argparse.Namespace) -> int:
    """Hand in, and print the receipt. Returns 0, or 1 if nothing was handed in.

    options: assignment, name, notebook, yes, again; see `distlib hand-in --help`.
    """
    try:
        receipt = _hand_in(options)
    except Declined as answer:
        say(str(answer))
        return 1
    except HandInError as error:
        say(f"Not handed in: {error}", sys.stderr)
        return 130 if isinstance(error, Interrupted) else 1
    except KeyboardInterrupt:
        say("\nStopped. Nothing was handed in.", sys.stderr)
        return 130
    say(str(receipt))
    return 0


def _hand_in(options: argparse.Namespace) -> Receipt | GamesReceipt:
    if options.assignment == GAMES:
        return hand_in_games(options.name)
    return hand_in_notebook(
        options.assignment,
        student=options.name,
        notebook=options.notebook,
        sure=options.yes,
        again=options.again,
        ran=(),
        check=run_check if sys.stdin.isatty() else None,
    )
