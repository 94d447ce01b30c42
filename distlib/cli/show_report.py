"""`distlib report`: one page about one's own course, to show to others."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path

from distlib.classroom.my_course.own_course import OwnCourse
from distlib.classroom.my_course.portfolio import MARK, REPORT, is_empty, portfolio
from distlib.cli.course_folder import NO_COURSE, find_course
from distlib.cli.saying import say
from distlib.cli.where_am_i import take_stock
from distlib.living_line import waiting
from distlib.whole_file import write_file


def write_report(options: argparse.Namespace) -> int:
    """Write the page, and print where it is. Returns 0, or 1 if there is nothing to show or no place for it.

    options: name, to, unfolded; see `distlib report --help`.
    """
    course = find_course(Path.cwd())
    if course is None:
        say(NO_COURSE, sys.stderr)
        return 1
    own = take_stock(course)
    for remark in own.remarks:
        say(f"Remark: {remark}", sys.stderr)
    if is_empty(own):
        say(f"There is nothing to show yet: no cell has run, and no function is written. {own.next_step}", sys.stderr)
        return 1
    return _write(course, own, options)


def _write(course: Path, own: OwnCourse, options: argparse.Namespace) -> int:
    target = (options.to or course / REPORT).absolute()
    with waiting("the pictures of your runs"):
        page = portfolio(course, own, options.name, datetime.now().date(), unfolded=options.unfolded)
    try:
        if target.exists() and MARK.encode() not in target.read_bytes():
            say(f"{target} is there already and is not a report. Nothing was written.", sys.stderr)
            return 1
        write_file(target, page.encode())
    except OSError as error:
        say(f"{target} can't be written: {error.strerror or error}", sys.stderr)
        return 1
    say(f"Your report is {target}\nOpen it in a browser; to make a PDF of it, print it there.")
    return 0
