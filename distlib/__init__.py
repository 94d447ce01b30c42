"""Distributed training, built from send and receive.

from distlib import World, all_reduce

world = World(4)
world.run(lambda comm: comm.rank)        # [0, 1, 2, 3]

The names are in `__init__.pyi`, each with its module, which is loaded when the name is first used, so
that commands such as `distlib lab` need not wait for torch.
"""

import sys

from distlib.lazy_names import lazy_names

__version__ = "0.1.0"
_PASSES_ON = True  # see worlds.call_site: a name that is looked up here is no call of the library

if "ipykernel" in sys.modules:  # in a notebook, the ranks' fork server loads torch in the background
    from distlib.folded_answers import run_only_when_asked as _run_only_when_asked
    from distlib.worlds.real import forkserver as _forkserver

    _forkserver.current()
    _run_only_when_asked()

if "IPython" in sys.modules:
    from distlib.torch_backend.ranks_magic import offer_ranks_magic as _offer_ranks_magic

    _offer_ranks_magic()

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
