"""A framework that may not be there: not every Python has a TensorFlow."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
from types import ModuleType

from distlib.living_line import waiting

FRAMEWORKS = ("tensorflow", "tf_keras", "jax")  # by the names that are imported
_EXTRAS = {"tf_keras": "tensorflow"}  # what brings it, where that has another name
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "GRPC_VERBOSITY": "ERROR"}
"""Environment variables without which they print while they start."""

set_by_imports: dict[str, str] = {}  # environment variables that frameworks have set in this process


def require(name: str) -> ModuleType:
    """Import a framework: "tensorflow", "tf_keras", "jax".

    Raises:
        ImportError: it is not installed, or can't be imported. One sentence, with what to do.
    """
    check_there(name)
    before = dict(os.environ)
    try:
        with waiting(f"{name} to be imported"):
            return importlib.import_module(name)
    except Exception as error:  # a broken installation raises TypeError and others besides ImportError
        text = f"{name} is installed, but can't be imported ({type(error).__name__}: {error}): run `distlib doctor`."
        raise ImportError(text, name=name) from error
    finally:
        set_by_imports.update({name: value for name, value in os.environ.items() if name not in before})


def check_there(name: str) -> None:
    """Look for a framework without importing it.

    Raises:
        ImportError: it is not installed. One sentence, with what to do.
    """
    if not is_there(name):
        raise ImportError(
            f"{name} is not installed. `distlib fetch {_EXTRAS.get(name, name)}` installs it, if there is one for "
            f"Python {platform.python_version()} on {platform.machine()}. Most lessons and exercises don't need it.",
            name=name,
        )


def is_there(name: str) -> bool:
    """Whether a framework is installed. Does not import it."""
    return importlib.util.find_spec(name) is not None
