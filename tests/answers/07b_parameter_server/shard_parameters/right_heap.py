# Right: a heap of servers, the one with the fewest bytes on top.
import heapq


def shard_parameters(sizes, num_servers, largest_bytes):
    heap = [(0, server, []) for server in range(num_servers)]
    for number in range(len(sizes)):
        elements, itemsize = sizes[number]
        start = 0
        while start < elements:
            stop = start + largest_bytes // itemsize
            stop = elements if stop > elements else stop
            load, server, shard = heapq.heappop(heap)
            heapq.heappush(heap, (load + (stop - start) * itemsize, server, shard + [(number, start, stop)]))
            start = stop
    return [shard for _, _, shard in heap]
