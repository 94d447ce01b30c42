"""What templates do with what is put into them, and that they are in the wheel."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from distlib.classroom import pages

TEMPLATES = Path(pages.__file__).with_name("templates")


def test_templates_are_in_the_wheel() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["distlib"]
    packed = [
        path.name
        for path in TEMPLATES.iterdir()
        if any(fnmatch(f"classroom/templates/{path.name}", p) for p in patterns)
    ]
    assert len(packed) == len(list(TEMPLATES.iterdir())) > 5
    assert any(need.startswith("jinja2") for need in project["project"]["optional-dependencies"]["grading"])


def test_no_template_takes_a_text_as_html() -> None:
    """Only Python makes `Markup`, where a test can see it."""
    loose = re.compile(r"\|\s*safe\b|autoescape")
    assert [path.name for path in TEMPLATES.iterdir() if loose.search(path.read_text())] == []


def test_what_is_shown_is_escaped_and_printable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("<i>{{ text }}</i>{{ html }}<pre>{{ text | lines }}</pre>{{ 'a_b<' | breakable }}")
    monkeypatch.setattr(pages, "_TEMPLATES", tmp_path)
    pages._environment.cache_clear()
    try:
        shown = pages.render("x.html", text="<b>\n\x1b[2J", html=Markup("<br>"))
        assert shown == "<i>&lt;b&gt;\\n\\x1b[2J</i><br><pre>&lt;b&gt;\n\\x1b[2J</pre>a_<wbr>b&lt;"
        with pytest.raises(UndefinedError, match="html"):
            pages.render("x.html", text="")
    finally:
        pages._environment.cache_clear()
