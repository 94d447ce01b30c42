"""Predictions: what can be typed, what is answered, and the form."""

from __future__ import annotations

import json
import math
from typing import Any

import nbformat
import pytest
import torch
from hypothesis import given, strategies as st
from nbclient import NotebookClient

from distlib.authoring.lesson_run import kernel_without_ports
from distlib.draw import predict
from distlib.draw.predictions import ask, form as form_module
from distlib.draw.predictions.form import PredictionForm, build_form
from distlib.draw.predictions.prediction import Prediction
from distlib.draw.predictions.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("24", "", 24),
        (" 24 MB ", "MB", 24),
        ("24MB", "B", 24e6),
        ("24e6", "B", 24e6),
        ("1.5 GiB", "MiB", 1536),
        ("1 kb", "B", 1000),
        ("3 bytes", "B", 3),
        ("1/2", "", 0.5),
        ("2*(4-1)/4", "", 1.5),
        ("2(4-1)/4 MB", "MB", 1.5),
        ("2·3×4÷6−1", "", 3),
        ("2^10", "", 1024),
        ("2**-1", "", 0.5),
        ("-(3)", "", -3),
        ("50%", "", 0.5),
        ("50 %", "%", 50),
        ("1,000,000", "", 1e6),
        ("1_000", "", 1000),
        (".5", "", 0.5),
        ("5.", "", 5),
        ("6 rounds", "rounds", 6),
        ("1 round", "rounds", 1),
        ("250 us", "ms", 0.25),
        ("250µs", "ms", 0.25),
        ("2 seconds", "s", 2),
        ("2 min", "s", 120),
        ("(1+2)*3 messages", "messages", 9),
    ],
)
def test_what_people_type_is_read(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("", ""),
        ("   ", ""),
        ("a lot", ""),
        ("about 24", ""),
        ("24 rounds", "messages"),
        ("24 MB", "s"),
        ("24 MB", ""),
        ("24 MB MB", "MB"),
        ("1,5", ""),
        ("1 2", ""),
        ("1/0", ""),
        ("9**9**9**9", ""),
        ("1e999", ""),
        ("(-8)**0.5", ""),
        ("__import__('os')", ""),
        ("len", ""),
        ("[1]", ""),
        ("1 if 1 else 2", ""),
        ("True", ""),
        ("1j", ""),
        ("'1'", ""),
        ("((((((", ""),
        ("1;2", ""),
        ("1\n2", ""),
        ("nan", ""),
        ("1" * 101, ""),
    ],
)
def test_what_can_not_be_read_is_one_clear_error(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match="^expected "):
        parse_quantity(text, unit)


@given(st.text(max_size=120), st.sampled_from(["", "MB", "s", "rounds", "%"]))
def test_any_text_is_a_number_or_one_clear_error(text: str, unit: str) -> None:
    try:
        assert math.isfinite(parse_quantity(text, unit))
    except ValueError as error:
        assert str(error).startswith("expected ")


@given(st.text(alphabet="0123456789.+-*/()^% e,", max_size=30))
def test_any_arithmetic_is_a_number_or_one_clear_error(text: str) -> None:
    try:
        assert math.isfinite(parse_quantity(text))
    except ValueError as error:
        assert str(error).startswith("expected ")


@given(st.integers(-1000, 1000), st.integers(1, 1000), st.sampled_from("+-*/"))
def test_arithmetic_is_that_of_python(left: int, right: int, sign: str) -> None:
    expected = {"+": left + right, "-": left - right, "*": left * right, "/": left / right}[sign]
    assert parse_quantity(f"{left} {sign} {right}") == pytest.approx(expected)


@given(st.floats(1e-3, 1e12, allow_nan=False))
def test_what_is_said_back_can_be_typed(value: float) -> None:
    prediction = Prediction("How many?", "MB")
    prediction.commit(f"{value!r} MB")
    assert prediction.value == pytest.approx(value)
    said = prediction.compare(value).text
    assert said.startswith("You said ") and said.endswith("That is right.")


@pytest.mark.parametrize(
    ("typed", "unit", "actual", "text"),
    [
        ("18", "MB", 18.0, "You said 18 MB, the run says 18 MB. That is right."),
        ("24 MB", "MB", 18, "You said 24 MB, the run says 18 MB. Your number is 1.33 times that of the run."),
        ("6", "MB", 18, "You said 6 MB, the run says 18 MB. That of the run is 3 times yours."),
        ("17.5", "MB", 18, "You said 17.5 MB, the run says 18 MB. That is close: within 2.9 percent."),
        ("2*(4-1)/4", "", 1.5, "You said 2*(4-1)/4, which is 1.5, the run says 1.5. That is right."),
        ("18000 kB", "MB", 18, "You said 18000 kB, which is 18 MB, the run says 18 MB. That is right."),
        ("1 round", "rounds", 6, "You said 1 round, the run says 6 rounds. That of the run is 6 times yours."),
        ("-3", "", 6, "You said -3, the run says 6. The difference is 9."),
        ("0", "messages", 6, "You said 0 messages, the run says 6 messages. The difference is 6."),
        ("3", "messages", 0, "You said 3 messages, the run says 0 messages. The difference is 3."),
        ("50%", "%", 50, "You said 50%, the run says 50%. That is right."),
        ("1", "MB", "18 MB", "You said 1 MB, the run says 18 MB. That of the run is 18 times yours."),
        ("1", "MB", "many", "You said 1 MB, the run says many."),
        ("1", "MB", None, "You said 1 MB, the run says None."),
        ("1,000", "B", 1000, "You said 1,000 B, the run says 1,000 B. That is right."),
        ("3", "", float("inf"), "You said 3, the run says inf. The difference is inf."),
        ("3", "", float("nan"), "You said 3, the run says nan. The difference is nan."),
    ],
)
def test_a_comparison_says_both_numbers(typed: str, unit: str, actual: Any, text: str) -> None:
    prediction = Prediction("How many?", unit)
    prediction.commit(typed)
    comparison = prediction.compare(actual)
    assert comparison.text == repr(comparison) == text


def test_a_comparison_names_who_says_it() -> None:
    prediction = Prediction("How long?", "ms")
    assert prediction.compare(2.5, "the formula").text == "The formula says 2.5 ms. (No prediction was committed.)"
    prediction.commit("5")
    text = "You said 5 ms, the formula says 2.5 ms. Your number is 2 times that of the formula."
    assert prediction.compare(2.5, source="the formula").text == text


def test_a_comparison_carries_its_numbers() -> None:
    prediction = Prediction("How many?", "MB")
    prediction.commit("24")
    comparison = prediction.compare(torch.tensor(18))
    assert (comparison.predicted, comparison.actual, comparison.ratio) == (24, 18, pytest.approx(4 / 3))
    assert prediction.compare(0).ratio is None


def test_without_a_prediction_the_run_says_it_alone() -> None:
    prediction = Prediction("How many?", "MB")
    assert repr(prediction.compare(18)) == "The run says 18 MB. (No prediction was committed.)"
    assert prediction.compare(18).ratio is None
    assert "<p>" in prediction.compare("<b>")._repr_html_() and "<b>" not in prediction.compare("<b>")._repr_html_()


def test_a_commitment_does_not_change() -> None:
    prediction = predict("How many rounds?", unit="rounds")
    assert not prediction.committed
    with pytest.raises(ValueError, match="expected a number of rounds"):
        prediction.commit("many")
    assert not prediction.committed
    prediction.commit(6)
    prediction.commit("12")
    assert (prediction.committed, prediction.value) == (True, 6)
    assert repr(prediction) == "<Prediction: How many rounds? (committed: 6 rounds)>"


def test_outside_of_a_notebook_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    predict("How many?", unit="MB").compare(1)
    assert capfd.readouterr() == ("", "")


# ── choices and orders ───────────────────────────────────────────────────────────────────────────────────────────────


NAMES = ["master", "ring", "tree"]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("tree", "You said tree, the run says tree. That is right."),
        ("ring", "You said ring, the run says tree. Not this time: what made the difference?"),
    ],
)
def test_a_choice_is_compared(said: str, text: str) -> None:
    guess = predict("Which is fastest?", choices=NAMES)
    assert str(guess.compare("tree")) == "The run says tree. (No prediction was committed.)"
    guess.commit(said)
    comparison = guess.compare("tree")
    assert (str(comparison), comparison.predicted, comparison.actual, comparison.ratio) == (text, said, "tree", None)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("a b c d", "That is right."),
        ("d c b a", "It is just the other way round."),
        ("a c b d", "Only c and b are swapped."),
        ("a c d b", "In its place: a. 4 of 6 pairs are in the order of the formula."),
        ("b c d a", "3 of 6 pairs are in the order of the formula."),
    ],
)
def test_an_order_is_compared(said: str, verdict: str) -> None:
    guess = predict("Order them.", order=["c", "a", "d", "b"])
    guess.commit(said.split())
    words = f"You said {', '.join(said.split())}, the formula says a, b, c, d. {verdict}"
    assert str(guess.compare(["a", "b", "c", "d"], source="the formula")) == words


@given(st.permutations(range(5)), st.permutations(range(5)))
def test_only_the_order_itself_is_right(said: list[int], actual: list[int]) -> None:
    guess = predict("Order them.", order=range(5))
    guess.commit(said)
    assert guess.compare(actual).text.endswith("That is right.") == (said == actual)


def test_without_an_answer_to_an_order_the_run_says_it_alone() -> None:
    guess = predict("Order them.", order=NAMES)
    assert str(guess.compare(tuple(NAMES))) == "The run says master, ring, tree. (No prediction was committed.)"


def test_choices_may_be_numbers() -> None:
    guess = predict("How many ranks?", choices=[2, 4, 8])
    guess.commit("4")
    assert guess.compare(4).text == "You said 4, the run says 4. That is right."


def test_an_answer_that_was_no_choice_is_the_mistake_of_the_author() -> None:
    with pytest.raises(
        ValueError, match="expected one of master, ring, tree, got 'grid'. This is compared with the pr"
    ):
        predict("Which?", choices=NAMES).compare("grid")
    with pytest.raises(ValueError, match="expected each of master, ring, tree once, in an order, got ring, tree"):
        predict("Which?", order=NAMES).compare(["ring", "tree"])
    with pytest.raises(ValueError, match="expected each of master, ring, tree once, in an order, got 'ring'"):
        predict("Which?", order=NAMES).compare("ring")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"choices": NAMES, "order": NAMES}, "at most one of them, got choices=.* and order="),
        ({"choices": NAMES, "unit": "s"}, "at most one of them, got unit='s' and choices="),
        ({"order": NAMES, "unit": "s"}, "at most one of them"),
        ({"choices": ["ring"]}, r"expected choices=\[…\] with at least 2 different words, got \['ring'\]"),
        ({"order": []}, r"expected order=\[…\] with at least 2"),
        ({"order": ["ring", "tree", "ring"]}, "at least 2 different words, got .*'ring', 'tree', 'ring'"),
        ({"choices": ["", "tree"]}, "at least 2 different words"),
        ({"choices": "ring"}, "a list of at least 2 different words, got 'ring'"),
    ],
)
def test_what_can_not_be_asked_is_one_clear_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predict("Which?", **options)


# ── the form ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _press_commit(form: PredictionForm, answer: Any) -> None:
    form._handle_custom_msg({"commit": answer}, [])


def test_the_form_commits_what_comes_with_the_wish_to_commit() -> None:
    prediction = Prediction("Is 1 < 2 MB?", "MB")
    form = build_form(prediction)
    assert (form.question, form.kind, form.options, form.said) == ("Is 1 < 2 MB?", "number", [], "")
    _press_commit(form, "2*12 MB")
    assert prediction.value == 24
    assert (form.said, form.chosen, form.problem, form.answered) == ("2*12 MB, which is 24 MB", "2*12 MB", "", 1)


def test_what_can_not_be_read_is_told_each_time_and_can_be_corrected() -> None:
    prediction = Prediction("How many?", "MB")
    form = build_form(prediction)
    for attempt in (1, 2):
        _press_commit(form, "<lots>")
        assert not prediction.committed and form.said == ""
        assert form.problem.startswith("Not yet: expected a number of MB") and "<lots>" in form.problem
        assert form.answered == attempt, "the browser learns that the kernel has answered, also if it says the same"
    _press_commit(form, "24")
    assert prediction.committed and (form.problem, form.said) == ("", "24 MB")


def test_the_form_commits_a_choice_and_an_order() -> None:
    choice, order = predict("Which?", choices=["ring", "tree"]), predict("Order them.", order=["ring", "tree", "grid"])
    forms = build_form(choice), build_form(order)
    assert [(form.kind, form.options) for form in forms] == [
        ("choice", ["ring", "tree"]),
        ("order", ["ring", "tree", "grid"]),
    ]
    _press_commit(forms[0], "")
    _press_commit(forms[1], ["tree"])
    assert forms[0].problem == "Not yet: expected one of ring, tree, got nothing."
    assert forms[1].problem == "Not yet: expected each of ring, tree, grid once, in an order, got tree."
    _press_commit(forms[0], "tree")
    _press_commit(forms[1], ["tree", "ring", "grid"])
    assert (choice.value, forms[0].said) == ("tree", "tree")
    assert (order.value, forms[1].said, forms[1].chosen) == (
        ("tree", "ring", "grid"),
        "tree, ring, grid",
        ["tree", "ring", "grid"],
    )


def test_a_form_of_a_committed_prediction_shows_it() -> None:
    prediction = Prediction("How many?", "MB")
    prediction.commit("2*12")
    form = build_form(prediction)
    assert (form.said, form.chosen) == ("2*12, which is 24 MB", "2*12")


def test_what_was_committed_can_be_taken_back() -> None:
    prediction = Prediction("How many?", "MB")
    form = build_form(prediction)
    _press_commit(form, "24")
    form._handle_custom_msg({"take_back": True}, [])
    assert (prediction.committed, form.said, form.problem, form.answered) == (False, "", "", 2)
    _press_commit(form, "18")
    assert (prediction.value, form.said) == (18, "18 MB")


def test_in_a_notebook_a_question_asked_again_is_the_same_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Shift+Enter that follows Commit runs the question's own cell again: what was committed must stay."""
    shown: list[Prediction] = []
    monkeypatch.setattr(ask, "_in_notebook", lambda: True)
    monkeypatch.setattr(ask, "_asked", {})
    monkeypatch.setattr(form_module, "show_form", shown.append)
    first = predict("How many?", "MB")
    first.commit("24")
    again = predict("How many?", "MB")
    assert again is first and shown == [first, first]
    others = [predict("How many?", "s"), predict("How many?", choices=[1, 2]), predict("How many?", order=[1, 2])]
    assert len({*others, predict("How long?", "MB"), first}) == 5
    assert not any(other.committed for other in others)


def test_a_notebook_without_a_browser_runs_through_quietly() -> None:
    cells = [
        "from distlib.draw import predict\nprediction = predict('How many rounds?', unit='rounds')",
        "prediction.compare(6)",
        "prediction.commit('3')\nprediction.compare(6)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with kernel_without_ports() as settings:
        NotebookClient(notebook, timeout=200, kernel_name="python3", **settings).execute()
    asked, alone, compared = (cell.outputs for cell in notebook.cells)
    assert [output.output_type for output in asked] == ["display_data"] * 2
    assert asked[0].data["text/plain"] == "How many rounds? (Predict, then run on.)"
    assert "<b>How many rounds?</b>" in asked[1].data["text/html"] and "run this cell" in asked[1].data["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in asked[0].data
    assert alone[0].data["text/plain"] == "The run says 6 rounds. (No prediction was committed.)"
    assert compared[0].data["text/plain"].endswith("That of the run is 2 times yours.")
    assert "stderr" not in json.dumps(notebook)
