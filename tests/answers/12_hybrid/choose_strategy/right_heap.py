# Right: a generator and a heap.
import heapq


def all_layouts(model, ranks):
    for dp in range(1, ranks + 1):
        if ranks % dp or model["batch"] % dp:
            continue
        for pp in range(1, ranks // dp + 1):
            tp, odd = divmod(ranks // dp, pp)
            if not odd and model["layers"] % pp == 0 and model["heads"] % tp == 0:
                yield {"dp": dp, "pp": pp, "tp": tp}


def choose_strategy(model: Mapping[str, int], cluster: Cluster, memory: float, speed: float) -> dict[str, int]:
    heap, smallest = [], None
    for number, layout in enumerate(all_layouts(model, cluster.world_size)):
        need = layout_memory(model, layout)
        smallest = need if smallest is None or need < smallest else smallest
        if need <= memory:
            heapq.heappush(heap, (layout_seconds(model, cluster, speed, layout), number, layout))
    if heap:
        return heap[0][2]
    raise ValueError(f"{memory:.0f} bytes are too few, {smallest:.0f} would do")
