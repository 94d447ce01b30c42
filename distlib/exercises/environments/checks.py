"""Exercise 16: names of nodes, the variables of a rank, and the checkpoint that all ranks can go on from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from distlib.checks.case import Case
from distlib.checks.plays.calls import attempt
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import called, returns, shown, type_of
from distlib.checks.rules.values import known
from distlib.checks.seen import Played, Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count
from distlib.exercises.environments.checkpoint_disks import Disks, disks_case, drawn_disks
from distlib.exercises.environments.checkpoint_rules import CHECKSUM, NAME, folder_untouched, goes_on, one_step
from distlib.exercises.environments.helpers import expand_nodelist
from distlib.exercises.environments.node_lists import drawn_list, groups_of, names_by_mistake, why_bad, written_out
from distlib.exercises.environments.plays import each_task
from distlib.exercises.environments.slurm_steps import ELSEWHERE, MEANS, Step, mistakes

# fmt: off
# ── expand_nodelist ──────────────────────────────────────────────────────────────────────────────────────────────────

ORDER = "write out one group after another: what stands before the brackets, each number, what stands behind them."
REFUSE = "For a group that is wrong raise a ValueError, with the group in its message; any other error looks like a mistake in your function."
LEFT = "a bracket is left in a name. Is a group cut at a comma inside of its brackets, or has a name several brackets?"


@task("text", errors=lambda seen: [("raised", f"{why_bad(seen.facts[1])} {REFUSE}")] if seen.facts[1] is not None else [])
def check_expand_nodelist(draw: Draw, *, texts: Sequence[str], bad: Sequence[tuple[str, str]] = (), drawn: int = 0) -> Iterator[Case]:
    """`function(text)`: the names of a list. `bad`: lists with the group in each that is wrong; `drawn`: more lists that are right."""
    for text, group in [*((text, None) for text in (*texts, *(drawn_list(draw) for _ in range(drawn)))), *bad]:
        case = called(text, facts=(text, group))
        yield Case(case.title, attempt, case.inputs, case.facts)


@check_expand_nodelist.judge
def _(seen: Seen) -> Remarks:
    (text, bad), refused = seen.facts, seen[0].get("refused")
    if bad is None and refused is not None:
        yield Remark("it raised ValueError, but nothing is wrong here.", (f"found    {shown(refused)}",), f"expected was {shown(written_out(text))}.")
    elif bad is None:
        found, right = seen[0]["returned"], written_out(text)
        if type_of(found) in ("generator", "set", "dict"):
            yield Remark(f"it returned a {type_of(found)}; expected was a list of texts.", cause="the order matters, and others index it: collect the names in a list, and return that.")
        is_left = isinstance(found, list) and any(mark in str(name) for name in found for mark in "[]")
        yield returns(replace(seen, played=[Played(found)]), right, lambda: names_by_mistake(text), LEFT if is_left else ORDER)
    elif refused is None:
        yield Remark("it returned a value; expected was a ValueError.", (f"found    {shown(seen[0]['returned'])}",), why_bad(bad))
    elif others := _others_in(refused, text, bad):
        yield Remark(f"its ValueError names {others[0]!r}, and nothing is wrong there.", (f"found    {shown(refused)}",), f"only {bad!r} is wrong: {why_bad(bad)} Whoever reads the error must know which group it is.")
    elif bad not in (refused if bad == text else refused.replace(text, "")):
        yield Remark(f"its ValueError does not name the group that is wrong, {bad!r}.", (f"found    {shown(refused)}",), f"{why_bad(bad)} A list may have hundreds of names: put the group into the error's text.")


def _others_in(message: str, text: str, bad: str) -> list[str]:
    """The groups with brackets that a message names besides the one that is wrong; a name may be a word of it by chance.

    It may quote the whole list, and what is left of it from the wrong group on.
    """
    if not bad:
        return []
    named = message.replace(text, "").replace(text[text.index(bad) :], "")
    return [group for group in groups_of(text.replace(bad, "")) if "[" in group and group not in bad and group in named]


# ── rendezvous_environment ───────────────────────────────────────────────────────────────────────────────────────────

PORTS = range(1_024, 32_768)
FAR = 10_000  # jobs whose numbers are nearer than this have different ports
OTHERS = (*range(1, 200), *range(200, FAR + 1, 100))  # what is added to a job's number: any two less than FAR apart, as every distance, occur
WANTED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@task("slurm", helpers=[expand_nodelist])
def check_rendezvous_environment(draw: Draw, *, steps: Sequence[Step]) -> Iterator[Case]:
    """`function(slurm)`: the variables of torch.distributed, for each task of a step, and for rank 0 of many other jobs."""
    for step in steps:
        calls = [(rank, step.job) for rank in (*range(len(step.places())), 0)] + [(0, step.job + more) for more in OTHERS if not step.missing]
        title = f"on {step.nodes}, tasks {step.tasks}{', dealt out in turn' * step.cyclic}{f', without {step.missing}' * bool(step.missing)}"
        yield Case(title, each_task, [{"tasks": [step.variables(*call) for call in calls], "elsewhere": ELSEWHERE}], (step, calls))


def _of_a_task(step: Step, rank: int, told: dict[str, Any], slurm: dict[str, str], right: Sequence[dict[str, str]]) -> Iterator[Remark | None]:
    """What a task is given is complete, text, and right, but for the port."""
    found, on = told.get("returned"), f"for task {rank}"
    if "refused" in told:
        yield Remark(f"{on} it raised {told['refused']}.", cause="is that variable in slurm, and spelled as in the table? Each that the table names is there." if told["refused"].startswith("KeyError") else "SLURM_STEP_TASKS_PER_NODE is a text such as 2(x3),1, which stands for 2, 2, 2, 1, or such as 4.")
    if not isinstance(found, dict) or not set(WANTED) <= set(found):
        missing = [name for name in WANTED if name not in found] if isinstance(found, dict) else []
        yield Remark(f"{on} it returned {shown(found)}.", cause=f"{missing[0]} is missing." if missing else "return a dict with the six names.")
    assert isinstance(found, dict)
    for name in WANTED:
        if not isinstance(found[name], str):
            yield Remark(f"{on} {name} is {shown(found[name])}, of type {type_of(found[name])}.", cause="variables of an environment are texts: str(…).")
    for name, value in right[rank].items():
        if found[name] != value:
            yield Remark(f"{on} {name} is wrong.", (f"expected {value}", f"found    {found[name]}"), known(found[name], mistakes(name, step, rank, slurm), lambda one, other: one == other) or MEANS[name])
    if told["exported"]:
        yield Remark(f"{on} os.environ has changed: {', '.join(told['exported'])}.", cause="only compute: return the variables. Whoever calls may want to look at them, or give them to another process.")
    if told["variables"] != slurm:
        yield Remark(f"{on} slurm has changed.", cause="it is the caller's, perhaps os.environ itself. Build a dict of your own.")


@check_rendezvous_environment.judge
def _(seen: Seen) -> Remarks:
    (step, calls), given = seen.facts, seen.given("tasks")[0]
    right = [step.right(rank) for rank in range(len(step.places()))]
    if step.missing:
        for told in seen[0]:
            if "refused" not in told:
                yield Remark(f"it returned a value; expected was an error that names {step.missing}.", (f"found    {shown(told['returned'])}",), f"{step.missing} is missing. A default hides that: every task would believe it, and some would wait for ever, or each train alone. slurm[name] raises KeyError by itself.")
            elif step.missing not in told["refused"]:
                yield Remark(f"its error does not name {step.missing}.", (f"found    {shown(told['refused'])}",), "whoever reads it must know which variable is missing. slurm[name] raises a KeyError with the name.")
        return
    for (rank, _), told, slurm in zip(calls, seen[0], given, strict=True):
        yield from _of_a_task(step, rank, told, slurm, right)
    first, *_ = ports = [told["returned"]["MASTER_PORT"] for told in seen[0]]
    latest: dict[int, int] = {}  # by port, the job that has it
    for (rank, job), port in zip(calls, ports, strict=True):
        if not port.isdecimal() or int(port) not in PORTS:
            yield Remark(f"job {job} has the port {shown(port)}.", cause=f"it is a number from {PORTS[0]:,} to {PORTS[-1]:,}: below stand the system's own, and above are those that Linux hands out to anybody.")
        if job == step.job and port != first:
            yield Remark(f"task 0 has the port {first}, and {f'task {rank} has' if rank else 'at a second call'} {port}.", cause="all tasks must come to one door. Derive the port from SLURM_JOB_ID alone: nothing of the task's own, nothing random.")
        if job - latest.get(int(port), job) in range(1, FAR):
            yield Remark(f"jobs {latest[int(port)]} and {job} have the same port, {port}.", cause=f"both may run on one node. Derive it from SLURM_JOB_ID, so that jobs less than {FAR:,} apart differ: the job's number modulo {FAR:,} or more, added to the first port.")
        latest[int(port)] = job


# ── resume ───────────────────────────────────────────────────────────────────────────────────────────────────────────

MOST_BYTES = 512  # of a message: a list of steps, and not a checkpoint
FEW = "tell each other which steps are good, and nothing else: 16 numbers at most. One exchange of these lists will do."
ALL = "every rank takes part, also one that has no good checkpoint: else the others wait for it."
ERRORS = (
    *((words, f"{CHECKSUM} A file that is good on one rank may be torn on another.") for words in ("PytorchStreamReader", "Ran out of input", "UnpicklingError", "invalid load key", "EOFError", "invalid magic", "central directory", "Weights only load failed")),
    ("invalid literal for int()", NAME), ("IsADirectory", NAME), ("substring not found", NAME), ("'NoneType' object has no attribute 'group'", NAME),
    ("No such file or directory", "the folder need not exist yet: on a new machine there is none. folder.glob finds nothing there, and that is no error. A name is joined to it with folder / name."),
    *((words, "there may be no good checkpoint at all, on this rank or in common: max(steps, default=0).") for words in ("empty sequence", "iterable argument is empty", "list index out of range", "numel() == 0")),
    ("raised KeyError", "a checkpoint is a dict of step, model and optimizer. Or is it a dict of steps? A rank has only those that are good on its own disk, and only a step that all ranks have will do."),
    ("receives into", "a message must fit the tensor that it is received into, and ranks have different numbers of good checkpoints. Fill up lists to 16 numbers, or send their length first."),
    ("has already returned", ALL), ("nobody received", ALL), ("waits", f"{ALL} And not all may begin with send: it returns only when the other one receives."),
)


@task("comm", "folder", "model", "optimizer", errors=ERRORS)
def check_resume(draw: Draw, *, disks: Sequence[Disks], drawn: Sequence[int] = ()) -> Iterator[Case]:
    """`function(comm, folder, model, optimizer)`: the newest step that is good on all ranks, loaded. `drawn`: ranks of more cases."""
    yield from (disks_case(draw, each) for each in (*disks, *(drawn_disks(draw, ranks) for ranks in drawn)))


@check_resume.judge
def _(seen: Seen) -> Remarks:
    held, n = seen.facts, seen.size
    yield from one_step(held.disks, [told["step"] for told in seen.results])
    for rank in seen.ranks:
        yield from goes_on(rank, seen[rank], held)
        yield from folder_untouched(rank, seen.given("files")[rank], seen[rank]["files"], seen[rank]["is_there"])
    for rank in seen.ranks if n > 1 else ():
        sent, came = ([m for m in seen.trace if end(m) == rank] for end in (lambda m: m.src, lambda m: m.dst))
        if not sent or not came:
            yield Remark(f"the step is right, but rank {rank} {'received' if sent else 'sent'} no message.", cause="a rank's disk is its own. Only by messages do the others know what is on it.")
        if any(m.nbytes > MOST_BYTES for m in sent):
            yield Remark(f"the step is right, but rank {rank} sent {max(m.nbytes for m in sent):,} bytes in a message; at most {MOST_BYTES} are allowed.", cause=FEW)
        if len(sent) > 2 * (n - 1):
            yield Remark(f"the step is right, but rank {rank} sent {count(len(sent), 'message')}; at most {2 * (n - 1)} are allowed.", cause=FEW)
# fmt: on
