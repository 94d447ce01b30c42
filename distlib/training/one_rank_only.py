"""What belongs to one rank and one model is neither copied nor pickled: hooks and a communicator can't be."""

from __future__ import annotations

from typing import Any


class OneRankOnly:
    """Refuses `copy.deepcopy`, `pickle` and `torch.save` with a sentence that says what to copy instead.

    Attributes:
        what_to_copy: the end of that sentence.
    """

    what_to_copy: str

    def __getstate__(self) -> Any:
        """Raise TypeError: Python's copy and pickle ask for the state of an object first."""
        raise TypeError(
            f"a {type(self).__name__} belongs to its rank and its model: it can't be copied, sent or saved whole. "
            f"{self.what_to_copy}"
        )
