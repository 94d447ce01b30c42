# Right: one expression, with fractions.
from fractions import Fraction


def layout_memory(model, layout):
    layers, f, s, b = (model[name] for name in ("layers", "features", "sequence", "batch"))
    dp, pp, tp = layout.values()
    per_layer = 12 * f * f * (4 + Fraction(12, dp)) + 34 * s * f * min(pp, b // dp)
    return float(Fraction(layers, pp * tp) * per_layer)
