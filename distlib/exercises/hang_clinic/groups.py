"""Exercise 17b: a patient whose ranks are in two groups each, and use them in different orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.rules.values import holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.hang_clinic.checks import SUPPLIED, shapes, waiting
from distlib.exercises.hang_clinic.plays import call_with_comm

say = Sentences(__file__)


@dataclass(frozen=True)
class Grid:
    """Ranks in rows and columns, row by row."""

    rows: int
    columns: int

    @property
    def title(self) -> str:
        """ "on 6 ranks in 2 rows and 3 columns"."""
        ranks, rows = count(self.rows * self.columns, "rank"), count(self.rows, "row")
        return f"on {ranks} in {rows} and {count(self.columns, 'column')}"

    def row(self, rank: int) -> list[int]:
        """The ranks in the row of a rank."""
        first = rank - rank % self.columns
        return list(range(first, first + self.columns))

    def column(self, rank: int) -> list[int]:
        """The ranks in the column of a rank."""
        return list(range(rank % self.columns, self.rows * self.columns, self.columns))


@task(
    "comm",
    "activation",
    "gradient",
    "columns",
    helpers=SUPPLIED,
    errors=[*waiting(say("one_order")), ("NoneType", say("in_both"))],
)
def check_reduce_in_grid(draw: Draw, *, grids: Sequence[tuple[int, int]], dimensions: int = 1) -> Iterator[Case]:
    """`function(comm, activation, gradient, columns)`: sums in rows, means in columns.

    Args:
        grids: rows, and columns.
        dimensions: of activation and gradient, at most.
    """
    activations = shapes(draw, grids, dimensions)
    for grid, activation in zip((Grid(*each) for each in grids), activations, strict=True):
        gradient = draw.sizes(len(activation), but=[grid.rows, grid.columns, *activation])
        inputs = [
            {"activation": draw.normal(activation), "gradient": draw.normal(gradient), "columns": grid.columns}
            for _ in range(grid.rows * grid.columns)
        ]
        yield Case(grid.title, call_with_comm, inputs, grid)


@check_reduce_in_grid.judge
def _(seen: Seen) -> Remarks:
    grid, activations, gradients = seen.facts, seen.given("activation"), seen.given("gradient")
    for rank in seen.ranks:
        own, sums, means = activations[rank], _sums(activations, grid, rank), _sums(gradients, grid, rank)
        mistakes = {
            say("own_activation"): own,
            say("mean_of_row"): sums["row"] / grid.columns,
            say("sum_of_column"): sums["column"],
            say("sum_of_all"): sums["all"],
        }
        what, found = f"on rank {rank} the activation", seen[rank]["activation"]
        yield holds(what, found, sums["row"], mistakes, same=is_close, otherwise=say("sum_in_row"))
        mistakes = {
            say("own_gradient"): gradients[rank],
            say("sum_in_column"): means["column"],
            say("counts_others"): [means["column"] / grid.columns, means["column"] / seen.size],
            say("over_the_row"): [means["row"], means["row"] / grid.columns, means["row"] / grid.rows],
            say("mean_of_all"): means["all"] / seen.size,
        }
        what, found = f"on rank {rank} the gradient", seen[rank]["gradient"]
        yield holds(what, found, means["column"] / grid.rows, mistakes, same=is_close, otherwise=say("mean_in_column"))
    for message in seen.trace:
        if message.nbytes and message.dst not in {*grid.row(message.src), *grid.column(message.src)}:
            yield say.remark("strangers", src=message.src, dst=message.dst, nbytes=count(message.nbytes, "byte"))


def _sums(tensors: Sequence[torch.Tensor], grid: Grid, rank: int) -> dict[str, torch.Tensor]:
    """Of a tensor per rank, the sums over the rank's row, over its column, and over all."""
    ranks = {"row": grid.row(rank), "column": grid.column(rank), "all": range(len(tensors))}
    return {name: torch.stack([tensors[each] for each in members]).sum(0) for name, members in ranks.items()}
