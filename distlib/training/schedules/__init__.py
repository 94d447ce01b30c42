"""Pipeline schedules: in which order each rank does the forward and backward passes of its stages.

actions               2F0: stage 2, forward, microbatch 0. A schedule is a list of actions for each rank
naive                 one microbatch after another: only one rank computes at a time
gpipe                 all forward passes, then all backward passes
one_forward_one_backward   the same bubble, but at most p microbatches are kept
interleaved           several stages per rank: a smaller bubble, more messages
zero_bubble           backward passes cut in two: the second half fills the bubble
zero_bubble_v         the same with two stages per rank: hardly a bubble, and no more is kept

execution             can a schedule be executed at all? In which order?
memory                how many microbatches a rank keeps at the same time
timing                when each action runs in virtual time, given what each takes; the bubble
text_grid             the picture that everybody knows, as text

All of it is pure values: nothing is sent and nothing computed. `distlib.training.pipeline` runs a schedule.
"""

from distlib.training.schedules.actions import Action, Schedule, parse_schedule
from distlib.training.schedules.execution import ScheduleError, check_schedule, execution_order
from distlib.training.schedules.gpipe import gpipe
from distlib.training.schedules.interleaved import interleaved_1f1b
from distlib.training.schedules.memory import most_live
from distlib.training.schedules.naive import naive
from distlib.training.schedules.one_forward_one_backward import one_forward_one_backward
from distlib.training.schedules.text_grid import schedule_grid
from distlib.training.schedules.timing import ActionSpan, Costs, Timing, time_schedule
from distlib.training.schedules.zero_bubble import zero_bubble
from distlib.training.schedules.zero_bubble_v import zero_bubble_v

__all__ = [
    "Action",
    "ActionSpan",
    "Costs",
    "Schedule",
    "ScheduleError",
    "Timing",
    "check_schedule",
    "execution_order",
    "gpipe",
    "interleaved_1f1b",
    "most_live",
    "naive",
    "one_forward_one_backward",
    "parse_schedule",
    "schedule_grid",
    "time_schedule",
    "zero_bubble",
    "zero_bubble_v",
]
