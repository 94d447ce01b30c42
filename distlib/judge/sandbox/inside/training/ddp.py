"""In a sandbox: distlib.training.ddp, which is not there. Its names can be imported, and raise when they are called."""

from __future__ import annotations

from distlib.judge.sandbox.absent import absent_function as __getattr__

__all__ = ["__getattr__"]
