"""One case of a check: what is played, with which inputs on which rank, on what network.

    Case("on 3 ranks, a batch of 10 rows", split, inputs=[{"batch": …}, {"batch": …}, {"batch": …}])

The ranks begin a little apart, in an order that has nothing to do with their numbers. So a function that takes messages
in the order of their arrival gets them in an order different from that of the ranks.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distlib.network import Cluster
from distlib.worlds.deaths import WhileWaiting

_PASSES_ON = True  # see worlds.call_site

Play = Callable[..., Any]  # (comm, function, inputs, gate), a function of a module of plays
APART = 0.001  # seconds between one rank's start and the next one's


@dataclass(frozen=True)
class Part:
    """What the ranks need to know of a case. It travels to them; what is expected does not.

    Attributes:
        play: what runs on each rank around the student's function.
        inputs: by rank.
        seed: of the order in which ranks begin, and of the factors of gates.
    """

    play: Play
    inputs: Sequence[Any]
    seed: int

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return len(self.inputs)

    def delay(self, rank: int) -> float:
        """Seconds after which a rank begins."""
        ranks = list(range(self.world_size))
        random.Random(f"{self.seed} {self.world_size}").shuffle(ranks)
        return APART * ranks.index(rank)

    def factor(self, rank: int, k: int) -> float:
        """What gate k multiplies the gradient on a rank by: 0.5 … 1.5."""
        return random.Random(f"{self.seed} {rank} {k}").uniform(0.5, 1.5)

    def seconds(self, rank: int, k: int) -> float:
        """The virtual time that passing gate k takes on a rank, as the file of the play says (`seconds_of`)."""
        seconds_of = getattr(sys.modules[self.play.__module__], "seconds_of", None)
        return float(seconds_of(self.inputs[rank], k)) if seconds_of else 0.0

    def gate(self, rank: int) -> Callable[..., float]:
        """The gate of a rank, gate(k, values), as the check itself passes it: it takes no time."""
        return lambda k, values=None: self.factor(rank, k)


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        title: goes on after the function's name: "on 3 ranks, 10 float32", or "(0, 10)" for a plain call.
        play: what runs on each rank around the student's function: a function in a module of plays. One
            that stands elsewhere can't be found by `distlib grade`.
        inputs: a list by rank, of what the play looks for there; plain values and tensors. Their number is the number
            of ranks.
        facts: whatever the judge wants to remember of this case; it stays with the check. `Report.trace` finds a case
            by its attributes. Rules on `SentMessages` and `LeftInTensors` ask for a `TensorCase`; `holds` and `sends`
            do not.
        cluster: the network of simulated ranks; None for one node with the default link.
        seed: of the order in which ranks begin, and of the factors of gates.
        function: the name of the student's function; a task fills it in.
        ours: the ranks on which the play itself speaks, such as a server for the student's workers. What they send may
            come from the play.
        deaths: by rank, when or by what it dies, see `SimulatedWorld`. What it would have shown is None.
            Such a case is never played on real ranks.
        shows: lines of what the function was given, for a student whose function raises an error, where the title says
            too little of it.
    """

    title: str
    play: Play
    inputs: Sequence[Any]
    facts: Any = field(default=None, repr=False)
    cluster: Cluster | None = None
    seed: int = 1
    function: str = ""
    ours: Collection[int] = ()
    deaths: Mapping[int, float | WhileWaiting] = field(default_factory=dict)
    shows: Sequence[str] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not callable(self.play):
            raise TypeError(f"play: expected a function in a module of plays, got {self.play!r}")
        if isinstance(self.inputs, Mapping) or not self.inputs:
            raise TypeError(f"inputs: expected a list with an entry for each rank, got {self.inputs!r}")

    @property
    def full_title(self) -> str:
        """What a student's remark begins with: "split_batch on 3 ranks, a batch of 10 rows"."""
        return f"{self.function}{'' if self.title.startswith('(') else ' '}{self.title}"

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return len(self.inputs)

    @property
    def part(self) -> Part:
        """What travels to the ranks."""
        return Part(self.play, self.inputs, self.seed)
