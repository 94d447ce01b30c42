"""train.py, the file to take home: the same losses on any number of ranks, also when it is interrupted; torch alone."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from distlib import SimulatedWorld
from distlib.capstone import train

SCRIPT = Path(train.__file__)
SMALL = {"every": 2, "batch": 6, "length": 16, "features": 16, "heads": 2, "layers": 1}
KILLED_ONCE = """
import os, runpy, signal, sys, torch

steps, step = 0, torch.optim.AdamW.step

def step_or_die(optimizer):
    global steps
    steps += 1
    if steps == 5 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return step(optimizer)

torch.optim.AdamW.step = step_or_die
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def words(folder: Path, steps: int, **options: object) -> list[str]:
    """What stands behind `train.py`."""
    text = folder / "text"
    text.write_text(" ".join(f"{number} plus 3 is {number + 3}." for number in range(100)))
    given = {**SMALL, "steps": steps, "text": text, "checkpoint": folder / "gpt.pt", **options}
    return [word for name, value in given.items() for word in (f"--{name}", str(value))]


def lines(printed: str) -> list[tuple[str, str, str]]:
    """Of each report: the step, the loss, and that of the text held out."""
    return re.findall(r"step +(\d+)  loss (\S+)  held out (\S+)  [\d,]+ tokens/s", printed)


class Trained:
    """Trains on simulated ranks, in a folder of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.bytes_sent: list[int] = []
        self.printed = ""

    def on(self, ranks: int, folder: Path, steps: int = 6, **options: object) -> list[tuple[str, str, str]]:
        """Its reports."""
        folder.mkdir(exist_ok=True)
        self._monkeypatch.setattr(sys, "argv", ["train.py", *words(folder, steps, **options)])
        world = SimulatedWorld(ranks, contexts="threads")
        world.run(train.on_rank)
        self.bytes_sent, self.printed = world.trace.bytes_sent, self._capsys.readouterr().out
        return lines(self.printed)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Trained:
    return Trained(monkeypatch, capsys)


def test_any_number_of_ranks_has_the_same_losses(trained: Trained, tmp_path: Path) -> None:
    alone = trained.on(1, tmp_path / "1")
    assert [step for step, *_ in alone] == ["2", "4", "6"]
    for ranks in (2, 4, 7):  # for 6 sequences: 4 do not divide them, and one of 7 ranks has none
        for found, expected in zip(trained.on(ranks, tmp_path / str(ranks)), alone, strict=True):
            assert [float(each) for each in found] == pytest.approx([float(each) for each in expected], abs=2e-4)


def test_a_training_goes_on_where_it_was(trained: Trained, tmp_path: Path) -> None:
    undisturbed = trained.on(2, tmp_path / "undisturbed")
    assert trained.on(2, tmp_path / "in two", steps=4) == undisturbed[:2]
    assert trained.on(2, tmp_path / "in two") == undisturbed[2:]
    assert trained.on(2, tmp_path / "in two") == []
    assert sorted(path.name for path in (tmp_path / "in two").iterdir()) == ["gpt.pt", "text"]


def test_a_step_sends_as_many_bytes_as_it_says(trained: Trained, tmp_path: Path) -> None:
    sent = []
    for steps in (1, 2):
        trained.on(2, tmp_path / str(steps), steps=steps, every=100, features=128)
        sent.append(trained.bytes_sent[1])
    count, said = re.match(r"([\d,]+) parameters on 2 × cpu: (\S+) MB", trained.printed).groups()  # type: ignore
    assert sent[1] - sent[0] == 4 * int(count.replace(",", ""))
    assert float(said) == pytest.approx((sent[1] - sent[0]) / 1e6, abs=0.05)


def test_it_needs_nothing_but_torch() -> None:
    """Only its function for `distlib launch` imports the course."""
    tree = ast.parse(SCRIPT.read_text())
    modules = {each.name for node in tree.body if isinstance(node, ast.Import) for each in node.names}
    modules |= {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in modules} - sys.stdlib_module_names == {"torch"}
    assert len(SCRIPT.read_text().splitlines()) <= 150


@pytest.mark.slow
def test_torchrun_starts_it_again_after_a_kill(trained: Trained, tmp_path: Path) -> None:
    undisturbed = trained.on(2, tmp_path / "undisturbed")
    shutil.copy(SCRIPT, tmp_path / "taken_home.py")
    (tmp_path / "killed_once.py").write_text(KILLED_ONCE)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    done = subprocess.run(
        [*torchrun, "killed_once.py", "taken_home.py", *words(tmp_path, 6)],
        cwd=tmp_path,
        env={**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == undisturbed
    assert done.stdout.count("parameters on 2 × cpu") == 2, "it has begun twice"


@pytest.mark.slow
def test_alone_and_by_the_launcher_of_the_course(trained: Trained, tmp_path: Path) -> None:
    undisturbed = trained.on(2, tmp_path / "undisturbed")
    command = [sys.executable, "-m", "distlib.cli", "launch", "--ranks", "2", f"{SCRIPT}:on_rank"]
    launched = subprocess.run([*command, *words(tmp_path, 4)], capture_output=True, text=True, timeout=250)
    assert lines(launched.stdout) == undisturbed[:2], launched.stderr
    alone = subprocess.run(
        [sys.executable, SCRIPT, *words(tmp_path, 6)], capture_output=True, text=True, timeout=250, check=True
    )
    assert [step for step, *_ in lines(alone.stdout)] == ["6"]
