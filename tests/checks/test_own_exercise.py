"""An exercise is one folder: a new one is found by its shape, and nothing else of the package is touched."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from nbformat.v4 import new_code_cell, new_notebook

import distlib.exercises
from distlib.checks.remark import CheckFailed
from distlib.checks.venues import simulated_only
from distlib.judge.remote.judge import judge
from distlib.judge.sandbox import Limits
from tests.remote_functions import in_a_notebook
from tests.tools.any_sandbox import any_sandbox

FILES = {
    "__init__.py": '"""An exercise of a test."""\n',
    "checks.py": '''
        """A mean: all but its last step is supplied."""

        from distlib.checks.case import Case
        from distlib.checks.rules.sent_messages import Way, sends
        from distlib.checks.sentences import Sentences
        from distlib.checks.task import task
        from distlib.exercises.means.helpers import count_all, scaled, shift_and_add, sum_of_weights, zero_weights
        from distlib.exercises.means.plays import averaged

        say = Sentences(__file__)

        @task("comm", "tensor", "model", helpers=[shift_and_add, count_all, scaled, sum_of_weights, zero_weights])
        def check_mean(draw, *, world_sizes):
            for ranks in world_sizes:
                yield Case(say("title", ranks=ranks), averaged, [{"tensor": draw.whole((10,))} for _ in range(ranks)])

        @check_mean.judge
        def _(seen):
            right = sum(seen.given("tensor")) / len(seen.ranks)
            for rank in seen.ranks:
                if seen[rank]["weight"] != 0.0:
                    yield say.remark("weight", weight=seen[rank]["weight"])
                if not seen[rank]["tensor"].equal(right):
                    yield say.remark("mean", rank=rank)
            around = {(rank, (rank + 1) % len(seen.ranks)): Way(40, "its tensor") for rank in seen.ranks}
            yield from sends(seen, around if len(seen.ranks) > 1 else {}, "one each.")
    ''',
    "checks.txt": """
        title: on {ranks} ranks
        weight: the weight is {weight}.
        mean: on rank {rank} this is not the mean.
            Usual cause: the sum is divided by the number of ranks.
    """,
    "helpers.py": '''
        """What the check supplies, one of each kind."""

        import torch

        from distlib.checks.helper_form import PARAMETERS_AND_BUFFERS
        from distlib.checks.supplied import helper

        @helper(in_place="tensor")
        def shift_and_add(comm, tensor, *, distance=1):
            """Add the tensor of the rank before."""
            before = torch.empty_like(tensor)
            comm.exchange(tensor, (comm.rank + distance) % 2, before, (comm.rank - distance) % 2)
            tensor += before

        @helper()
        def count_all(comm, tensor):
            """How many ranks there are, as a tensor like this one."""
            return torch.full_like(tensor, comm.world_size)

        @helper()
        def scaled(values, divisor):
            """Values divided by a number."""
            return [value / divisor for value in values]

        @helper()
        def sum_of_weights(weights):
            """Fails in a way that the judge's rules for strangers must not take for nonsense."""
            return weights["bias"]

        @helper(in_place="model", tensors=PARAMETERS_AND_BUFFERS)
        def zero_weights(comm, model):
            """All that a model has becomes 0."""
            for tensor in model:
                tensor.zero_()
    ''',
    "plays.py": '''
        """What runs on each rank."""

        import torch

        def averaged(comm, function, inputs, gate):
            model = torch.nn.Linear(1, 1, bias=False)
            function(comm, inputs["tensor"], model)
            return {"tensor": inputs["tensor"], "weight": model.weight.item()}
    ''',
}
RIGHT = """
def mean(comm, tensor, model):
    zero_weights(comm, model)
    if comm.world_size == 2:
        shift_and_add(comm, tensor, distance=3)
    count = count_all(comm=comm, tensor=tensor)
    tensor.copy_(torch.tensor(scaled(tensor.tolist(), divisor=count[0].item())))
"""
TEST = """
from distlib.exercises.means.checks import check_mean

report = check_mean(mean, world_sizes=(1, 2))
assert report[-1].trace.bytes_sent == [40, 40]
print(report.summary())
"""
ANSWERS = {
    RIGHT: "",
    RIGHT.replace(
        "count[0].item()", "1"
    ): "on rank 0 this is not the mean. Usual cause: the sum is divided by the number",
    RIGHT.replace("zero_weights(comm, model)", "pass"): "the weight is ",
    RIGHT.replace("tensor, distance=3", "tensor, 3"): "takes 2 positional arguments but 3 were given",
    RIGHT.replace("zero_weights(comm, model)", "zero_weights(model, comm)"): (
        "expected comm as the first argument and the model as the second, got a Linear first"
    ),
    RIGHT.replace("zero_weights(comm, model)", "sum_of_weights({'weight': 1})"): "KeyError: 'bias'",
}
ASK = "from distlib.judge.remote.rank_communicator import ask; ask(comm._communicator._wire, 'helper', {})"
FORGED = {  # what a rank could ask of the judge, and what it is answered
    "name='count_all', group=None, given={'tensor': tensor}": "expected a communicator from 0 to 0, got None",
    "name='count_all', group=0, given=[tensor]": "did not keep to the protocol",
    "name='count_all', group=0, given={'tensor': tensor, 'comm': 1, 'more': 2}": "unexpected keyword argument 'more'",
    "name='all_reduce', group=0, given={'tensor': tensor}": "ValueError: 'all_reduce' is not supplied here",
    "name='zero_weights', group=0, given={'model': tensor.tolist()}": "has no attribute 'zero_'",
}


@pytest.fixture(scope="module")
def exercise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an exercise somewhere else, which its checks import as those of the course."""
    folder = tmp_path_factory.mktemp("exercises")
    (folder / "means").mkdir()
    for name, text in FILES.items():
        (folder / "means" / name).write_text(dedent(text))
    distlib.exercises.__path__.append(str(folder))
    yield folder
    distlib.exercises.__path__.remove(str(folder))
    for name in [name for name in sys.modules if name.startswith("distlib.exercises.means")]:
        del sys.modules[name]


@pytest.mark.parametrize("answer", ANSWERS, ids=["right", "wrong", "model", "options", "order", "error"])
def test_an_exercise_in_a_folder_of_its_own_is_checked(exercise: Path, answer: str) -> None:
    from distlib.exercises.means.checks import check_mean  # type: ignore[import-not-found]

    with in_a_notebook(answer, "mean") as mean, simulated_only():
        if not ANSWERS[answer]:
            assert check_mean(mean, world_sizes=(1, 2))[-1].trace.bytes_sent == [40, 40]
            return
        with pytest.raises(CheckFailed) as failed:
            check_mean(mean, world_sizes=(1, 2))
    assert ANSWERS[answer].replace(": '", " '") in " ".join(str(failed.value).split()).replace(": '", " '")


def test_an_exercise_in_a_folder_of_its_own_is_graded_in_the_sandbox(exercise: Path) -> None:
    def cell(source: str, name: str, **mark: object) -> object:
        return new_code_cell(source, metadata={"nbgrader": {"schema_version": 3, "grade_id": name, **mark}})

    cells = [cell("import torch", "setup", locked=True, grade=False, solution=False)]
    for number, answer in enumerate([*ANSWERS, *(f"def mean(comm, tensor, model): {ASK.format(f)}" for f in FORGED)]):
        cells += [
            cell(answer, "mean", locked=False, grade=False, solution=True),
            cell(TEST, f"test_{number}", locked=True, grade=True, solution=False, points=1),
        ]
    judged = judge(new_notebook(cells=cells), sandbox=any_sandbox(), limits=Limits())
    tests = judged.notebook.cells[2::2]
    told = [" ".join("\n".join(each.get("traceback", [])).split()) for test in tests for each in test.outputs]
    expected = [*ANSWERS.values(), *FORGED.values()]
    assert [(words, text) for words, text in zip(expected, told, strict=True) if words not in text] == []
    assert told[0] == "" and [remark.partition(",")[0] for remark in judged.remarks] == ["reaches inside"]
