"""Running a check by scenario: play case after case, judge each, and stop at the first that is wrong.

    cases, smallest first ──► play ──► error?  foreign messages?  judge  ──► CheckFailed, or on to the next ──► report
                                                                  judge_times (in virtual time only)

As in `checks`: cases are played on simulated ranks, the first of each small world size also on real ones; and whatever
goes wrong on simulated ranks is played again on real ones, which have the last word. Either may tell the usual cause.
But for times: these only mean something in virtual time, so `judge_times` looks at simulated ranks alone, and its word
is final.

Under the judge of a class, all cases are played on remote ranks, in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from distlib.checks.patience import seconds_for
from distlib.checks.places import real_ranks_allowed
from distlib.checks.remark import CheckFailed, Remark
from distlib.checks.supplied import local_name
from distlib.grading.case import count
from distlib.grading.checks import SAMPLED_RANKS, pack, show_printed
from distlib.grading.errors import explain_error
from distlib.grading.scenario_case import ScenarioCase
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.scene import Scene, play_for_real, play_simulated, scene_of
from distlib.grading.specification import EXECUTED_TEXT, is_own
from distlib.grading.traffic import sender
from distlib.judge.remote.stand_in import RemoteFunction
from distlib.trace import Message

CASE_SECONDS = 10.0  # a case takes some tens of milliseconds; one that takes this long does not end
CHECK_SECONDS = 20.0  # all cases of one check together

Judge = Callable[[ScenarioCase, Scene], Remark | None]
PlayCase = Callable[[ScenarioCase, float], Scene]


def run_scenarios(
    function: Callable[..., object],
    name: str,
    cases: Sequence[ScenarioCase],
    judge: Judge,
    *,
    judge_times: Judge | None = None,
    helpers: Sequence[str] = (),
    causes: Sequence[tuple[str, str]] = (),
) -> ScenarioReport:
    """Play the cases until one is wrong.

    Args:
        function: the student's function or class.
        name: its name, from `checks.name_of`.
        cases: smallest first.
        judge: looks at the results and messages of a run that came to its end. Returns what is wrong, or None.
        judge_times: looks at what is true in virtual time only: moments of messages, gates passed before them.
        helpers: names in the student's notebook that lead to functions of ours while the check runs.
        causes: words of an error, and the usual cause of an error with these words in this exercise.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    report = ScenarioReport(name)
    examination = _Examination(function, cases, helpers, _whole_judge(name, helpers, judge, causes))
    for case in cases:
        scene, remark = examination.of(case)
        if remark is None and judge_times is not None and scene.in_virtual_time:
            remark = judge_times(case, scene)
        if remark is not None:
            raise CheckFailed(case.title, remark, report.summary())
        report.add(case, scene)
    return report


def _whole_judge(name: str, helpers: Sequence[str], judge: Judge, causes: Sequence[tuple[str, str]]) -> Judge:
    def look(case: ScenarioCase, scene: Scene) -> Remark | None:
        if scene.error is not None:
            return explain_error(None, scene.error, causes)
        if scene.library is not None:
            return Remark(
                f"it calls {scene.library}, a function of the library.",
                cause=f"a library function does the work. The exercise is to write {name} yourself.",
            )
        foreign = [message for message in scene.trace if not is_own(message, helpers)]
        if foreign:
            return _explain_foreign(name, foreign, len(scene.trace), helpers)
        return judge(case, scene)

    return look


def _explain_foreign(name: str, foreign: Sequence[Message], total: int, helpers: Sequence[str]) -> Remark:
    """The remark about messages that neither a line of the student's sent nor a helper."""
    supplied_names = "".join(f", or call {local_name(helper)}" for helper in helpers)
    if foreign[0].site.file == EXECUTED_TEXT:
        who = "by code that was made from a text (exec)"
    elif (foreign[0].site.via or "").startswith("distlib.grading.scen"):
        who = f"by the library itself: {name} is its function"
    else:
        who = f"by {sender(foreign[0])}"
    return Remark(
        f"{len(foreign)} of {count(total, 'message')} were sent {who}.",
        cause=f"write {name} as lines of this notebook: send and receive with comm{supplied_names}.",
    )


class _Examination:
    """Plays cases with one function; chooses the ranks to play them on."""

    def __init__(
        self, function: Callable[..., object], cases: Sequence[ScenarioCase], helpers: Sequence[str], judge: Judge
    ) -> None:
        self._judge = judge
        self._spent = 0.0
        self._has_shown_prints = False
        self._has_real_ranks = not isinstance(function, RemoteFunction) and real_ranks_allowed()
        self._sampled = _sample(cases) if self._has_real_ranks else set()
        if isinstance(function, RemoteFunction):
            function.expect(max(case.world_size for case in cases))
            self._play = partial(_play_remotely, function, tuple(helpers))
        else:
            packed = pack(function, cases[0].title, helpers)
            self._play = partial(play_simulated, packed, helpers)
            self._play_for_real = partial(play_for_real, packed, helpers)

    def of(self, case: ScenarioCase) -> tuple[Scene, Remark | None]:
        """What the case has shown, in virtual time if nothing is wrong there, and the remark about it."""
        scene, remark = self._look(self._play, case)
        is_doubtful = remark is not None or (scene.printed and not self._has_shown_prints)
        if self._has_real_ranks and case.world_size > 1 and (is_doubtful or id(case) in self._sampled):
            real, final = self._look(self._play_for_real, case)
            self._show(real, case, final)
            return (scene if remark is None and final is None else real), _with_cause(final, remark)
        self._show(scene, case, remark)
        return scene, remark

    def _look(self, play: PlayCase, case: ScenarioCase) -> tuple[Scene, Remark | None]:
        scene = play(case, seconds_for(CASE_SECONDS, CHECK_SECONDS, self._spent))
        self._spent += scene.seconds
        return scene, self._judge(case, scene)

    def _show(self, scene: Scene, case: ScenarioCase, remark: Remark | None) -> None:
        if scene.printed and (remark or not self._has_shown_prints):
            self._has_shown_prints = True
            show_printed(scene.printed, case.title)


def _with_cause(real: Remark | None, simulated: Remark | None) -> Remark | None:
    """What to tell of a case that was played on real ranks: what they showed, unless only simulated ranks know a cause.

    A call that nobody waits for leaves other values on real ranks every time; on simulated ones always the same.
    """
    return simulated if real and simulated and simulated.cause and not real.cause else real


def _play_remotely(function: RemoteFunction, helpers: tuple[str, ...], case: ScenarioCase, timeout: float) -> Scene:
    return scene_of(function.play(case, helpers, timeout), in_virtual_time=True)


def _sample(cases: Sequence[ScenarioCase]) -> set[int]:
    """The first case of each small world size, by its id: cases hold tensors, which can't be compared."""
    sizes = {case.world_size for case in cases if case.world_size <= SAMPLED_RANKS}
    return {next(id(case) for case in cases if case.world_size == size) for size in sizes}


def seed_for(function: Callable[..., object], seed: int) -> int:
    """The seed to make inputs from: that of the test cell, or, when a class is graded, one that nobody knows."""
    return function.seed(seed) if isinstance(function, RemoteFunction) else seed
