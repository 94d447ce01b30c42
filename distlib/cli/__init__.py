"""The command `distlib`. `distlib --help` lists what it can do."""

import argparse

DESCRIPTION = "The course in distributed training, from the command line."


def main(arguments: list[str] | None = None) -> int:
    """Runs one command. arguments: those after the program's name. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="distlib", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = "check this machine: Python, torch, ranks, GPUs, Jupyter, nbgrader; say what to do about a problem"
    commands.add_parser("doctor", help=doctor, description=doctor[0].upper() + doctor[1:] + ".")
    lab = "open JupyterLab on the first lesson; options that follow go to `jupyter lab`"
    commands.add_parser(
        "lab",
        help=lab,
        description=lab[0].upper() + lab[1:] + ".",
        epilog="Without a screen: distlib lab --no-browser --port=8899",
    )
    options, rest = parser.parse_known_args(arguments)
    # The commands are imported only when they are called: doctor must run where Jupyter or torch is broken.
    if options.command == "lab":
        from distlib.cli.lab import open_lab

        return open_lab(rest)
    if rest:
        parser.error(f"unknown option {rest[0]}")
    from distlib.cli.doctor import run_doctor

    return run_doctor()
