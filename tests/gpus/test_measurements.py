"""Measurements run; recordings are shown as recorded, and nothing is shown where there is none."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from distlib.gpus import __main__
from distlib.gpus.call_times import time_call
from distlib.gpus.measurements import MEASUREMENTS
from distlib.gpus.recordings import FOLDER, Recording, measure, record, show, table

ROWS = [{"memory": "pageable", "GB/s": 12.345}, {"memory": "page-locked", "GB/s": 54321.0}]
RECORDED = Recording("copies", "NVIDIA Test", "torch 1.2.3", "2026-01-02", "python -m distlib.gpus", ROWS)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_each_measurement_runs_on_a_cpu(name: str) -> None:
    rows = MEASUREMENTS[name].rows(torch.device("cpu"), True)
    assert rows or name == "memory", "only CUDA counts what it allocates"
    assert all(value >= 0 for row in rows for value in row.values() if not isinstance(value, str))
    json.dumps(rows)


@pytest.mark.gpu(1)
@pytest.mark.parametrize("name", [name for name, each in MEASUREMENTS.items() if each.gpus == 1])
def test_each_measurement_runs_on_a_gpu_and_is_recorded(name: str, tmp_path: Path) -> None:
    made = record(name, tmp_path)
    assert made.rows and made.card == torch.cuda.get_device_name(0)
    assert Recording(**json.loads((tmp_path / f"{name}.json").read_text())) == made


@pytest.mark.gpu(2)
@pytest.mark.parametrize("name", [name for name, each in MEASUREMENTS.items() if each.gpus == 2])
def test_each_measurement_runs_on_two_gpus(name: str) -> None:
    assert measure(name).rows


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_a_recording_is_shown_with_its_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "copies.json").write_text(json.dumps(asdict(RECORDED)))
    show("copies", tmp_path)
    assert capsys.readouterr().out == (
        "Recorded on NVIDIA Test, torch 1.2.3, 2026-01-02, by `python -m distlib.gpus`:\n"
        "     memory    GB/s\n   pageable    12.3\npage-locked  54,321\n"
    )


@pytest.mark.usefixtures("no_gpu")
def test_without_a_recording_nothing_else_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show("copies", tmp_path)
    show("two_gpus", tmp_path)
    assert capsys.readouterr().out == "not run yet on a GPU\nnot run yet on 2 GPUs\n"
    assert __main__.main() == 1
    assert capsys.readouterr().out.startswith("not run yet on a GPU: torch ")


@pytest.mark.usefixtures("no_gpu")
def test_a_measurement_needs_its_gpus() -> None:
    with pytest.raises(RuntimeError, match="'two_gpus' needs GPUs: 2, this machine has 0"):
        measure("two_gpus")
    with pytest.raises(ValueError, match="expected one of the measurements queue, .* got 'copy'"):
        measure("copy")


def stored() -> list[Recording]:
    """The recordings that come with the package."""
    return [Recording(**json.loads(file.read_text())) for file in sorted(FOLDER.glob("*.json"))]


@pytest.mark.parametrize("made", [RECORDED, *stored()], ids=lambda made: f"{made.name}, {made.card}")
def test_a_recording_says_what_of_and_where(made: Recording) -> None:
    assert made.name in MEASUREMENTS
    assert made.card in str(made) and made.day in str(made) and made.command in str(made)
    assert len(table(made.rows).splitlines()) == len(made.rows) + 1


def rows_of(name: str) -> list[Any]:
    return next([dict(row) for row in made.rows] for made in stored() if made.name == name)


def test_lesson_18_says_of_the_recordings_what_they_show() -> None:
    reads = [row["loss read in each, ms per step"] - row["ms per step"] for row in rows_of("item")]
    assert all(0 < cost < 0.5 for cost in reads[:3]) and 4 < reads[3] < 4.5
    (queue,) = rows_of("full_queue")
    assert 900 < queue["kernels that wait"] < 1100
    small, large = rows_of("kernels")
    assert small["of the step %"] < 10 and large["of the step %"] > 80
    assert 3 * rows_of("item")[0]["ms per step"] < small["step ms"] and small["computing ms"] < 0.5
    pageable, asynchronous, _, locked = rows_of("copies")
    assert asynchronous["returned ms"] > 0.9 * pageable["returned ms"] > 100 * locked["returned ms"]
    small_matmul, _, large_matmul = rows_of("queue")
    assert 19 < large_matmul["returned µs"] < 21 and large_matmul["returned µs"] < 2 * small_matmul["returned µs"]
    assert 950 < large_matmul["done µs"] / small_matmul["done µs"] < 1150
    assert large_matmul["done µs"] > 500 * large_matmul["returned µs"]
    small_step, _, large_step, _ = rows_of("item")
    assert 10 < large_step["ms per step"] / small_step["ms per step"] < 12
    single, _, half = rows_of("formats")
    assert 14.5 < single["ms"] / half["ms"] < 15.5 and 50.5 < single["TFLOP/s"] < 51.5
    for step, samples, mfu in ((small_step, 256, 4), (large_step, 65_536, 88)):
        reached = 6 * 8 * (512 * 512 + 512) * samples / (step["ms per step"] / 1e3) / 1e12
        assert round(100 * reached / single["TFLOP/s"]) == mfu
    assert round(100 * reached / 67) == 67, "of the data sheet"


def test_lesson_11c_says_of_the_recording_what_it_shows() -> None:
    activation = 4096 * 512 * 4 / 1e6
    before, model, *_ = rows_of("memory")
    peak = max(row["peak MB"] for row in rows_of("memory"))
    assert before["allocated MB"] < before["reserved MB"] / 2
    assert peak - model["allocated MB"] == pytest.approx(13 * activation, abs=0.1)  # of them nine before backward
    assert rows_of("memory")[2]["allocated MB"] - model["allocated MB"] == pytest.approx(9 * activation, abs=0.1)


def test_a_call_is_warmed_up_and_then_timed() -> None:
    calls: list[int] = []
    times = time_call(lambda: calls.append(1), "cpu", repeats=4, warm_up=2)
    assert len(calls) == 6
    assert 0 <= times.returned <= times.done
    with pytest.raises(ValueError, match="repeats"):
        time_call(calls.clear, "cpu", repeats=0)
