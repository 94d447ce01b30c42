"""Pages and tables as HTML, made of the templates in `templates/`. Nothing that is put into one can run.

Whatever a template shows is made printable, on one line, and escaped; what should keep its lines goes through `lines`.
Only HTML that this package has made (`Markup`) is taken as it is.

A page (page.html) loads nothing, and forbids the browser to run anything: a script that came in by a mistake of ours
would not run, either.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from distlib.classroom.words import count, joined, points, points_lost
from distlib.printable import printable

_TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, **values: Any) -> str:
    """HTML of a template.

    Args:
        template: the name of a file in `templates/`.
        values: what it shows, by name. One that is missing is an error.
    """
    html = _environment().get_template(template).render(**values)
    return html.encode("utf-8", "replace").decode()


def lines_of(text: str) -> Markup:
    """A text of several lines, as HTML for a <pre>."""
    return Markup("\n").join(map(printable, text.expandtabs(4).splitlines()))


def _breakable(name: str) -> Markup:
    """A name that a narrow column may break after an underscore."""
    return escape(printable(name)).replace("_", Markup("_<wbr>"))


def _shown(value: Any) -> Any:
    return value if hasattr(value, "__html__") else printable(str(value))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "breakable": _breakable,
        "count": count,
        "joined": joined,
        "lines": lines_of,
        "points": points,
        "points_lost": points_lost,
    }
    return environment
