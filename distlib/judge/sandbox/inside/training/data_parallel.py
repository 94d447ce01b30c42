"""In a sandbox: the stages of DataParallel, which are not there. Each can be imported, and raises when it is called."""

from __future__ import annotations

from distlib.judge.sandbox.absent import absent_function as __getattr__

__all__ = ["__getattr__"]
