# Right: first lists the steps as (bytes, link), then adds them up. It prints.
def steps(algorithm, size, n, near, far, per_node):
    """n ranks, of which per_node are on a node."""
    if algorithm == "ring":
        return [(size / n, far)] * (2 * (n - 1))
    if algorithm == "tree":
        found, distance = [], 1
        while distance < n:
            found += [(size, near if distance < per_node else far)] * 2
            distance *= 2
        return found
    power = 1
    while power * 2 <= n:
        power *= 2
    found = [] if power == n else [(size, far)] * 2
    distance = power // 2
    while distance:
        found += [(size * distance / power, near if distance < per_node else far)] * 2
        distance //= 2
    return found


def predict_time(algorithm, nbytes, cluster):
    near = cluster.intra
    far = cluster.inter if cluster.nodes > 1 else near
    print(algorithm, nbytes)
    if algorithm == "hierarchical":
        inside = steps("ring", nbytes, cluster.ranks_per_node, near, near, cluster.ranks_per_node)
        all_steps = inside + steps("halving_doubling", nbytes / cluster.ranks_per_node, cluster.nodes, far, far, 1)
    else:
        all_steps = steps(algorithm, nbytes, cluster.world_size, near, far, cluster.ranks_per_node)
    seconds = 0.0
    for size, link in all_steps:
        seconds += link.latency + size / link.bandwidth
    return seconds
