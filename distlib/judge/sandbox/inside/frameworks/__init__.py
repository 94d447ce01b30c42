"""`distlib.frameworks` inside the sandbox: a framework if it is there, for a set-up cell, and nothing else."""

from distlib.frameworks.optional import require

__all__ = ["require"]
