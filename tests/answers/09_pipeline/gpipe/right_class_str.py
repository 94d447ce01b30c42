# Right: an action is a subclass of str.
class Action(str):
    def __new__(cls, stage: int, kind: str, microbatch: int) -> "Action":
        return super().__new__(cls, f"{stage}{kind}{microbatch}")


def gpipe(num_stages: int, num_microbatches: int) -> list[list[str]]:
    rows: list[list[str]] = []
    for stage in range(num_stages):
        rows.append([])
        for kind in "FB":
            rows[-1] += (Action(stage, kind, i) for i in range(num_microbatches))
    return rows
