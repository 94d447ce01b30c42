"""python -m distlib.authoring.site [run]"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from distlib.authoring.cells import AuthoringError
from distlib.authoring.site.site_links import find_faults
from distlib.authoring.site.sphinx_site import Site
from distlib.authoring.stored_runs import StoredRuns, package_of

LARGEST = 5_000_000  # bytes of a page


def main(arguments: list[str] | None = None) -> int:
    """Builds the site in the current folder; with "run", first the runs that are missing or out of date.

    Returns the exit status: 0, or 1 when a lesson fails, Sphinx warns, or a link leads nowhere.
    """
    parser = argparse.ArgumentParser(prog="make site ARGS=…", description="Build the site, in build/site.")
    parser.add_argument("run", nargs="?", choices=["run"], help="first run the lessons that are missing or out of date")
    parser.add_argument("--only", nargs="*", metavar="LESSON", help="run no others, such as 02_all_reduce")
    options = parser.parse_args(arguments)
    root = Path.cwd()
    runs = StoredRuns(root)
    if not runs.lessons():
        parser.error("run it in the course's folder (where course/ is)")
    try:
        if options.run:
            _run(runs, options.only or runs.lessons())
        _tell(runs)
        return _build(Site(root, runs, root / "build" / "pages", root / "build" / "site"))
    except AuthoringError as error:
        print(error, file=sys.stderr)
        return 1


def _run(runs: StoredRuns, lessons: list[str]) -> None:
    for lesson in lessons:
        if not runs.is_current(lesson):
            started = time.perf_counter()
            runs.make(lesson)
            print(f"ran {lesson} in {time.perf_counter() - started:.0f} s", flush=True)


def _tell(runs: StoredRuns) -> None:
    """Say which pages will show no run, or one of another package."""
    found, package = {lesson: runs.read(lesson) for lesson in runs.lessons()}, runs.package_digest()
    missing = [lesson for lesson, run in found.items() if run is None]
    old = [lesson for lesson, run in found.items() if run is not None and package_of(run) != package]
    if missing:
        print(f"without outputs, because no run of its text is stored: {', '.join(missing)}")
    if old:
        print(f"with a run of an older package: {', '.join(old)}")
    if missing or old:
        print("make site ARGS=run runs them first")


def _build(site: Site) -> int:
    started = time.perf_counter()
    site.write_pages()
    site.build()
    pages = sorted(site.target.rglob("*.html"), key=lambda path: path.stat().st_size)
    name, size = pages[-1].relative_to(site.target).as_posix(), pages[-1].stat().st_size
    print(f"{len(pages)} pages in {time.perf_counter() - started:.0f} s; the largest is {name}, {size / 1e6:.1f} MB")
    faults = find_faults(site.target)
    if size > LARGEST:
        faults.append(f"{name} has more than {LARGEST / 1e6:g} MB")
    print("\n".join(faults) or f"open {site.target / 'index.html'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
