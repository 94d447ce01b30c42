"""One training, run by each framework, and counted: plain DDP, ours, Lightning, Accelerate, DeepSpeed, Ray.

same_task      the model, its data and the loss function, written once
programs       the training as a student writes it for each framework
program        Program, PROGRAMS; changed(name): what differs from plain DDP's; is_there(name)

run_or_recording   report(name): run now, or as it was recorded
trainer_report     TrainerReport: result, collectives, bytes, seconds, processes
report_origin      where a report comes from, and the file of a recording
recorded           the recordings, written by `python -m distlib.trainers`

trap, trap_table    TRAPS: what people lose days to; run_trap(name), recorded_trap(name)
trap_programs       the programs that show it

environment_of_frameworks   where the packages are: `make frameworks`
run_command    runs a program in a network, a home and a folder of its own, and leaves nothing behind
in_each_process   what is counted in each process
output         what was printed, shorter

algorithm_map  which framework does which algorithm, under which name, and where that was read
torchtitan_places   where each algorithm stands in torchtitan's code
by_use         which framework for which use, and what it costs to leave it
side_by_side   SideBySide: a table of words, in a notebook and as text
"""

from distlib.trainers.algorithm_map import ALGORITHMS, NOTHING, algorithm_map, sources
from distlib.trainers.by_use import by_use
from distlib.trainers.program import PROGRAMS, Program, changed, is_there
from distlib.trainers.run_or_recording import TrainerError, recording, report
from distlib.trainers.same_task import WideClassifier, loss_of, sgd, training_set
from distlib.trainers.side_by_side import SideBySide
from distlib.trainers.torchtitan_places import torchtitan_places
from distlib.trainers.trainer_report import CallRow, TrainerReport, table_of
from distlib.trainers.trap import TrapReport, recorded_trap, run_trap
from distlib.trainers.trap_table import TRAPS, Trap

__all__ = [
    "ALGORITHMS",
    "NOTHING",
    "PROGRAMS",
    "TRAPS",
    "CallRow",
    "Program",
    "SideBySide",
    "TrainerError",
    "TrainerReport",
    "Trap",
    "TrapReport",
    "WideClassifier",
    "algorithm_map",
    "by_use",
    "changed",
    "is_there",
    "loss_of",
    "recorded_trap",
    "recording",
    "report",
    "run_trap",
    "sgd",
    "sources",
    "table_of",
    "torchtitan_places",
    "training_set",
]
