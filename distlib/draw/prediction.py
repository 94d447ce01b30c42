"""A number that a student commits to before a run, and compares with it after.

    prediction = predict("How many bytes does rank 0 receive?", unit="MB")     a field and a button; Enter commits
    …                                                                          the run
    prediction.compare(actual)                                                 "You said 24 MB, the run says 18 MB: …"

It is never graded, and nothing depends on it: without a prediction (nobody typed one, or the notebook runs without a
browser) the comparison says the answer.
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from typing import Any

from distlib.draw.quantity import parse_quantity, units_agree
from distlib.draw.style import format_number


@dataclass(frozen=True)
class Comparison:
    """What a prediction and a run say. Shows itself as a sentence.

    Attributes:
        predicted: the number that was committed to, or None.
        actual: what the run says, or None if it is no number.
        text: the sentence.
    """

    predicted: float | None
    actual: float | None
    text: str

    @property
    def ratio(self) -> float | None:
        """predicted / actual; None without a prediction, or where the run says 0."""
        return self.predicted / self.actual if self.predicted is not None and self.actual else None

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.text)}</p>"


class Prediction:
    """A question and, once it is committed, a number. Made by `predict`.

    Attributes:
        question, unit: as given.
        value: the number that was committed, in `unit`; None before.
        typed: what was typed; "" before.
    """

    def __init__(self, question: str, unit: str = "") -> None:
        self.question = question
        self.unit = unit
        self.value: float | None = None
        self.typed = ""

    @property
    def committed(self) -> bool:
        """Whether a number was committed. From then on it does not change."""
        return self.value is not None

    def commit(self, text: str | float) -> None:
        """Commit to a number, as the button does. A second commit changes nothing.

        Raises:
            ValueError: the text can't be read as a number of `unit`.
        """
        if self.committed:
            return
        self.value = parse_quantity(str(text), self.unit)
        self.typed = str(text).strip()

    def compare(self, actual: Any, source: str = "the run") -> Comparison:
        """What was predicted beside what came out. Never raises.

        Args:
            actual: a number in `unit` (also a tensor or array with one element), or text such as "18 MB".
            source: who says it: "the run", "the formula", …
        """
        number = _to_number(actual, self.unit)
        told = f"{source} says {_with_unit(number, self.unit) if number is not None else actual}."
        if self.value is None:
            return Comparison(None, number, f"{told[0].upper()}{told[1:]} (No prediction was committed.)")
        verdict = "" if number is None else f" {_judge(self.value, number, source)}"
        return Comparison(self.value, number, f"You said {self._said()}, {told}{verdict}")

    def _said(self) -> str:
        """What was committed; if it was typed as an expression or in another unit, both as typed and as a number."""
        assert self.value is not None
        number = _with_unit(self.value, self.unit)
        plain = re.fullmatch(r"[\d.,_e]+\s*([^\W\d_]*|%)", self.typed)
        same_unit = plain and (not plain[1] or units_agree(plain[1], self.unit))
        return number if same_unit else f"{self.typed}, which is {number}"

    def __repr__(self) -> str:
        state = f"committed: {_with_unit(self.value, self.unit)}" if self.value is not None else "not committed"
        return f"<Prediction: {self.question} ({state})>"


def predict(question: str, unit: str = "") -> Prediction:
    """Ask for a number before a run. In a notebook, shows a field and a button at once.

    Args:
        question: one sentence.
        unit: of the answer: a unit of bytes or time, or a word such as "rounds", or "" for a bare number. What is typed
            in another unit of the same kind is converted.

    Returns:
        The prediction; `prediction.compare(actual)` after the run.
    """
    prediction = Prediction(question, unit)
    if _in_notebook():
        _show_form(prediction)
    return prediction


# ── comparing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _to_number(actual: Any, unit: str) -> float | None:
    try:
        return parse_quantity(actual, unit) if isinstance(actual, str) else float(actual)
    except Exception:  # whatever was given: a comparison never stops a notebook
        return None


def _judge(predicted: float, actual: float, source: str) -> str:
    """One kind sentence: right, close, or how far off and in which direction."""
    if math.isclose(predicted, actual):
        return "That is right."
    if min(predicted, actual) <= 0 or not math.isfinite(actual):
        return f"The difference is {format_number(abs(predicted - actual))}."
    ratio = max(predicted, actual) / min(predicted, actual)
    if ratio < 1.05:
        return f"That is close: within {format_number(float(f'{100 * (ratio - 1):.2g}'))} percent."
    times = format_number(float(f"{ratio:.3g}"))
    if predicted > actual:
        return f"Your number is {times} times that of {source}."
    return f"That of {source} is {times} times yours."


def _with_unit(value: float, unit: str) -> str:
    word = unit[:-1] if value == 1 and len(unit) > 3 and unit.endswith("s") and units_agree(unit, unit[:-1]) else unit
    space = "" if word == "%" else " "
    return f"{format_number(value)}{space}{word}".strip()


# ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_notebook() -> bool:
    """Whether this is a Jupyter kernel. There may be no browser before it, which a kernel can't know."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def _show_form(prediction: Prediction) -> None:
    """Show the question with its field, and the question as text where widgets are not shown (nbconvert, print)."""
    from IPython.display import display

    form = build_form(prediction)
    view = form._repr_mimebundle_() or {}
    question = f"{prediction.question} (Predict, then run on.)"
    display({**view, "text/plain": question}, raw=True)


def build_form(prediction: Prediction) -> Any:
    """The widget: the question, a field, a button, and a line that answers. Enter and the button commit."""
    import ipywidgets

    hint = f"a number of {prediction.unit}" if prediction.unit else "a number, such as 24 or 2*(4-1)/4"
    field = ipywidgets.Text(
        placeholder=hint,
        description="Your prediction:",
        style={"description_width": "initial"},
        layout={"width": "26em"},
    )
    button = ipywidgets.Button(description="Commit", tooltip="Fix your prediction; Enter does the same")
    question = ipywidgets.HTML(f"<b>{html.escape(prediction.question)}</b>")
    answer = ipywidgets.HTML("")

    def commit(*_: Any) -> None:
        try:
            prediction.commit(field.value)
        except ValueError as error:
            answer.value = html.escape(f"Not yet: {error}.")
            return
        field.disabled = button.disabled = True
        button.description = "Committed"
        answer.value = html.escape(f"Committed: {prediction._said()}.")

    def on_message(_: Any, content: Any, __: Any) -> None:
        if isinstance(content, dict) and content.get("event") == "submit":  # what the field sends on Enter
            commit()

    button.on_click(commit)
    field.on_msg(on_message)
    return ipywidgets.VBox([question, ipywidgets.HBox([field, button]), answer])
