"""`%%ranks 4`: the text of a cell as a whole program on four ranks.

    %%ranks 4 --epochs 3                     as  torchrun --nproc-per-node 4 cell.py --epochs 3
    import torch.distributed as dist
    dist.init_process_group("gloo")
    …

The world of each size is kept from one such cell to the next. Nothing of the notebook is known to the program.
"""

from __future__ import annotations

import shlex
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes torch along
    from distlib.worlds.real.world import World

_USAGE = "%%ranks expects a number of ranks, and then the program's own arguments: try %%ranks 4"
_worlds: dict[int, World] = {}


def offer_ranks_magic() -> None:
    """Give the notebook of this process the cell magic `%%ranks`. Outside of IPython: nothing."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.register_magic_function(_ranks, "cell", "ranks")


def _ranks(line: str, cell: str) -> None:
    """Run this cell as a whole program of torch.distributed: %%ranks NUMBER [the program's arguments]."""
    from IPython import get_ipython
    from IPython.core.error import UsageError

    from distlib.torch_backend.whole_program import run_program
    from distlib.worlds.real.world import World

    size, *argv = shlex.split(line) or [""]
    if not size.isdecimal() or int(size) < 1:
        raise UsageError(_USAGE)
    if int(size) not in _worlds:
        _worlds[int(size)] = World(int(size))
    source = "\n" + cell  # the first line of the cell is that of the magic
    shell: Any = get_ipython()
    file = shell.compile.cache(source, _number_of_cell(shell.execution_count))
    run_program(_worlds[int(size)], source, argv, file=file)


def _number_of_cell(usual: int) -> int:
    """The number of the cell that is running."""
    from distlib.worlds.call_site import learn_cells

    cells = learn_cells()
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename not in cells:
        frame = frame.f_back
    return cells[frame.f_code.co_filename] if frame is not None else usual
