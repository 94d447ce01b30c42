"""Samplers: every rank makes its own, without a message, and says which samples it gets in which epoch."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator


def epochs(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Make `function(comm, dataset, **options)` for several options, and go through each.

    Args:
        inputs: "length" of the data set; "options": a dict for each sampler; "epochs": their numbers, in their order;
            "random_seed".

    Returns:
        "indices": for each sampler, for each epoch, what it gave; "unset": for each, what it gave before set_epoch was
        called; "again": for each, what it gave when the last epoch came once more; "lengths": what len said;
        "random_state": that of torch's generator, which had the seed "random_seed"; "changed": the modules whose common
        generator is not as it was, of Python's random and numpy.random; "hashes_text": whether hash("a text") was
        called, which gives another number in each process.
    """
    torch.manual_seed(inputs["random_seed"])
    indices, lengths, unset, again = [], [], [], []
    before = _generators()
    samples = [f"sample {k}" for k in range(inputs["length"])]  # none of them is an index
    with _without_torchs(), _hashes_of_a_process(function, comm.rank) as hashed:
        for options in inputs["options"]:
            sampler = function(comm, samples, **options)
            unset.append(list(sampler))
            indices.append([_epoch(sampler, epoch) for epoch in inputs["epochs"]])
            again.append(list(sampler))
            lengths.append(len(sampler))
    changed = [name for name, state in _generators().items() if name in before and state != before[name]]
    told = {"changed": changed, "indices": indices, "unset": unset, "again": again, "lengths": lengths}
    return {**told, "random_state": torch.get_rng_state(), "hashes_text": bool(hashed)}


def _generators() -> dict[str, str]:
    """The state of the generators that the whole program shares. numpy's counts if something has imported it."""
    numpy = sys.modules.get("numpy")
    states = {"random": repr(random.getstate())}
    return (
        {**states, "numpy.random": repr(numpy.random.get_state(legacy=False)["state"]["key"].tobytes())}
        if numpy
        else states
    )


def _epoch(sampler: Any, epoch: int) -> list[Any]:
    sampler.set_epoch(epoch)
    return list(sampler)


@contextlib.contextmanager
def _hashes_of_a_process(function: Callable[..., Any], rank: int) -> Iterator[list[Any]]:
    """Let hash("a text") in the student's code differ from rank to rank, as it does between processes."""
    scope = getattr(getattr(function, "__init__", None), "__globals__", {})
    hashed: list[Any] = []

    def differing_hash(value: Any) -> int:
        if not _holds_text(value):
            return hash(value)
        hashed.append(value)
        return hash((rank, value))

    if "hash" in scope:
        yield hashed
        return
    scope["hash"] = differing_hash
    try:
        yield hashed
    finally:
        scope.pop("hash", None)


def _holds_text(value: object) -> bool:
    return isinstance(value, str | bytes) or (isinstance(value, tuple) and any(map(_holds_text, value)))


@contextlib.contextmanager
def _without_torchs() -> Iterator[None]:
    """Torch has a sampler like this; here it raises."""
    theirs = torch.utils.data.DistributedSampler
    before = {name: getattr(theirs, name) for name in ("__init__", "__iter__", "__len__", "set_epoch")}

    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError("torch's DistributedSampler is not there while your own function is graded")

    for name in before:
        setattr(theirs, name, refuse)
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(theirs, name, method)
