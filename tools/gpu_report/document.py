"""The report as Markdown."""

PASSED, FAILED, TIMED_OUT, NOT_RUN, RUNNING = "passed", "FAILED", "timed out", "not run", "running"
SEVERITY = (NOT_RUN, PASSED, TIMED_OUT, FAILED)
MAX_LINES = 60  # of a command's own words


class Part:
    """One part of the report: its verdict, why, how long it took, and its Markdown."""

    def __init__(self, title, about, share, function):
        self.title, self.about, self.share, self.function = title, about, share, function
        self.verdict, self.note, self.seconds, self.blocks, self.commands = NOT_RUN, "not reached", None, [], []

    def worsen(self, verdict, why):
        """Sets the verdict unless a worse one stands. The first reason is the one that the summary shows."""
        if SEVERITY.index(verdict) > SEVERITY.index(self.verdict):
            self.verdict, self.note = verdict, why

    def say(self, *blocks):
        self.blocks += blocks

    def fold(self, title, text):
        self.say(f"<details><summary>{escape(title)}</summary>\n\n{text}\n\n</details>")


def escape(text):
    """Text that Markdown and HTML show as it is, in one table cell."""
    for special, safe in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "\\|"),
        ("*", "\\*"),
        ("_", "\\_"),
        ("`", "'"),
    ):
        text = text.replace(special, safe)
    return " ".join(text.split())


def table(header, rows):
    """HEADER: pairs of a title and True for a column of numbers. ROWS: lists of text."""
    lines = [[title for title, _ in header], ["---:" if is_number else "---" for _, is_number in header], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def block(text):
    """A command's own words, the middle left out where they are long."""
    lines = text.rstrip().splitlines()
    if len(lines) > MAX_LINES:
        half = MAX_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} lines left out ...", *lines[-half:]]
    return "```text\n" + "\n".join(line.replace("```", "'''") for line in lines) + "\n```"


def number(value, digits=3):
    """A number for a table: three digits, thousands set apart; – for what was not measured."""
    if value is None:
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        places = max(0, digits - len(str(int(abs(value))))) if abs(value) >= 1 else digits
        return f"{value:,.{places}f}"
    return f"{value:.{digits - 1}e}"


def size(count):
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def summary(parts):
    rows = []
    for part in parts:
        verdict = f"**{part.verdict}**" if part.verdict in (FAILED, TIMED_OUT) else part.verdict
        seconds = "–" if part.seconds is None else f"{part.seconds:.0f}"
        rows.append([part.title, verdict, escape(part.note), seconds])
    return table([("part", False), ("verdict", False), ("what was seen, or why not", False), ("seconds", True)], rows)


def conclusion(parts):
    failed, late = ([part.title for part in parts if part.verdict == verdict] for verdict in (FAILED, TIMED_OUT))
    left_out = [part.title for part in parts if part.verdict in (NOT_RUN, RUNNING)]
    sentences = []
    if failed:
        sentences.append(f"**Failed: {', '.join(failed)}.**")
    if late:
        sentences.append(f"**Timed out: {', '.join(late)}.**")
    sentences.append("Every part that ran passed." if not failed and not late else "The others passed or were not run.")
    if left_out:
        sentences.append(f"Not run: {', '.join(left_out)}.")
    return " ".join(sentences)


def section(part):
    blocks = [f"## {part.title[0].upper()}{part.title[1:]}", part.about]
    blocks.append(f"Verdict: **{part.verdict}**{': ' + escape(part.note) if part.note else ''}.")
    blocks += part.blocks
    if part.commands:
        commands = "\n".join(part.commands)
        blocks.append(
            f"<details><summary>Commands, to repeat this part</summary>\n\n```sh\n{commands}\n```\n\n</details>"
        )
    return "\n\n".join(blocks)


def document(title, introduction, machine, parts):
    return (
        "\n\n".join(
            [
                f"# {title}",
                introduction,
                conclusion(parts),
                "## Summary",
                summary(parts),
                "## Machine",
                machine,
                *map(section, parts),
            ]
        )
        + "\n"
    )
