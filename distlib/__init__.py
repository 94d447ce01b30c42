"""Distributed training, built from send and receive.

from distlib import World, all_reduce

world = World(4)
world.run(lambda comm: comm.rank)        # [0, 1, 2, 3]
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distlib.names import *  # noqa: F403

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


def __getattr__(name: str) -> object:
    """A name of `distlib.names`. They take torch along, which commands such as `distlib lab` need not wait for.

    Raises:
        ImportError: they can't be imported; it says so where a file next to the script has the name of a library.
    """
    try:
        import distlib.names as names
    except Exception as error:
        from distlib.shadowing import error_of_import

        raise error_of_import(error) from error

    if name != "__all__" and name not in names.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=names)
    return getattr(names, name)


def __dir__() -> list[str]:
    import distlib.names as names

    return sorted({*globals(), *names.__all__})
