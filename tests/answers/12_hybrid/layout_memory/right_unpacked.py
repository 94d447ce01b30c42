# Right: the sizes in the documented order, the model by a match.
def layout_memory(model: Mapping[str, int], layout: Mapping[str, int]) -> float:
    dp, pp, tp = layout.values()
    match dict(model):
        case {"layers": L, "features": f, "sequence": s, "batch": b}:
            P = 12 * L * f * f / pp / tp
            return P * 4 + P * 12 / dp + 34 * s * f / tp * (L / pp) * (pp if pp < b / dp else b / dp)
