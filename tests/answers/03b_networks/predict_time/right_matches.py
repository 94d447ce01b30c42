# Right: match, and numbers of numpy.
import numpy


def predict_time(algorithm, nbytes, cluster):
    n, g = cluster.world_size, cluster.ranks_per_node

    def alpha(d):
        return (cluster.intra if d < g else cluster.inter).latency

    def beta(d):
        return 1 / (cluster.intra if d < g else cluster.inter).bandwidth

    match algorithm:
        case "ring":
            return numpy.float64(2 * (n - 1) * alpha(n - 1) + 2 * (n - 1) / n * nbytes * beta(n - 1))
        case "tree":
            d = 2 ** numpy.arange((n - 1).bit_length())
            return numpy.float64(2 * sum(alpha(x) + nbytes * beta(x) for x in d))
        case "halving_doubling":
            p = 1 << n.bit_length() - 1
            d = 2.0 ** numpy.arange(p.bit_length() - 1)
            total = 2 * sum(alpha(x) + x / p * nbytes * beta(x) for x in d)
            return numpy.float64(total + (n != p) * 2 * (alpha(n - 1) + nbytes * beta(n - 1)))
    x = g * 2.0 ** numpy.arange(cluster.nodes.bit_length() - 1)
    between = 2 * sum(alpha(d) + d / n * nbytes / g * beta(d) for d in x)
    return numpy.float64(between + 2 * (g - 1) * (alpha(g - 1) + nbytes / g * beta(g - 1)))
