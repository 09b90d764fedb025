"""The report as Markdown, without a word about the machine's owner."""

import getpass
import os
import re
import socket

PASSED, FAILED, TIMED_OUT, NOT_RUN, RUNNING = "passed", "FAILED", "timed out", "not run", "running"
SEVERITY = (NOT_RUN, RUNNING, PASSED, TIMED_OUT, FAILED)
MAX_LINES = 60  # of a command's own words
IMPERSONAL = {"root", "localhost", "user", "iclab"}


class Part:
    """One part of the report: its verdict, why, how long it took, and its Markdown."""

    def __init__(self, title, share, is_vital, function):
        self.title, self.share, self.is_vital, self.function = title, share, is_vital, function
        self.about = " ".join(function.__doc__.split())
        self.verdict, self.note, self.seconds, self.blocks, self.commands = NOT_RUN, "not reached", None, [], []

    def worsen(self, verdict, why):
        """Sets the verdict unless a worse one stands. The first reason is the one that the summary shows."""
        if SEVERITY.index(verdict) > SEVERITY.index(self.verdict):
            self.verdict, self.note = verdict, why

    def section(self):
        blocks = [f"## {self.title[0].upper()}{self.title[1:]}", self.about]
        note = f": {escape(self.note)}" if self.note else ""
        blocks += [f"Verdict: **{self.verdict}**{note}.", *map(str, self.blocks)]
        if self.commands:
            blocks.append(fold("Commands, to repeat this part", "```sh\n" + "\n".join(self.commands) + "\n```"))
        return "\n\n".join(blocks)


def escape(text):
    """Text that Markdown and HTML show as it is, in one table cell."""
    for special, safe in zip("&<>|*_`", ("&amp;", "&lt;", "&gt;", "\\|", "\\*", "\\_", "'")):
        text = text.replace(special, safe)
    return " ".join(text.split())


def fold(title, text):
    return f"<details><summary>{escape(title)}</summary>\n\n{text}\n\n</details>"


def table(titles, rows):
    """TITLES: column names divided by commas, a `#` before those of numbers. ROWS: lists of text."""
    titles = titles.split(",")
    head = [[title.lstrip("#") for title in titles], ["---:" if title[0] == "#" else "---" for title in titles]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [*head, *rows])


class Table:
    """A table that grows while the part runs: whatever ends the script, the rows so far are in the file."""

    def __init__(self, titles):
        self.titles, self.rows = titles, []

    def __str__(self):
        return table(self.titles, self.rows)


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


def conclusion(parts):
    """The verdicts of all parts in two or three sentences."""

    def titles(*verdicts):
        return ", ".join(part.title for part in parts if part.verdict in verdicts)

    named = (("**Failed: {}.**", titles(FAILED)), ("**Timed out: {}.**", titles(TIMED_OUT)))
    sentences = [text.format(found) for text, found in named if found]
    sentences.append("The others passed or were not run." if sentences else "Every part that ran passed.")
    left_out = titles(NOT_RUN, RUNNING)
    return " ".join([*sentences, *([f"Not run: {left_out}."] if left_out else [])])


def document(title, introduction, facts, parts, verdicts):
    rows = []
    for part in parts:
        verdict = f"**{part.verdict}**" if part.verdict in (FAILED, TIMED_OUT) else part.verdict
        rows.append([part.title, verdict, escape(part.note), "–" if part.seconds is None else f"{part.seconds:.0f}"])
    summary = table("part,verdict,what was seen or why not,#seconds", rows)
    blocks = [f"# {title}", introduction, conclusion(parts), "## Summary", summary, "## Machine", *facts]
    blocks += [*(part.section() for part in parts), "## Verdicts on choices"]
    blocks.append("\n".join(f"* {line}" for line in verdicts) or "No choice was measured.")
    return "\n\n".join(blocks) + "\n"


def without_names(text):
    """What a command said, without the names of user and host. Our own words and the names of devices do not go through
    this: a host named "gpu" would take words from them."""
    names = {socket.gethostname(), socket.gethostname().split(".")[0]}
    try:
        names.add(getpass.getuser())
    except (KeyError, OSError):  # a user without an entry has no name
        pass
    for name in sorted(names - IMPERSONAL):
        if len(name) > 1:
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "NAME", text)
    return text


def without_paths(text, folders):
    """FOLDERS: pairs of a folder of this machine and the word that stands for it."""
    for folder, name in sorted([*folders, (os.path.expanduser("~"), "~")], key=lambda pair: -len(str(pair[0]))):
        if len(str(folder)) > 1:
            text = text.replace(str(folder), name).replace(escape(str(folder)), name)
    return re.sub(r"/(home|Users)/[^/\s'\":]+", "~", text)
