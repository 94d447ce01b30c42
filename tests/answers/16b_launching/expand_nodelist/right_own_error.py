# Right: its own kind of ValueError, a class that reads, and a tuple in the end.
class NotAList(ValueError):
    def __init__(self, group, why):
        super().__init__(f"bad group <{group}>: {why}")


class Reader:
    def __init__(self, group):
        self.group, self.at = group, 0
        if not group:
            raise NotAList(group, "it is empty")

    def names(self):
        found = [""]
        while self.at < len(self.group):
            character = self.group[self.at]
            self.at += 1
            if character == "]":
                raise NotAList(self.group, "] without [")
            choices = self.bracket() if character == "[" else character
            found = [a + b for a in found for b in choices]
        return found

    def bracket(self):
        end = self.group.find("]", self.at)
        inside = self.group[self.at : end]
        if end < 0 or "[" in inside:
            raise NotAList(self.group, "[ without ]")
        self.at = end + 1
        return [number for part in inside.split(",") for number in self.numbers(part.split("-"))]

    def numbers(self, ends):
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
            raise NotAList(self.group, "-".join(ends) + " is not a range")
        low, high = int(ends[0]), int(ends[-1])
        if high < low:
            raise NotAList(self.group, f"{low} comes before {high}")
        return [str(low + k).rjust(len(ends[0]), "0") for k in range(high - low + 1)]


def expand_nodelist(text):
    open_, groups = False, [""]
    for character in text:
        open_ = character == "[" or (open_ and character != "]")
        if character == "," and not open_:
            groups.append("")
        else:
            groups[-1] += character
    return tuple(name for group in groups for name in Reader(group).names())
