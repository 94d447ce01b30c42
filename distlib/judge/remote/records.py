"""Networks and operations that a student's function hands to a helper: `predict_time("ring", nbytes, cluster)`.

    rank    ── {"cluster": ["Cluster", {"nodes": 2, …}]} ──►  judge: Cluster(nodes=2, …)

A rank may send plain values only (see `wire`), so it sends what a record is made of. The judge makes one of it for the
arguments of a helper, and nowhere else.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from distlib.checks.plays.plain_values import plain
from distlib.communicator import ReduceOp
from distlib.network import Cluster, Link

Record = Cluster | Link | ReduceOp


def told_record(record: Record) -> tuple[str, Any]:
    """The kind of a record, and what it is made of, as plain values."""
    made_of = {"value": record.value} if isinstance(record, ReduceOp) else asdict(record)
    return type(record).__name__, plain(made_of)


def record_told(told: Any) -> Record:
    """The record of which a rank has told.

    Raises:
        LookupError, TypeError, ValueError: it makes no sense.
    """
    kind, fields = told
    if kind == "ReduceOp":
        return ReduceOp(**fields)
    if kind == "Link":
        return Link(**fields)
    if kind == "Cluster":
        links = {name: Link(**fields[name]) for name in ("intra", "inter")}
        return Cluster(**{**fields, **links})
    raise ValueError(f"expected a Cluster, a Link or a ReduceOp, got {str(kind)[:40]!r}")
