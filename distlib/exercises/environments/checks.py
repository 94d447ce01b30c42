"""Exercise 16b: names of nodes, the variables of a rank, and the checkpoint that all ranks can go on from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count
from distlib.checks.plays.calls import attempt
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import called, returns, shown, type_of
from distlib.checks.rules.values import known
from distlib.checks.seen import Played, Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.environments.checkpoint_disks import Disks, disks_case, drawn_disks
from distlib.exercises.environments.checkpoint_rules import folder_untouched, goes_on, one_step
from distlib.exercises.environments.helpers import expand_nodelist
from distlib.exercises.environments.node_lists import drawn_list, groups_of, names_by_mistake, why_bad, written_out
from distlib.exercises.environments.plays import each_task
from distlib.exercises.environments.slurm_steps import ELSEWHERE, MEANS, SlurmStep, mistakes

say = Sentences(__file__)


# ── expand_nodelist ──────────────────────────────────────────────────────────────────────────────────────────────────


def _refusals(seen: Seen) -> Signs:
    _, bad = seen.facts
    return [] if bad is None else [("raised", say("other_error", why=why_bad(bad)))]


@task("text", errors=_refusals)
def check_expand_nodelist(
    draw: Draw, *, texts: Sequence[str], bad: Sequence[tuple[str, str]] = (), drawn: int = 0
) -> Iterator[Case]:
    """`function(text)`: the names of a list.

    `bad`: lists with the group in each that is wrong; `drawn`: more lists that are right.
    """
    right = [*texts, *(drawn_list(draw) for _ in range(drawn))]
    for text, group in [*((text, None) for text in right), *bad]:
        case = called(text, facts=(text, group))
        yield Case(case.title, attempt, case.inputs, case.facts)


@check_expand_nodelist.judge
def _(seen: Seen) -> Remarks:
    (text, bad), refused = seen.facts, seen[0].get("refused")
    if bad is not None:
        yield _names_the_group(seen, text, bad, refused)
    elif refused is not None:
        yield say.remark("nothing_wrong", f"found    {shown(refused)}", names=shown(written_out(text)))
    else:
        yield from _right_names(seen, text)


def _right_names(seen: Seen, text: str) -> Remarks:
    """A list that is right is written out."""
    found = seen[0]["returned"]
    if type_of(found) in ("generator", "set", "dict"):
        yield say.remark("no_list", type=type_of(found))
    is_left = isinstance(found, list) and any(mark in str(name) for name in found for mark in "[]")
    otherwise = say("left") if is_left else say("order")
    yield returns(replace(seen, played=[Played(found)]), written_out(text), lambda: names_by_mistake(text), otherwise)


def _names_the_group(seen: Seen, text: str, bad: str, refused: str | None) -> Remark | None:
    """A list with a group that is wrong is refused, and the error names that group, and no other."""
    if refused is None:
        return say.remark("not_refused", f"found    {shown(seen[0]['returned'])}", why=why_bad(bad))
    if others := _others_in(refused, text, bad):
        return say.remark("names_another", f"found    {shown(refused)}", other=others[0], bad=bad, why=why_bad(bad))
    if bad not in (refused if bad == text else refused.replace(text, "")):
        return say.remark("unnamed", f"found    {shown(refused)}", bad=bad, why=why_bad(bad))
    return None


def _others_in(message: str, text: str, bad: str) -> list[str]:
    """The groups with brackets that a message names besides the wrong one; a name may be a word of it by chance.

    It may quote the whole list, and what is left of it from the wrong group on.
    """
    if not bad:
        return []
    named = message.replace(text, "").replace(text[text.index(bad) :], "")
    return [group for group in groups_of(text.replace(bad, "")) if "[" in group and group not in bad and group in named]


# ── rendezvous_environment ───────────────────────────────────────────────────────────────────────────────────────────

PORTS = range(1_024, 32_768)
FAR = 10_000  # jobs whose numbers are nearer than this have different ports
# What is added to a job's number: any two less than FAR apart, as every distance, occur.
OTHERS = (*range(1, 200), *range(200, FAR + 1, 100))
WANTED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@task("slurm", helpers=[expand_nodelist])
def check_rendezvous_environment(draw: Draw, *, steps: Sequence[SlurmStep]) -> Iterator[Case]:
    """`function(slurm)`: the variables of torch.distributed, for each task of a step, and rank 0 of many other jobs."""
    for step in steps:
        calls = [(rank, step.job) for rank in (*range(len(step.locations())), 0)]
        calls += [(0, step.job + more) for more in OTHERS]
        inputs = {"tasks": [step.variables(*call) for call in calls], "elsewhere": ELSEWHERE}
        yield Case(_title(step), each_task, [inputs], (step, calls))


def _title(step: SlurmStep) -> str:
    parts = [f"on {step.nodes}", f"tasks {step.tasks}"]
    if step.cyclic:
        parts.append("dealt out in turn")
    if step.missing:
        parts.append(f"without {step.missing}")
    return ", ".join(parts)


@check_rendezvous_environment.judge
def _(seen: Seen) -> Remarks:
    (step, calls), given = seen.facts, seen.given("tasks")[0]
    if step.missing:
        for told in seen[0]:
            yield _names_what_is_missing(step.missing, told)
        return
    right = [step.right(rank) for rank in range(len(step.locations()))]
    for (rank, _), told, slurm in zip(calls, seen[0], given, strict=True):
        yield from _of_a_task(step, rank, told, slurm, right)
    yield from _one_port_per_job(step.job, calls, [told["returned"]["MASTER_PORT"] for told in seen[0]])


def _names_what_is_missing(missing: str, told: Mapping[str, Any]) -> Remark | None:
    if "refused" not in told:
        return say.remark("default", f"found    {shown(told['returned'])}", missing=missing)
    if missing not in told["refused"]:
        return say.remark("not_named", f"found    {shown(told['refused'])}", missing=missing)
    return None


def _of_a_task(
    step: SlurmStep, rank: int, told: Mapping[str, Any], slurm: dict[str, str], right: Sequence[dict[str, str]]
) -> Remarks:
    """What a task is given is complete, text, and right, but for the port."""
    if "refused" in told:
        is_key = told["refused"].startswith("KeyError")
        yield say.remark("key_error" if is_key else "value_error", rank=rank, error=told["refused"])
    found = told.get("returned")
    yield _has_all_names(rank, found)
    assert isinstance(found, dict)
    for name in WANTED:
        if not isinstance(found[name], str):
            yield say.remark("no_text", rank=rank, name=name, found=shown(found[name]), type=type_of(found[name]))
    for name, value in right[rank].items():
        if found[name] != value:
            wrong = mistakes(name, step, rank, slurm)
            cause = known(found[name], wrong, lambda one, other: one == other) or MEANS[name]
            compared = (f"expected {value}", f"found    {found[name]}")
            yield say.remark("wrong_variable", *compared, rank=rank, name=name, cause=cause)
    if told["exported"]:
        yield say.remark("exported", rank=rank, names=", ".join(told["exported"]))
    if told["variables"] != slurm:
        yield say.remark("slurm_changed", rank=rank)


def _has_all_names(rank: int, found: Any) -> Remark | None:
    if not isinstance(found, dict):
        return say.remark("no_dict", rank=rank, found=shown(found))
    missing = [name for name in WANTED if name not in found]
    return say.remark("name_missing", rank=rank, found=shown(found), name=missing[0]) if missing else None


def _one_port_per_job(own: int, calls: Sequence[tuple[int, int]], ports: Sequence[str]) -> Remarks:
    """All tasks of a job have one port, and jobs whose numbers are near have different ones.

    Args:
        own: the number of the step's job.
        calls: rank and job of each.
        ports: what each call has returned.
    """
    latest: dict[int, int] = {}  # by port, the job that has it
    for (rank, job), port in zip(calls, ports, strict=True):
        if not port.isdecimal() or int(port) not in PORTS:
            yield say.remark("out_of_range", job=job, port=shown(port), first=PORTS[0], last=PORTS[-1])
        if job == own and port != ports[0] and rank:
            yield say.remark("ports_differ", first=ports[0], rank=rank, port=port)
        elif job == own and port != ports[0]:
            yield say.remark("port_changes", first=ports[0], port=port)
        if job - latest.get(int(port), job) in range(1, FAR):
            yield say.remark("same_port", other=latest[int(port)], job=job, port=port, far=FAR)
        latest[int(port)] = job


# ── resume ───────────────────────────────────────────────────────────────────────────────────────────────────────────

MOST_BYTES = 512  # of a message: a list of steps, and not a checkpoint
ERRORS = (
    ("PytorchStreamReader", say("damaged")),
    ("Ran out of input", say("damaged")),
    ("UnpicklingError", say("damaged")),
    ("invalid load key", say("damaged")),
    ("EOFError", say("damaged")),
    ("invalid magic", say("damaged")),
    ("central directory", say("damaged")),
    ("Weights only load failed", say("damaged")),
    ("invalid literal for int()", say("file_name")),
    ("IsADirectory", say("file_name")),
    ("substring not found", say("file_name")),
    ("'NoneType' object has no attribute 'group'", say("file_name")),
    ("No such file or directory", say("no_folder")),
    ("empty sequence", say("none_good")),
    ("iterable argument is empty", say("none_good")),
    ("list index out of range", say("none_good")),
    ("numel() == 0", say("none_good")),
    ("raised KeyError", say("wrong_key")),
    ("receives into", say("lengths")),
    ("has already returned", say("absent")),
    ("nobody received", say("absent")),
    ("waits", say("waits")),
)


@task("comm", "folder", "model", "optimizer", errors=ERRORS)
def check_resume(draw: Draw, *, disks: Sequence[Disks], drawn: Sequence[int] = ()) -> Iterator[Case]:
    """`function(comm, folder, model, optimizer)`: the newest step that is good on all ranks, loaded.

    `drawn`: ranks of more cases.
    """
    for each in (*disks, *(drawn_disks(draw, ranks) for ranks in drawn)):
        yield disks_case(draw, each)


@check_resume.judge
def _(seen: Seen) -> Remarks:
    held = seen.facts
    yield from one_step(held.disks, [told["step"] for told in seen.results])
    for rank in seen.ranks:
        yield from goes_on(rank, seen[rank], held)
        yield from folder_untouched(rank, seen.given("files")[rank], seen[rank]["files"], seen[rank]["is_there"])
    for rank in seen.ranks if seen.size > 1 else ():
        yield from _few_messages(seen, rank)


def _few_messages(seen: Seen, rank: int) -> Remarks:
    """A rank sends and receives, but only what the others must know."""
    sent = [message for message in seen.trace if message.src == rank]
    most = 2 * (seen.size - 1)
    if not sent:
        yield say.remark("sent_none", rank=rank)
    if not any(message.dst == rank for message in seen.trace):
        yield say.remark("received_none", rank=rank)
    if any(message.nbytes > MOST_BYTES for message in sent):
        yield say.remark("large", rank=rank, nbytes=max(message.nbytes for message in sent), most=MOST_BYTES)
    if len(sent) > most:
        yield say.remark("many", rank=rank, messages=count(len(sent), "message"), most=most)
