"""Exercise 11: a whole checkpoint with torch. Judged by values before and after more steps, and by what is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count, dtype_name
from distlib.checks.plays.plain_values import is_same
from distlib.checks.remark import Remark
from distlib.checks.rules.block_training import rows_of_rank
from distlib.checks.rules.torch_messages import messages_by_size
from distlib.checks.rules.values import Mistakes, holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.zero.checkpoint_cases import (
    OPTIONS,
    Break,
    KnownState,
    WholeTraining,
    drawn_breaks,
    fresh,
    is_same_option,
    loading_case,
    saving_case,
)

say = Sentences(__file__)
OBJECT_BYTES = 40_000  # of names, shapes and options, to each rank; torch sends a fifth of it
MOST = 1.5  # times what torch sends

SAVE_SIGNS: Signs = (
    ("'Tensor' object has no attribute 'full_tensor'", say("no_dtensor")),
    ("waits", say("not_all_call")),
    ("same collective calls", say("not_all_call")),
)
LOAD_SIGNS: Signs = (
    ("KeyError: 'model'", say("empty_elsewhere")),
    ("KeyError: 'optimizer'", say("empty_elsewhere")),
    ("but model state_dict is empty", say("no_broadcast")),
    ("but optim state_dict is empty", say("no_broadcast")),
    ("full_state_dict must be True", say("both_options")),
    ("scatter(src=0)", say("no_broadcast")),
    ("waits", say("skipped")),
    ("same collective calls", say("skipped")),
)


@task("model", "optimizer", errors=SAVE_SIGNS, seconds=8.0)
def check_whole_state(draw: Draw, *, runs: Sequence[Break], drawn: int = 0) -> Iterator[Case]:
    """`function(model, optimizer)`: the whole state on rank 0. `drawn`: how many cases more are all drawn."""
    for plan in (*runs, *drawn_breaks(draw, drawn)):
        yield saving_case(draw, plan)


@check_whole_state.judge
def _(seen: Seen) -> Remarks:
    training = WholeTraining(seen.case)
    right = training.run("before")
    yield from is_dict_of_two(seen)
    yield from has_parameters(seen, right)
    yield from has_states(seen, right)
    yield from has_groups(seen, right)
    yield only_rank_0_has_it(seen)
    yield steps_go_well(seen, say("made_whole"))
    yield stays_as_it_was(seen)
    yield from trains_on(seen, training.run("after"))
    yield gathers_once(seen)


@task("model", "optimizer", "state", errors=LOAD_SIGNS, seconds=8.0)
def check_load_whole_state(draw: Draw, *, runs: Sequence[Break], drawn: int = 0) -> Iterator[Case]:
    """`function(model, optimizer, state)`: only rank 0 has the state. `drawn`: how many cases more are all drawn."""
    for plan in (*runs, *drawn_breaks(draw, drawn)):
        yield loading_case(draw, plan)


@check_load_whole_state.judge
def _(seen: Seen) -> Remarks:
    training = WholeTraining(seen.case)
    right = training.now
    for rank in seen.ranks:
        yield from loads_parameters(seen, rank, right)
    for rank in seen.ranks:
        yield from loads_states(seen, rank, right)
        yield from loads_groups(seen, rank, right)
    yield steps_go_well(seen, say("else_changed"))
    yield from goes_on(seen, training.run("after"))
    yield from sends_tensor_by_tensor(seen)


def _same(found: Any, right: Any) -> bool:
    """Whether two tensors differ by rounding at most."""
    single = isinstance(right, torch.Tensor) and right.dtype == torch.float32
    return is_close(found, right, relative=1e-3, absolute=1e-5) if single else is_close(found, right, relative=1e-7)


def steps_go_well(seen: Seen, cause: str) -> Remark | None:
    """torch raises no error in the steps after the call."""
    for rank in seen.ranks:
        if seen[rank]["failed"]:
            return say.remark("failed", seen[rank]["failed"].splitlines()[0][:300], rank=rank, cause=cause)
    return None


# ── what is saved ────────────────────────────────────────────────────────────────────────────────────────────────────


def is_dict_of_two(seen: Seen) -> Remarks:
    """Of rank 0: {"model": …, "optimizer": {"state": …, "param_groups": …}}."""
    state = seen[0]["state"]
    if not isinstance(state, dict) or not {"model", "optimizer"} <= state.keys():
        yield say.remark("no_dict", found=_form(state))
        return
    model, optimizer = state["model"], state["optimizer"]
    if not isinstance(model, dict):
        yield say.remark("no_dict_of_model", found=_form(model))
    if not isinstance(optimizer, dict) or not {"state", "param_groups"} <= optimizer.keys():
        yield say.remark("no_dict_of_optimizer", found=_form(optimizer))
    elif any(not isinstance(optimizer[key], kind) for key, kind in (("state", dict), ("param_groups", list))):
        yield say.remark("no_dict_of_optimizer", found=_form(optimizer))


def _form(value: Any) -> str:
    if not isinstance(value, dict):
        return "None" if value is None else f"a {type(value).__name__}"
    keys = ", ".join(map(repr, list(value)[:4]))
    return f"a dict with {keys}{', …' if len(value) > 4 else ''}" if value else "an empty dict"


def has_parameters(seen: Seen, right: KnownState) -> Remarks:
    """Each parameter, whole, by its name."""
    found = seen[0]["state"]["model"]
    yield _same_names("model", found, right.parameters)
    for name, whole in right.parameters.items():
        yield _is_whole(seen, f"the parameter {name}", found[name], whole, {})


def has_states(seen: Seen, right: KnownState) -> Remarks:
    """Each parameter's moments, whole, and its number of steps."""
    states = seen[0]["state"]["optimizer"]["state"]
    if states and all(isinstance(name, int) for name in states):
        yield say.remark("by_number")
    yield _same_names("optimizer", states, right.moments)
    for name, moments in right.moments.items():
        found = states[name]
        missing = [key for key in ("step", *moments) if not isinstance(found, dict) or key not in found]
        if missing:
            yield say.remark("no_moments_saved", name=name, missing=_quoted(missing), found=_form(found))
            return
        for key, whole in moments.items():
            others = {say("other_moment"): [each for other, each in moments.items() if other != key]}
            yield _is_whole(seen, f"{key} of {name}", found[key], whole, others)
        if not is_same_option(found["step"], right.steps):
            yield say.remark("steps_saved", name=name, found=_number(found["step"]), due=right.steps)


def _quoted(keys: Sequence[str]) -> str:
    *first, last = [f'"{key}"' for key in keys]
    return f"{', '.join(first)} or {last}" if first else last


def _same_names(part: str, found: Mapping[str, Any], right: Mapping[str, Any]) -> Remark | None:
    missing, more = [name for name in right if name not in found], [name for name in found if name not in right]
    if missing:
        return say.remark("missing", part=part, name=missing[0], number=len(found), due=len(right))
    return say.remark("other_names", part=part, name=more[0]) if more else None


def _is_whole(seen: Seen, what: str, found: Any, whole: torch.Tensor, others: Mistakes) -> Remark | None:
    if found == "a DTensor":
        return say.remark("still_cut", what=what)
    rows = [rows_of_rank(whole, seen.size, rank) for rank in seen.ranks] if seen.size > 1 else []
    mistakes = {say("own_rows"): rows, **others}
    return holds(f"in the state {what}", found, whole, mistakes, same=_same, otherwise=say("saved_values"))


def _number(value: Any) -> str:
    is_one = isinstance(value, torch.Tensor) and value.numel() == 1
    return f"{value.item():g}" if is_one else str(value) if isinstance(value, int | float) else _form(value)


def has_groups(seen: Seen, right: KnownState) -> Remarks:
    """The options of all groups, and the names of their parameters."""
    found = seen[0]["state"]["optimizer"]["param_groups"]
    names = [each.get("params") if isinstance(each, dict) else None for each in found]
    if names != [each["params"] for each in right.groups]:
        yield say.remark("groups")
    for number, group in enumerate(right.groups):
        yield _options_hold(f"in the state group {number}", found[number], group, {})


def _options_hold(
    what: str, found: Mapping[str, Any], right: Mapping[str, Any], begin: Mapping[str, Any]
) -> Remark | None:
    for key in OPTIONS:
        if not is_same_option(found.get(key), right[key]):
            cause = say("options_of_new" if is_same_option(found.get(key), begin.get(key)) else "options")
            return say.remark("option", what=what, key=key, found=found.get(key), due=right[key], cause=cause)
    return None


def only_rank_0_has_it(seen: Seen) -> Remark | None:
    """The other ranks return no tensors."""
    for rank in seen.ranks[1:]:
        nbytes = sum(each.nbytes for each in _tensors(seen[rank]["state"]))
        if nbytes:
            whole = sum(each.nbytes for each in _tensors(seen[0]["state"]))
            cause = say("everybody" if nbytes >= whole else "something_elsewhere")
            return say.remark("elsewhere", rank=rank, found=count(nbytes, "byte"), cause=cause)
    return None


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    for each in _entries(value).values():
        if isinstance(each, torch.Tensor):
            yield each


def _entries(value: Any, path: str = "") -> dict[str, Any]:
    """What is in dicts and lists, by the way to it."""
    if not isinstance(value, dict | list | tuple):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {way: each for key, item in items for way, each in _entries(item, f"{path}[{key!r}]").items()}


def stays_as_it_was(seen: Seen) -> Remark | None:
    """The later steps have changed nothing in the state."""
    now, later = _entries(seen[0]["state"]), _entries(seen[0]["later"])
    changed = [way for way in now if not is_same(now[way], later.get(way))]
    if not changed:
        return None
    kinds = {way.rpartition("[")[2].strip("']") for way in changed}
    return say.remark("alive", way=changed[0], cause=say("step_alive" if kinds == {"step"} else "shared_memory"))


def trains_on(seen: Seen, right: KnownState) -> Remarks:
    """Saving has changed nothing in the training."""
    for rank in seen.ranks:
        for name, whole in right.parameters.items():
            found = seen[rank]["parameters"][name]
            due = rows_of_rank(whole, seen.size, rank)
            what = f"after more steps, on rank {rank} its part of {name}"
            yield holds(what, found["local"], due, same=_same, otherwise=say("training_changed"))


def gathers_once(seen: Seen) -> Remark | None:
    """Each tensor travels once to each rank, at most."""
    plan: Break = seen.facts
    found = sum(map(sum, _sent_besides_training(seen, plan.before + plan.after)))
    due = (plan.ranks - 1) * plan.gathered_bytes
    if found <= MOST * due + OBJECT_BYTES * (plan.ranks - 1):
        return None
    return say.remark("sends_more", found=count(found, "byte"), due=f"{due:,}")


def _sent_besides_training(seen: Seen, steps: int) -> list[tuple[int, int]]:
    """The bytes that each rank has sent besides those of its steps: in tensors of the case's dtype, and in others.

    A judge knows no line of a sandbox, so it takes off what steps need, see `Break.training_messages`.
    """
    plan: Break = seen.facts
    training = plan.training_messages(steps)
    found = []
    for rank in seen.ranks:
        others = sum(each.nbytes for each in seen.trace if each.src == rank and each.dtype != dtype_name(plan.dtype))
        sent = messages_by_size(seen.trace, rank)
        besides = sum(nbytes * number for (_, nbytes), number in (sent - training).items())
        found.append((besides - others, others))
    return found


# ── what is loaded ───────────────────────────────────────────────────────────────────────────────────────────────────


def loads_parameters(seen: Seen, rank: int, right: KnownState) -> Remarks:
    """This rank's rows of each parameter."""
    parameters, begin = seen[rank]["loaded"]["parameters"], fresh(seen.case).parameters
    for name, whole in right.parameters.items():
        yield _has_rows(seen, rank, name, parameters[name], whole, {say(_not_loaded(rank)): begin[name]})


def _not_loaded(rank: int) -> str:
    return "not_loaded_elsewhere" if rank else "not_loaded"


def _has_rows(seen: Seen, rank: int, what: str, found: Any, whole: torch.Tensor, others: Mistakes) -> Remark | None:
    if not isinstance(found, dict) or not found["is_cut"]:
        return say.remark("not_cut", rank=rank, what=what)
    rows = [rows_of_rank(whole, seen.size, each) for each in seen.ranks]
    wrong = {words: [rows_of_rank(each, seen.size, rank) for each in _listed(value)] for words, value in others.items()}
    mistakes = {**wrong, say("rows_of_another"): rows[:rank] + rows[rank + 1 :]}
    what = f"on rank {rank} its part of {what}"
    return holds(what, found["local"], rows[rank], mistakes, same=_same, otherwise=say("loaded_values"))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def loads_states(seen: Seen, rank: int, right: KnownState) -> Remarks:
    """This rank's rows of each parameter's moments, and its number of steps."""
    states = seen[rank]["loaded"]["states"]
    for name, moments in right.moments.items():
        found = states[name]
        missing = [key for key in ("step", *moments) if key not in found]
        if missing:
            cause = say("some_moments" if found else _no_moments(seen, rank))
            yield say.remark("no_moments", rank=rank, name=name, missing=_quoted(missing), cause=cause)
            return
        for key, whole in moments.items():
            yield _has_rows(seen, rank, f"{key} of {name}", found[key], whole, _wrong_moments(right, name, key))
        step = found["step"]["local"] if isinstance(found["step"], dict) else found["step"]
        if not is_same_option(step, right.steps):
            yield say.remark("steps", rank=rank, name=name, found=_number(step), due=right.steps)


def _no_moments(seen: Seen, rank: int) -> str:
    anywhere = any(seen[rank]["loaded"]["states"].values()) or any(seen[0]["loaded"]["states"].values())
    return "not_loaded_elsewhere" if anywhere else "optimizer_forgotten"


def _wrong_moments(right: KnownState, name: str, key: str) -> Mistakes:
    whole = right.moments[name][key]
    others = [each[key] for other, each in right.moments.items() if other != name and each[key].shape == whole.shape]
    swapped = [each for other, each in right.moments[name].items() if other != key]
    return {say("moments_zero"): torch.zeros_like(whole), say("other_order"): others, say("other_moment"): swapped}


def loads_groups(seen: Seen, rank: int, right: KnownState) -> Remarks:
    """The options of all groups."""
    found, begin = seen[rank]["loaded"]["groups"], fresh(seen.case).groups
    if len(found) != len(right.groups):
        yield say.remark("groups_loaded", rank=rank, found=len(found))
    for number, group in enumerate(right.groups):
        yield _options_hold(f"on rank {rank} group {number} of the optimizer", found[number], group, begin[number])


def goes_on(seen: Seen, right: KnownState) -> Remarks:
    """After more steps all is as if there had been no break."""
    begin = seen.case.inputs[0]["state"]["model"]
    for rank in seen.ranks:
        ended = seen[rank]["ended"]
        for name, whole in right.parameters.items():
            due, still = (rows_of_rank(each, seen.size, rank) for each in (whole, begin[name]))
            what = f"after more steps, on rank {rank} its part of {name}"
            found, mistakes = ended["parameters"][name]["local"], {say("still"): still}
            yield holds(what, found, due, mistakes, same=_same, otherwise=say("goes_on_otherwise"))


def sends_tensor_by_tensor(seen: Seen) -> Remarks:
    """Rank 0 sends each tensor to each rank, at most; and of objects only what names and shapes take."""
    plan: Break = seen.facts
    tensors, objects = map(sum, zip(*_sent_besides_training(seen, plan.after), strict=True))
    if objects > OBJECT_BYTES * (plan.ranks - 1):
        yield say.remark("as_object", found=count(objects, "byte"))
    due = (plan.ranks - 1) * plan.state_bytes
    if tensors > MOST * due:
        yield say.remark("broadcasts_more", found=count(tensors, "byte"), due=f"{due:,}")
