"""In a sandbox: the library's `distlib.ddp`, which is not there. Each name can be imported, and raises when called."""

from __future__ import annotations

from distlib.grading.sandbox.absent import absent_function as __getattr__

__all__ = ["__getattr__"]
