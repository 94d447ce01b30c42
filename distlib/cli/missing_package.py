"""A command lacks a package: which one, and which extra of ours brings it. The package alone comes without them."""

from __future__ import annotations

COURSE = "distlib-course"
# By extra of pyproject.toml, what the package imports of it, or of what comes with it.
BROUGHT_BY = {
    "lessons": (
        "IPython",
        "PIL",
        "anywidget",
        "ipywidgets",
        "jupyter_client",
        "jupyter_core",
        "jupyter_server",
        "matplotlib",
        "tornado",
        "tqdm",
        "traitlets",
        "zmq",
    ),
    "grading": (
        "bleach",
        "dateutil",
        "jinja2",
        "jupytext",
        "markupsafe",
        "nbclient",
        "nbconvert",
        "nbformat",
        "nbgrader",
        "pygments",
        "sqlalchemy",
    ),
}


def how_to_get(error: ImportError, command: str) -> str:
    """What to say when a command can't be imported: the package that is missing, and how it comes.

    Args:
        error: what the import has raised.
        command: its name, as it is typed.

    Returns "" if no extra brings what is missing.
    """
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    for extra, packages in BROUGHT_BY.items():
        if package in packages:
            return (
                f"distlib {command} needs the package {package}, which is not installed here. "
                f'It comes with the extra {extra}: pip install "{COURSE}[{extra}]"'
            )
    return ""
