"""What `distlib launch script.py:function …` is asked to run."""

import sys
from pathlib import Path
from typing import Any

import pytest

from distlib.launch.environment import LaunchError
from distlib.launch.script import call_target, read_target


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("")
    return path


@pytest.mark.parametrize(
    "words, args, kwargs",
    [
        ([], (), {}),
        (["100", "0.5", "digits", "None", "[1, 2]", "1_000"], (100, 0.5, "digits", None, [1, 2], 1000), {}),
        (["rate=0.1", "100", "name=a=b"], (100,), {"rate": 0.1, "name": "a=b"}),
        (["-1", "a-b=1", "=1", "import os", "-"], (-1, "a-b=1", "=1", "import os", "-"), {}),
        (["--lr", "0.1"], (), {}),
        (["100", "rate=0.1", "-v"], (), {}),
        (["'100'"], ("100",), {}),
    ],
)
def test_arguments_are_python_values_or_text(
    script: Path, words: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    target = read_target("train.py:main", words)
    assert (target.path, target.function, target.args, target.kwargs) == (script, "main", args, kwargs)
    assert target.words == tuple(words)


@pytest.fixture
def own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(sys, "path", sys.path[:])


def test_options_are_for_the_script(script: Path, own_arguments: None) -> None:
    """As under torchrun: all words are in sys.argv, also while the script is loaded."""
    script.write_text(
        "import sys\nloaded = sys.argv[:]\ndef main(comm):\n    assert loaded == sys.argv\n    return 75\n"
    )
    assert call_target(NO_RANKS, read_target("train.py:main", ["--lr", "0.1", "x"])) == 75
    assert sys.argv == [str(script), "--lr", "0.1", "x"]


def test_arguments_that_do_not_fit_say_how_they_are_given(script: Path, own_arguments: None) -> None:
    script.write_text("def main(comm, lr, fast=False):\n    return None\n")
    with pytest.raises(TypeError, match=r"main\(comm, lr, fast=False\) .*missing.*'lr'.* write lr=0.1 fast=True\.$"):
        call_target(NO_RANKS, read_target("train.py:main", ["--lr", "0.1", "--fast"]))
    with pytest.raises(TypeError, match=r"main\(comm, lr, fast=False\) .*missing a required argument: 'lr'\.$"):
        call_target(NO_RANKS, read_target("train.py:main", []))
    assert call_target(NO_RANKS, read_target("train.py:main", ["lr=0.1"])) == 0


NO_RANKS: Any = None  # what stands for the communicator


@pytest.mark.parametrize("text", ["train.py", "train:main", ":main", "train.py:", "train.py:a b", "train.py:a()"])
def test_what_is_not_a_function_of_a_script(script: Path, text: str) -> None:
    with pytest.raises(LaunchError, match="expected what to run as script.py:function, got "):
        read_target(text, [])


def test_a_script_that_is_not_there(script: Path) -> None:
    with pytest.raises(LaunchError, match="there is no script /.*/other.py"):
        read_target("other.py:main", [])
