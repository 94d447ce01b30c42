"""Where the course is. Imports nothing of it: doctor asks also where the course's packages are missing."""

from pathlib import Path

FIRST_LESSON = Path("course") / "00_start_here.ipynb"
NO_COURSE = f"There is no {FIRST_LESSON} here or in a folder above. Go to the course's folder first."


def find_course(start: Path) -> Path | None:
    """The folder that holds the course: start, a folder above it, or where distlib itself was installed from."""
    for folder in [start, *start.parents, Path(__file__).parents[2]]:
        if (folder / FIRST_LESSON).exists():
            return folder
    return None
