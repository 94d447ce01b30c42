"""python -m distlib.authoring notebooks | exercises | check | slides"""

import argparse
import sys
from pathlib import Path

from distlib.authoring.cells import AuthoringError
from distlib.authoring.project import Project


def main(arguments: list[str] | None = None) -> int:
    """Runs one command in the current folder. Returns the exit status: 0, or 1 when there is something to do."""
    parser = argparse.ArgumentParser(prog="python -m distlib.authoring", description="Make notebooks from text.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("notebooks", help="course/*.py and solutions/*/*.py to .ipynb")
    exercises = commands.add_parser("exercises", help="notebooks, then exercises/ by nbgrader")
    exercises.add_argument("names", nargs="*", metavar="EXERCISE", help="such as 02; without any, all")
    exercises.add_argument("--force", action="store_true", help="also overwrite notebooks that hold answers")
    commands.add_parser("check", help="name every generated file that is not up to date; exit 1 if there is one")
    slides = commands.add_parser("slides", help="make slides of lessons, in slides/, from stored runs or new ones")
    slides.add_argument("lessons", nargs="+", metavar="LESSON", help="such as 02, or all")
    slides.add_argument("--reveal", default="", help="where reveal.js is; else the page loads it from the network")
    options = parser.parse_args(arguments)
    project = Project(Path.cwd())
    if not (project.root / "nbgrader_config.py").exists():
        parser.error("run it in the course's folder (where nbgrader_config.py is)")
    try:
        if options.command == "slides":
            return _slides(project, options)
        return _check(project) if options.command == "check" else _write(project, options)
    except AuthoringError as error:
        print(error, file=sys.stderr)
        return 1


def _write(project: Project, options: argparse.Namespace) -> int:
    changed = project.write_notebooks()
    if options.command == "exercises":
        changed += project.write_exercises(options.names, force=options.force)
    for path in changed:
        print(f"wrote {project.name(path)}")
    if not changed:
        print("nothing to do: every file is up to date")
    return 0


def _slides(project: Project, options: argparse.Namespace) -> int:
    """Make the slides of some lessons, or of all."""
    lessons = {path.stem.partition("_")[0]: path for path in sorted((project.root / "course").glob("[0-9]*.ipynb"))}
    if unknown := [name for name in options.lessons if name not in ("all", *lessons)]:
        raise AuthoringError(f"there is no lesson {unknown[0]}; there are {', '.join(lessons)}")
    from distlib.authoring.slides.slides_page import write_slides  # takes a kernel's client along
    from distlib.authoring.stored_runs import StoredRuns

    runs = StoredRuns(project.root)
    for number, path in lessons.items():
        if number in options.lessons or "all" in options.lessons:
            target = project.root / "slides" / f"{path.stem}.slides.html"
            pictures = write_slides(runs.current(path.stem), target, options.reveal)
            print(f"wrote {project.name(target)}: {pictures} pictures", flush=True)
    return 0


def _check(project: Project) -> int:
    stale = project.stale()
    for line in stale:
        print(line)
    if not stale:
        print("generated notebooks are up to date")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
