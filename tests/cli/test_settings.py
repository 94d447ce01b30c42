"""What JupyterLab is started with, for students and for instructors."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from traitlets.config import Application, Config

from distlib.cli.settings import SETTINGS, has_exchange, settings_for_jupyter


def folders(course: Path, *, instructor: bool) -> list[str]:
    """The folders of settings, as far as they are ours, the first one with the last word."""
    environment = {"JUPYTERLAB_SETTINGS_DIR": str(course / "settings")}
    path = settings_for_jupyter(environment, course, instructor=instructor)["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    return [Path(folder).name for folder in path if folder.startswith(str(SETTINGS))]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", False),
        ("c.Exchange.root = '{folder}'", True),
        ("c.Exchange.root = '{folder}/nowhere'", False),
        ("c.ExchangeFactory.exchange = 'ngshare_exchange.Exchange'", True),
    ],
)
def test_the_list_of_assignments_is_there_if_there_is_an_exchange(
    line: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distlib.cli.settings.EXCHANGE", str(tmp_path / "none"))
    monkeypatch.setattr("distlib.cli.settings.jupyter_config_path", lambda: [])
    (tmp_path / "nbgrader_config.py").write_text(f"c = get_config()\n{line.format(folder=tmp_path)}\n")
    assert has_exchange(tmp_path) is found
    assert folders(tmp_path, instructor=False) == ([] if found else ["no_exchange"]) + [
        "student",
        "no_theme",
        "everybody",
    ]
    assert folders(tmp_path, instructor=True) == ["no_theme", "everybody"]


def test_a_theme_that_the_user_has_chosen_stays(tmp_path: Path) -> None:
    assert "no_theme" in folders(tmp_path, instructor=False)
    chosen = tmp_path / "settings" / "@jupyterlab" / "apputils-extension" / "themes.jupyterlab-settings"
    chosen.parent.mkdir(parents=True)
    chosen.write_text('{"theme": "JupyterLab Light"}')
    assert "no_theme" not in folders(tmp_path, instructor=False)


def test_the_exchange_fetches_to_the_students_copies_and_submits_them(root: Path, tmp_path: Path) -> None:
    shutil.copy(root / "nbgrader_config.py", tmp_path)
    assert "assignment_dir" not in read_configuration(tmp_path).Exchange
    (tmp_path / "work" / "exercises").mkdir(parents=True)
    assert read_configuration(tmp_path).Exchange.assignment_dir == str(tmp_path / "work" / "exercises")


def read_configuration(folder: Path) -> Config:
    reader = Application()
    reader.load_config_file("nbgrader_config", path=[str(folder)])
    return reader.config


def test_what_the_user_has_set_is_kept(tmp_path: Path) -> None:
    given = {"PATH": "/mine", "JUPYTER_CONFIG_PATH": "/my/settings"}
    set_ = settings_for_jupyter(given, tmp_path, instructor=True)
    assert set_["PATH"].endswith(f"{os.pathsep}/mine")
    assert set_["JUPYTER_CONFIG_PATH"].endswith(f"{os.pathsep}/my/settings")


def test_every_folder_of_settings_is_used() -> None:
    assert {path.name for path in SETTINGS.iterdir()} == {"everybody", "student", "no_exchange", "no_theme"}
