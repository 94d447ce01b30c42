# Right: sorts the actions of a stage by a key.
def one_forward_one_backward(num_stages: int, num_microbatches: int) -> list[list[str]]:
    def when(stage: int, kind: str, i: int) -> float:
        return i if kind == "F" else i + (num_stages - stage) - 0.5

    return [
        [
            f"{stage}{kind}{i}"
            for kind, i in sorted(
                ((kind, i) for kind in "BF" for i in range(num_microbatches)), key=lambda a: when(stage, *a)
            )
        ]
        for stage in range(num_stages)
    ]
