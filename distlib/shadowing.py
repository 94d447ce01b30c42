"""Files next to a notebook or a script that have the name of a library: Python imports them in the library's place.

torch.py, random.py or a folder numpy/, for example. The error that comes of it speaks of something else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

_LIBRARIES = ("torch", "numpy", "cloudpickle", "psutil", "greenlet", "matplotlib", "IPython", "distlib")


def shadowing_files(folders: Sequence[str]) -> list[str]:
    """The paths of files and packages in these folders that stand in a library's place."""
    found = (path for folder in dict.fromkeys(map(os.path.abspath, folders)) for path in _suspects(folder))
    return [path for path in found if not _is_the_library(path)]


def said_of_shadows(paths: Sequence[str]) -> str:
    """What is wrong with such files, and what to do."""
    has, it = ("has a name", "it") if len(paths) == 1 else ("have names", "them")
    return (
        f"{' and '.join(paths)} {has} of a library, and Python imports {it} in its place: rename {it}, and start the "
        "kernel or the script again"
    )


def error_of_import(error: Exception) -> Exception:
    """What to raise where an import of the package has failed with `error`: the cause, if a file has a library's name.

    An AttributeError becomes an ImportError, since Python would hide it behind "cannot import name".
    """
    first = sys.path[:1] + [each for each in sys.path if each == ""]  # of the script; of the notebook
    shadows = [path for path in shadowing_files(first) if _is_imported(path)]
    if shadows:
        return ImportError(f"distlib can't be imported: {said_of_shadows(shadows)}")
    return ImportError(f"distlib can't be imported: {error}") if isinstance(error, AttributeError) else error


def _suspects(folder: str) -> Iterator[str]:
    names = {*_LIBRARIES, *sys.stdlib_module_names}
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return
    for entry in entries:
        path = os.path.join(folder, entry)
        if entry.endswith(".py") and entry[:-3] in names:
            yield path
        elif entry in names and os.path.isfile(os.path.join(path, "__init__.py")):
            yield path


def _is_imported(path: str) -> bool:
    module = sys.modules.get(os.path.splitext(os.path.basename(path))[0])
    return os.path.abspath(getattr(module, "__file__", None) or "").startswith(path)


def _is_the_library(path: str) -> bool:
    """Whether the path is the library itself, in a folder where one works on it, as on this project."""
    name = os.path.splitext(os.path.basename(path))[0]
    return name == "distlib" or os.path.realpath(os.path.dirname(path)) in _standard_folders()


def _standard_folders() -> set[str]:
    return {
        os.path.realpath(os.path.dirname(os.__file__)),
        os.path.realpath(os.path.dirname(os.path.dirname(__file__))),
    }
