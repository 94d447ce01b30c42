"""An answer that a student commits to before a run, and compares with what came out.

    guess = predict("How many bytes does rank 0 receive?", unit="MB")                 a field; Enter commits
    guess = predict("Which is fastest?", choices=["master", "ring", "tree"])          one of several
    guess = predict("Order them, fastest first.", order=["master", "ring", "tree"])   pressed one after the other
    …                                                                                 the run
    print(guess.compare(18))               "You said 24 MB, the run says 18 MB. Your number is 1.33 times …"
    print(guess.compare("tree"))           "You said ring, the run says tree. Not this time: …"
    print(guess.compare(["tree", "ring", "master"]))    "… Only master and ring are swapped."

It is never graded, and nothing depends on it: without a prediction (nobody made one, or the notebook runs without a
browser) the comparison says the answer.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from distlib.draw.predictions.answer_kinds import Kind, Number, Value

COMMITTED = "You committed: "  # before what was committed, where the form can't be shown
COMMITTED_LATE = "You committed after the run: "  # likewise, if a run had told the answer before
NOT_COMMITTED = " (No prediction was committed.)"  # behind what came out


@dataclass(frozen=True)
class PredictionCheck:
    """What a prediction and a run say. Shows itself as a sentence.

    Attributes:
        predicted: what was committed to, or None: a number, a choice, or an order as a tuple.
        actual: what the run says, likewise; None if a number was asked for and it is no number.
        text: the sentence.
    """

    predicted: Value | None
    actual: Value | None
    text: str

    @property
    def ratio(self) -> float | None:
        """predicted / actual; None without a prediction, where the run says 0, and where no number was asked for."""
        if isinstance(self.predicted, float) and isinstance(self.actual, float) and self.actual:
            return self.predicted / self.actual
        return None

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.text)}</p>"


class Prediction:
    """A question and, once it is committed, an answer. Made by `predict`.

    Attributes:
        question: as given.
        kind: how an answer is read and judged: a `Number`, a `Choice` or an `Order`.
        value: what was committed: a number in the unit, a choice, or an order as a tuple; None before.
        typed: what was typed or pressed; "" before.
        is_late: whether a run had told the answer when it was committed.
    """

    def __init__(self, question: str, unit: str = "", kind: Kind | None = None) -> None:
        self.question = question
        self.kind: Kind = kind or Number(unit)
        self.value: Value | None = None
        self.typed: Any = ""
        self.is_late = self._was_told = False

    @property
    def committed(self) -> bool:
        """Whether an answer was committed. From then on it does not change, unless it is taken back."""
        return self.value is not None

    def commit(self, answer: Any) -> None:
        """Commit to an answer, as the button does: a number or text, a choice, or a list. A second one changes nothing.

        Raises:
            ValueError: it is no number of the unit, none of the choices, or not each item once.
        """
        if not self.committed:
            self.value = self.kind.read(answer)
            self.typed, self.is_late = answer, self._was_told

    def take_back(self) -> None:
        """Be as before an answer was committed."""
        self.value, self.typed, self.is_late = None, "", False

    def compare(self, actual: Any, source: str = "the run") -> PredictionCheck:
        """What was predicted next to what came out.

        Args:
            actual: what came out. A number in the unit (also a tensor or array with one element) or text such as
                "18 MB"; one of the choices; or the items as a list in their order.
            source: what says it: "the run", "the formula", …

        Raises:
            ValueError: `actual` is none of the choices, or not each item once: it belongs to another question, one that
                has used the same variable, or is a mistake of the notebook's author.
        """
        found, self._was_told = self._find(actual), True
        told = f"{source} says {self.kind.say(found) if found is not None else actual}."
        if self.value is None:
            return PredictionCheck(None, found, f"{told[0].upper()}{told[1:]}{NOT_COMMITTED}")
        verdict = "" if found is None else f" {self.kind.judge(self.value, found, source)}"
        return PredictionCheck(self.value, found, f"You said {self.said}, {told}{verdict}")

    def _find(self, actual: Any) -> Any:
        try:
            return self.kind.find(actual)
        except ValueError as error:
            raise ValueError(
                f'{error}. This is compared with the prediction of "{self.question}" If another question stands above '
                "this cell, run the cell with that question again, and then this one."
            ) from None

    @property
    def said(self) -> str:
        """What was committed, in words; "" before."""
        return self.kind.recall(self.value, self.typed) if self.committed else ""

    def __repr__(self) -> str:
        state = f"committed: {self.kind.say(self.value)}" if self.committed else "not committed"
        return f"<Prediction: {self.question} ({state})>"
