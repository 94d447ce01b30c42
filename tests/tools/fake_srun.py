"""Stands in for srun where there is no Slurm: starts the ranks of a SlurmWorld here, with one import of torch.

python -m tests.tools.fake_srun --nodes=2 --ntasks-per-node=1 … python -m distlib.launch.slurm_rank DIRECTORY NAME 60
"""

import os
import sys

from distlib.launch import slurm_rank
from tests.tools.launched import slurm_variables


def main(words: list[str]) -> int:
    """Start the ranks, and wait for them."""
    options = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    nodes, tasks = int(options["--nodes"]), int(options["--ntasks-per-node"])
    given = words[words.index("distlib.launch.slurm_rank") + 1 :]
    for rank in range(nodes * tasks):
        if os.fork() == 0:
            os.environ.update(slurm_variables(rank, nodes, tasks))
            os._exit(slurm_rank.main(*given))
    for _ in range(nodes * tasks):
        os.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
