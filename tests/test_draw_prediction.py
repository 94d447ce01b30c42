"""Predictions: what can be typed, what is answered, and the form."""

from __future__ import annotations

import json
import math
from typing import Any

import nbformat
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from nbclient import NotebookClient

from distlib.draw import predict
from distlib.draw.prediction import Prediction, build_form
from distlib.draw.quantity import parse_quantity


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


# ── the form ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _parts(form: Any) -> tuple[Any, Any, Any, Any]:
    question, row, answer = form.children
    return question, *row.children, answer


def test_the_button_commits_and_locks() -> None:
    prediction = Prediction("Is 1 < 2 MB?", "MB")
    question, field, button, answer = _parts(build_form(prediction))
    assert question.value == "<b>Is 1 &lt; 2 MB?</b>"
    field.value = "2*12 MB"
    button.click()
    assert prediction.value == 24
    assert field.disabled and button.disabled
    assert answer.value == "Committed: 2*12 MB, which is 24 MB."


def test_enter_commits() -> None:
    prediction = Prediction("How many?", "MB")
    _, field, button, _ = _parts(build_form(prediction))
    field.value = "24"
    field._handle_custom_msg({"event": "submit"}, [])
    assert prediction.value == 24 and button.disabled


def test_what_can_not_be_read_is_told_and_can_be_corrected() -> None:
    prediction = Prediction("How many?", "MB")
    _, field, button, answer = _parts(build_form(prediction))
    field.value = "<lots>"
    button.click()
    assert not prediction.committed and not field.disabled
    assert answer.value.startswith("Not yet: expected a number of MB") and "&lt;lots&gt;" in answer.value
    field.value = "24"
    button.click()
    assert prediction.committed


def test_a_notebook_without_a_browser_runs_through_quietly() -> None:
    cells = [
        "from distlib.draw import predict\nprediction = predict('How many rounds?', unit='rounds')",
        "prediction.compare(6)",
        "prediction.commit('3')\nprediction.compare(6)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    asked, alone, compared = (cell.outputs for cell in notebook.cells)
    assert [output.output_type for output in asked] == ["display_data"]
    assert asked[0].data["text/plain"] == "How many rounds? (Predict, then run on.)"
    assert "application/vnd.jupyter.widget-view+json" in asked[0].data
    assert alone[0].data["text/plain"] == "The run says 6 rounds. (No prediction was committed.)"
    assert compared[0].data["text/plain"].endswith("That of the run is 2 times yours.")
    assert "stderr" not in json.dumps(notebook)
