"""
Limits of what a compiled kernel may need, from a file of lines

    PROGRAM/KERNEL TARGET FIGURE RELATION VALUE REASON

The first two are patterns of the shell. FIGURE: registers, stack, spills, parked, local, waves; RELATION: <= or >=. The
first line that names kernel, target and figure holds, so that exceptions stand above the rule.
"""
import fnmatch


class Limit:
    def __init__(self, line):
        words = line.split(None, 5)
        if len(words) < 6 or words[3] not in ("<=", ">="):
            raise ValueError(f"limits: '{line}' is not PROGRAM/KERNEL TARGET FIGURE <=|>= VALUE REASON")
        self.kernel, self.target, self.figure, self.relation, value, self.reason = words
        self.value = int(value)
        self.used = False
        self.line = line

    def fits(self, kernel, target):
        return fnmatch.fnmatchcase(kernel, self.kernel) and fnmatch.fnmatchcase(target, self.target)

    def holds(self, value):
        return value <= self.value if self.relation == "<=" else value >= self.value


def read(path):
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [Limit(line) for line in lines if line]


def exceeded(limits, kernel, target, figures):
    """A line for each figure that is beyond its limit."""
    wrong, judged = [], set()
    for limit in limits:
        if limit.figure not in judged and limit.fits(kernel, target):
            judged.add(limit.figure)
            limit.used = True
            value = getattr(figures, limit.figure)
            if not limit.holds(value):
                wrong.append(f"{kernel} on {target}: {limit.figure} {value}, "
                             f"limit {limit.relation} {limit.value} ({limit.reason})")
    return wrong


def unused(limits):
    return [limit.line for limit in limits if not limit.used]
