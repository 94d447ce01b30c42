"""`distlib fetch`: install a framework that a later lesson needs."""

from __future__ import annotations

import sys

from distlib.cli.missing_package import how_to_get
from distlib.cli.saying import say
from distlib.frameworks.on_demand import fetch


def fetch_framework(name: str) -> int:
    """Install it, unless it is there. Returns the exit status."""
    try:
        fetch(name)
    except ImportError as error:
        say(how_to_get(error, "fetch") or str(error), sys.stderr)
        return 1
    say(f"{name} is there.")
    return 0
