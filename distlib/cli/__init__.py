"""The command `distlib`. Alone it lists what it can do, as `distlib --help`; its commands stand in command_table."""

import argparse
import shutil
import sys
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from distlib.cli.command_table import COMMANDS, Command
from distlib.cli.course_folder import NO_COURSE, find_course
from distlib.cli.missing_package import how_to_get
from distlib.cli.saying import say
from distlib.living_line import waiting

NOTHING_ASKED = 2  # the status of `distlib` alone: a script that has lost its command must not go on


def main(arguments: list[str] | None = None) -> int:
    """Runs one command. arguments: those after the program's name. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="distlib",
        usage="distlib [-h] COMMAND ...",
        description="The course in distributed training, from the command line.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=list_of_commands(shutil.get_terminal_size().columns - 2),
    )
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS)
    for command in COMMANDS:
        sentence = f"{command.what[0].upper()}{command.what[1:]}."
        command.add_arguments(
            parsers.add_parser(
                command.name, prog=f"distlib {command.name}", description=sentence, epilog=command.more or None
            )
        )
    options, rest = parser.parse_known_args(arguments)
    if not options.command:
        if rest:
            parser.error(f"unknown option {rest[0]}; a COMMAND comes first")
        parser.print_help()
        return NOTHING_ASKED
    (chosen,) = [command for command in COMMANDS if command.name == options.command]
    if rest and not chosen.passes_on:
        kind = "option" if rest[0].startswith("-") else "argument"
        parser.error(f"unknown {kind} {rest[0]}")
    options.rest = rest
    try:
        with waiting(f"distlib {chosen.name} to start"):
            function = chosen.function()
    except ModuleNotFoundError as error:  # from our own imports: no code of a student has run yet
        if not (remedy := how_to_get(error, chosen.name)):
            raise
        say(_without_course(chosen) or remedy, sys.stderr)
        return 1
    return chosen.call(function, options)


def list_of_commands(width: int) -> str:
    """What each command does, under its heading. width: of a line, in characters."""
    indent = 3 + max(len(command.name) for command in COMMANDS)
    lines = []
    for heading, commands in groupby(COMMANDS, lambda command: command.heading):
        lines += ["", f"{heading}:"]
        for command in commands:
            first = f"  {command.name:{indent - 2}}"
            lines += wrap(command.what, max(width, indent + 30), initial_indent=first, subsequent_indent=" " * indent)
    return "\n".join([*lines[1:], "", "distlib COMMAND --help says more about one of them."])


def _without_course(command: Command) -> str:
    """What a command says where there is no course; "" if there is one, or if it does without."""
    return NO_COURSE if command.needs_course and find_course(Path.cwd()) is None else ""
