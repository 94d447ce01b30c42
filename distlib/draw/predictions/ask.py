"""`predict`: asks for an answer before a run; in a notebook with a form.

Who has pressed Commit is in that cell, and the next Shift+Enter runs it again. So a notebook's kernel keeps each
question with its answer: asked again, it is the same one, committed or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from distlib.draw.predictions.answer_kinds import Kind, Number, OneOf, Order
from distlib.draw.predictions.prediction import Prediction

_asked: dict[tuple[Any, ...], Prediction] = {}  # in this notebook, by all that was asked


def predict(
    question: str, unit: str = "", *, choices: Iterable[Any] | None = None, order: Iterable[Any] | None = None
) -> Prediction:
    """Ask for an answer before a run. In a notebook, shows a form at once. By default it asks for a number.

    The same question asked again in the same notebook is the same prediction, with what was committed.

    Args:
        question: one sentence.
        unit: of a number: a unit of bytes or time, or a word such as "rounds", or "" for a bare number. What is typed
            in another unit of the same kind is converted.
        choices: at least 2 different words, one of which is the answer.
        order: at least 2 different words, to be put into an order.

    Returns:
        The prediction; `prediction.compare(actual)` after the run.

    Raises:
        ValueError: more than one of `unit`, `choices` and `order`; fewer than 2 words, or the same one twice.
    """
    prediction = Prediction(question, kind=_kind(unit, choices, order))
    if not _in_notebook():
        return prediction
    from distlib.draw.predictions.form import show_form  # loads widgets, which only a notebook needs

    kind = prediction.kind
    prediction = _asked.setdefault((question, unit, kind.name, kind.options), prediction)
    show_form(prediction)
    return prediction


def _kind(unit: str, choices: Iterable[Any] | None, order: Iterable[Any] | None) -> Kind:
    given = {"unit": unit or None, "choices": choices, "order": order}
    names = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"expected a unit, choices or an order, at most one of them, got {' and '.join(names)}")
    if choices is not None:
        return OneOf(choices)
    return Order(order) if order is not None else Number(unit)


def _in_notebook() -> bool:
    """Whether this is a Jupyter kernel. There may be no browser before it, which a kernel can't know."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None
