"""On a rank: what the names of a check's helpers lead to. The judge does their work; only values and tensors travel.

    all_reduce(comm, tensor, async_op=True)  ──"helper"──►  the helper, on the judge's side of this rank
    work.wait()                              ──"wait"────►  … until it is done;  the result  ──►  into tensor

So no code of a helper is in the sandbox, where a student could take it for an answer. What is known of it here, the
judge says with each play: its `HelperForm`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from distlib.checks.helper_form import HelperForm
from distlib.checks.plays.plain_values import plain
from distlib.checks.student_communicator import noted
from distlib.judge.remote.rank_communicator import RankCommunicator, RemoteWork, ask, fill
from distlib.judge.remote.records import Record, told_record
from distlib.judge.remote.wire import Wire


class _NotGiven:
    """The default of every parameter: the helper has its own."""


def supplied_helper(form: HelperForm, wire: Wire) -> Callable[..., Any]:
    """The function that a helper's name leads to. It has the helper's parameters: Python's errors name them."""
    parameters = ", ".join(each.replace("=", "=_not_given") for each in form.parameters)
    scope: dict[str, Any] = {"__name__": __name__, "_not_given": _NotGiven, "_call": partial(_call, form, wire)}
    exec(compile(f"def {form.name}({parameters}): return _call(locals())", __file__, "exec"), scope)
    function: Callable[..., Any] = scope[form.name]
    return function


def _call(form: HelperForm, wire: Wire, values: dict[str, Any]) -> Any:
    given = {name: value for name, value in values.items() if value is not _NotGiven}
    comm = given.pop("comm") if form.takes_comm else None
    inside = form.communicator(comm) if form.takes_comm else None
    assert inside is None or isinstance(inside, RankCommunicator)
    given = form.with_tensors(given)
    told = ask(
        wire,
        "helper",
        group=inside.group if inside else None,
        name=form.name,
        given={name: plain(value) for name, value in given.items() if not isinstance(value, Record)},
        records={name: told_record(value) for name, value in given.items() if isinstance(value, Record)},
    )
    if told["work"] is not None:
        return noted(comm, RemoteWork(wire, told["work"], form.changed(given)), form.name)
    fill(form.changed(given), told["changed"])
    return told["value"]
