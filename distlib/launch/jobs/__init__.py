"""Job scripts for Slurm, which `distlib launch --script NAME` prints.

lab.sbatch      a Jupyter session in a job, and how to reach it
train.sbatch    a training that goes back into the queue when its time is over
"""

from pathlib import Path

_FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in _FOLDER.glob("*.sbatch")))


def job_script(name: str) -> str:
    """The text of a script. Raises FileNotFoundError if there is none of that name; NAMES has them all."""
    return (_FOLDER / f"{name}.sbatch").read_text(encoding="utf-8")
