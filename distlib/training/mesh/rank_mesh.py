"""A mesh: the ranks of a world as the cells of a grid, and for each axis a communicator of this rank's group.

    mesh = Mesh(comm, {"dp": 2, "pp": 2, "tp": 2})              on 8 ranks
    mesh.coordinates        {"dp": 1, "pp": 0, "tp": 1}         on rank 5
    mesh["tp"]              ranks 4 and 5                       all-reduces of layers that are cut
    mesh["pp"]              ranks 5 and 7                       activations from stage to stage
    mesh["dp"]              ranks 1 and 5                       averages of gradients
    mesh["dp", "tp"]        ranks 0, 1, 4 and 5

Names and coordinates are those of torch's init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "pp", "tp")).
The last axis varies fastest: its groups are neighbors, and lie inside a node where the node is large enough. So the
order of the axes says which messages travel inside a node.

Cost: one split of the world per axis.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

from distlib.arguments import checked
from distlib.communicator import Communicator
from distlib.training.mesh.coordinates import (
    Axes,
    axes_in_order,
    check_sizes,
    check_world_size,
    color_and_key,
    coordinates_of,
)
from distlib.training.mesh.mesh_text import mesh_text


class Mesh:
    """The place of this rank in a mesh, and its groups. Every rank makes its own, at the same time.

    Args:
        comm: of this rank.
        sizes: name of each axis → its size, the axis that varies fastest last. Their product is the number of ranks.

    Attributes:
        comm: as given.
        sizes: as given.
        names: of the axes, in order.
        coordinates: name → the index of this rank along that axis.

    Raises:
        TypeError: sizes that are not named.
        ValueError: a size below 1, sizes that do not multiply out to the number of ranks, or ranks that give different
            sizes or orders.
    """

    @checked
    def __init__(self, comm: Communicator, sizes: Mapping[str, int]) -> None:
        check_sizes(sizes)
        check_world_size(sizes, comm.world_size)
        self.comm, self.sizes, self.names = comm, dict(sizes), tuple(sizes)
        self.coordinates = coordinates_of(comm.rank, self.sizes)
        self._groups: dict[tuple[str, ...], Communicator] = {}
        for name in self.names:
            self[name]

    def __getitem__(self, axes: Axes) -> Communicator:
        """The communicator of this rank's group along an axis, `mesh["tp"]`, or over several, `mesh["dp", "pp"]`.

        Over several axes, the one that is named last varies fastest in the group. When such a group is asked for
        for the first time, every rank must ask for it.

        Raises:
            ValueError: an axis that the mesh does not have, or one that is named twice; ranks that ask for different
                groups.
        """
        named = axes_in_order(axes, self.sizes)
        if named not in self._groups:
            self._groups[named] = self._split(named)
        return self._groups[named]

    def _split(self, axes: tuple[str, ...]) -> Communicator:
        """Make a group. Its color says what mesh and axes are meant: ranks that mean others are not in it."""
        color, key = color_and_key(self.comm.rank, self.sizes, axes)
        meant = zlib.crc32(repr((self.sizes, axes)).encode())
        group = self.comm.split(color + meant * self.comm.world_size, key)
        assert group is not None  # every rank has a color
        expected = math.prod(self.sizes[name] for name in axes)
        if group.size != expected:
            raise ValueError(
                f"expected {expected} ranks that make the group along {' and '.join(axes)} of this mesh, {self.sizes}, "
                f"got {group.size}: other ranks make a mesh of other sizes, in another order, or another group"
            )
        return group

    def __str__(self) -> str:
        network = self.comm.network
        return mesh_text(self.sizes, network.ranks_per_node if network is not None and network.nodes > 1 else None)

    def __repr__(self) -> str:
        sizes = " × ".join(f"{name} {size}" for name, size in self.sizes.items())
        return f"<Mesh: {sizes}, rank {self.comm.rank}>"
