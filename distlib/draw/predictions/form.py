"""The form of a prediction: a field, choices, or buttons to press in an order, and a line that says how it stands.

The typed text goes to the kernel together with the wish to commit, in one message: if each key were sent by itself, the
last ones could still be under way when Enter arrives. The kernel answers with a new `answered`. If it does not, it is
busy, or it was restarted and knows nothing of this form: the browser then says what to do.
"""

from __future__ import annotations

import html
from typing import Any

import anywidget
import traitlets

from distlib.draw.live import BROWSER, instead_html, show_live
from distlib.draw.predictions.prediction import COMMITTED, COMMITTED_LATE, Prediction

RUN_AGAIN = "To make a prediction, run this cell."


class PredictionForm(anywidget.AnyWidget):
    """The form in the browser.

    Attributes:
        question, kind, options, hint: of the prediction, see `answers.Kind`.
        said: what was committed, in words; "" before.
        chosen: what was committed, as it was typed or pressed, to fill the form of a page that is opened again.
        problem: what could not be read in the last attempt.
        answered: how many attempts to commit the kernel has answered.
    """

    _esm = BROWSER / "form.js"
    _css = BROWSER / "form.css"
    question = traitlets.Unicode().tag(sync=True)
    kind = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.Unicode()).tag(sync=True)
    hint = traitlets.Unicode().tag(sync=True)
    said = traitlets.Unicode().tag(sync=True)
    chosen = traitlets.Any("").tag(sync=True)
    problem = traitlets.Unicode().tag(sync=True)
    answered = traitlets.Int(0).tag(sync=True)


def build_form(prediction: Prediction) -> PredictionForm:
    """The widget of a prediction, which commits what the browser sends, and takes it back when it asks for that."""
    kind = prediction.kind
    form = PredictionForm(
        question=prediction.question,
        kind=kind.name,
        options=list(kind.options),
        hint=kind.hint,
        said=_said(prediction),
        chosen=prediction.typed,
    )

    def on_message(_: Any, content: Any, __: Any) -> None:
        if isinstance(content, dict) and "commit" in content:
            _commit(form, prediction, content["commit"])
        elif isinstance(content, dict) and "take_back" in content:
            prediction.take_back()
            _answer(form, prediction, "")

    form.on_msg(on_message)
    return form


def _commit(form: PredictionForm, prediction: Prediction, answer: Any) -> None:
    problem = ""
    try:
        prediction.commit(answer)
    except ValueError as error:
        problem = f"Not yet: {error}."
    _answer(form, prediction, problem)


def _answer(form: PredictionForm, prediction: Prediction, problem: str) -> None:
    """Show the browser how the prediction stands."""
    with form.hold_sync():  # the browser gets all of it at once
        form.problem, form.said, form.chosen = problem, _said(prediction), prediction.typed
        form.answered += 1


def _said(prediction: Prediction) -> str:
    return f"{prediction.said}, after the run" if prediction.is_late else prediction.said


def show_form(prediction: Prediction) -> None:
    """Show the form, and the question as text where there are no widgets (nbconvert, a notebook opened again)."""
    form = build_form(prediction)
    words = f"{prediction.question} (Predict, then run on.)"
    handle = show_live(form, words, _instead(prediction))

    def keep(_: Any) -> None:  # so that a notebook opened again says what was committed
        handle.update({"text/plain": "", "text/html": instead_html(_instead(prediction))}, raw=True)

    form.observe(keep, names="said")


def _instead(prediction: Prediction) -> str:
    """What a page without the form shows: the question, and what was committed or how to commit."""
    committed = COMMITTED_LATE if prediction.is_late else COMMITTED
    said = f"{committed}{prediction.said}. " if prediction.committed else ""
    return (
        f"<p><b>{html.escape(prediction.question)}</b></p>"
        f"<p>{html.escape(_options(prediction))}{html.escape(said)}{RUN_AGAIN}</p>"
    )


def _options(prediction: Prediction) -> str:
    return f"({', '.join(prediction.kind.options)}) " if prediction.kind.options else ""
