# Right: compares the calls, place by place.
def diagnose(outputs):
    closed = any(lines[-1].endswith("Connection closed by peer") for lines in outputs)
    for rank, lines in enumerate(outputs):
        if "Traceback (most recent call last):" in lines:
            if "closed by peer" not in lines[-1] and "Timed out" not in lines[-1]:
                files = [line for line in lines if 'train.py", line' in line]
                number = int(files[-1].split("line ")[1].split(",")[0])
                return rank, number, "raised"
    call = re.compile(r"train\.py:(\d+) (\w+) (\[.*\]) (\w+)")
    calls = [[call.fullmatch(line) for line in lines] for lines in outputs]
    calls = [[found.groups() for found in each if found] for each in calls]
    place = min(map(len, calls))
    for k in range(place - 1, -1, -1):
        if any(own[k] != calls[0][k] for own in calls):
            place = k
    here = [own[place] if place < len(own) else None for own in calls]
    usual = max(here, key=here.count)
    rank = next(rank for rank in range(4) if here[rank] != usual)
    own = here[rank]
    line = int(calls[rank][-1][0])
    if own is None:
        if "finished" in outputs[rank]:
            return rank, line, "finished"
        return rank, line, "killed" if closed else "slow"
    if own[0] == usual[0]:
        cause = "shape" if own[2] != usual[2] else "dtype"
        return rank, line, cause
    seen = {call[0] for other in range(4) if other != rank for call in calls[other]}
    return rank, line, "skipped" if own[0] in seen else "extra"
