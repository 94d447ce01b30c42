"""Stands in for srun where there is no Slurm: starts the ranks of a SlurmWorld here, with one import of torch.

python -m tests.tools.fake_srun --nodes=2 … python -c PROGRAM DIRECTORY NAME PATIENCE RANKS
"""

import os
import sys

from distlib.launch import slurm_node
from tests.tools.launched import slurm_variables


def main(words: list[str]) -> int:
    """Start the process of each node, and wait for them."""
    options = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    nodes, given = int(options["--nodes"]), words[words.index("-c") + 2 :]
    for node in range(nodes):
        if os.fork() == 0:
            os.environ.update(slurm_variables(node, nodes, 1))
            os._exit(slurm_node.main(*given))
    for _ in range(nodes):
        os.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
