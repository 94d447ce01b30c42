"""`distlib release`: the course for students, as a zip file or a folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from distlib.classroom.grader.course import CourseError, course_above, open_course
from distlib.classroom.uploads.release import ReleaseError, release
from distlib.cli.saying import say


def release_course(options: argparse.Namespace) -> int:
    """Write the release. Returns 0, or 1 if nothing was released.

    options: target, course, address, python; see `distlib release --help`.
    """
    try:
        course = open_course(options.course or course_above(Path.cwd()))
        number = release(course, options.target, options.address, options.python)
    except (CourseError, ReleaseError) as error:
        say(f"Not released: {error}", sys.stderr)
        return 1
    except OSError as error:
        say(f"Not released: {error.filename}: {error.strerror}", sys.stderr)
        return 1
    say(f"{options.target}: the course for students, {number} files, without solutions/ and tests/")
    return 0
