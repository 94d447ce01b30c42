"""A file next to the script that has the name of a library: the error names it, and doctor does, too."""

import subprocess
import sys
from pathlib import Path

import pytest

from distlib.cli.doctor_checks import check_names
from distlib.shadowing import shadowing_files

SCRIPT = "from distlib import World\n"


@pytest.mark.parametrize("name", ["torch.py", "numpy.py", "cloudpickle/__init__.py"])
def test_the_import_says_which_file_to_rename(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("x = 1\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    last = done.stderr.splitlines()[-1]
    shadow = str(tmp_path / name.partition("/")[0])
    assert last.startswith(f"ImportError: distlib can't be imported: {shadow} has a name of a library"), done.stderr
    assert "rename it" in last


def test_doctor_names_it_too(tmp_path: Path) -> None:
    assert check_names(folder=tmp_path).level == "ok"
    for name in ("random.py", "torch.py", "mine.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "numpy").mkdir()  # an empty folder is not imported in the place of a package
    finding = check_names(folder=tmp_path)
    assert finding.level == "problem"
    assert finding.message == f"a library's: {tmp_path / 'random.py'}, {tmp_path / 'torch.py'}"
    assert "rename them" in finding.remedy


def test_the_library_itself_is_no_shadow(root: Path) -> None:
    assert shadowing_files([str(root)]) == []
