"""The head of a script that becomes a rank in the middle of its own lines: a process that rank 0 starts.

It is not forked, as that of `distlib launch` is: by then the script may have threads, or use a GPU.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from distlib.launch.environment import Placement
from distlib.launch.head_process import be_head
from distlib.launch.rendezvous import Rendezvous
from distlib.launch.script_rank import hand_over, meeting_of
from distlib.worlds import pickling

NAME = 'the backend "distlib"'


def main() -> int:
    """Be the head of the ranks that stdin tells of, as `script_rank` writes it."""
    told: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    given = told["placement"]
    placement = Placement(**{**given, "store": tuple(given["store"]) if given["store"] else None})
    patience = float(told["patience"])

    def find() -> Rendezvous:
        return meeting_of(placement, patience)

    return be_head(
        placement, find, pickling.pack_call(hand_over, (), {}), int(told["parent"]), patience=patience, name=NAME
    )


if __name__ == "__main__":
    sys.exit(main())
