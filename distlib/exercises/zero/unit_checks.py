"""Exercise 11: a model whose parameters are cut, unit by unit. `unit_rules` judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.rules.flat_all_reduce import TOGETHER
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.zero import unit_rules
from distlib.exercises.zero.checks import SIGNS, SUPPLIED
from distlib.exercises.zero.unit_cases import Sharding, WholeModel, sharding_case

say = Sentences(__file__)

UNIT_SIGNS: Signs = (
    ("expected shards to be a list", say("list_of_shards")),
    ("has no attribute 'shards'", say("list_of_shards")),
    ("expected each of the shards", say("shards_are_parameters")),
    ("memory that was freed is read", say("freed")),
    ("out of bounds for storage of size 0", say("freed")),
    ("shapes cannot be multiplied", say("given_by_a_hook")),
    ("size of tensor a (0)", say("freed_too_early")),
    ("can be converted to an index", say("gradient_is_no_number")),
    ("must be a matrix", say("not_gathered")),
    ("must match the size of tensor", say("lengths")),
    ("must match the existing size", say("lengths")),
    ("attempting to assign a gradient of size", say("lengths")),
    ("doesn't require gradient", say("nothing_to_hook")),
    ("'NoneType' object has no attribute", say("too_early")),
    ("forward() takes 2 positional arguments", say("several_tensors")),
    ("has changed the size of value", say("hook_returns")),
    ("modified by an inplace operation", say("version")),
    *SIGNS,
    *TOGETHER,
)


@task("comm", "module", "units", helpers=SUPPLIED, errors=UNIT_SIGNS)
def check_fully_sharded_module(draw: Draw, *, runs: Sequence[Sharding]) -> Iterator[Case]:
    """The class `function(comm, module, units)`: parameters are gathered unit by unit, and gradients scattered."""
    for run in runs:
        yield sharding_case(draw, run)


@check_fully_sharded_module.judge
def _(seen: Seen) -> Remarks:
    plan: Sharding = seen.facts
    for number in range(plan.number):
        whole = WholeModel(seen.case, number)
        yield from unit_rules.cuts_parameters(seen, whole, number)
        yield from unit_rules.trains_as_one(seen, whole, number)
    for number in range(plan.number if plan.ranks > 1 else 0):
        yield from unit_rules.holds_one_unit(seen, plan, number)
    yield from unit_rules.sends_little(seen, plan)
