"""In a sandbox: links and clusters. The formulas for costs, which exercises ask for, raise when they are called."""

from __future__ import annotations

from distlib.judge.sandbox.absent import absent_function as __getattr__
from distlib.network.cluster import DEFAULT_LINK, Cluster, Link

__all__ = ["DEFAULT_LINK", "Cluster", "Link", "__getattr__"]
