"""In a sandbox: the collectives are what exercises ask for. Only their arithmetic is there, see `reduction`."""

from __future__ import annotations

from typing import Any

from distlib.judge.sandbox.absent import absent_function


def __getattr__(name: str) -> Any:
    return absent_function(name)
