"""`distlib launch`: a function of a script on ranks, here or where torchrun or srun has started them."""

from __future__ import annotations

import argparse
import io
import os
import signal
import socket
import sys

from distlib.cli.saying import say
from distlib.launch.environment import LaunchError, read_placement
from distlib.launch.script import read_target

_BROKEN_PIPE = 128 + signal.SIGPIPE  # the status that a shell shows for a program that this signal has ended


def launch_script(options: argparse.Namespace) -> int:
    """Run it. Returns the exit status: 0, 1 if the run has failed, 2 if the ranks could not start, 75 (REQUEUE) if
    the function has stopped early, and wants to go on in another job, 141 if nobody reads its output any more.

    options: target, arguments, ranks, elastic, silence, rendezvous, patience, backend; see `distlib launch --help`.
    """
    try:
        target = read_target(options.target, options.arguments)
        placement = read_placement(os.environ, socket.gethostname())
        from distlib.launch.run import Options, launch  # and torch with it, which takes seconds

        fewest, ranks = options.elastic or (None, options.ranks)
        silence = options.silence if options.elastic else None
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # each line as it comes, also into `| tee`
        meeting = (options.rendezvous, options.patience, options.backend)
        return launch(target, placement, Options(ranks, fewest, silence, *meeting))
    except LaunchError as error:
        say(f"distlib launch: {error}", sys.stderr)
        return 2
    except BrokenPipeError:  # who reads what the ranks print has had enough: launch … | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
        return _BROKEN_PIPE
    except KeyboardInterrupt as interrupt:
        say(f"\nStopped. {interrupt}".rstrip(), sys.stderr)
        return 130
