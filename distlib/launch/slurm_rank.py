"""python -m distlib.launch.slurm_rank DIRECTORY NAME PATIENCE: a rank of a `SlurmWorld`, as srun starts it."""

import os
import socket
import sys
from pathlib import Path

from distlib.launch.environment import LaunchError, read_placement
from distlib.launch.rank import be_rank
from distlib.launch.rendezvous import FileRendezvous


def main(directory: str, name: str, patience: str) -> int:
    """Be that rank until the notebook is done with it. Returns the exit status."""
    try:
        placement = read_placement(os.environ, socket.gethostname())
        if placement is None:
            raise LaunchError("a rank of a SlurmWorld is started by srun")
        return be_rank(placement, FileRendezvous(Path(directory), name), float(patience))
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)
