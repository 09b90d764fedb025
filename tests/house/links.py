"""The pages: every link between them, and every path and file that they name, exists.

A link is relative to its page, and its #fragment is a heading of the page that it leads to. A path is a word in code
that begins with a folder of the root (src/, tools/, ...); a file is a word in code that ends as sources do. Words in
capitals stand for any name, and so does *.

Usage: links.py SOURCE_FOLDER; prints TAP.
"""

import pathlib
import re
import sys
from fnmatch import fnmatchcase

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

FOLDERS = "src cl include tests tools subprojects .ci".split()
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`]+`", re.M | re.S)
PATH = re.compile(r"(?<![\w/.-])((?:" + "|".join(map(re.escape, FOLDERS)) + r")/[\w./*+-]*)")
FILE = re.compile(r"(?<![\w/.*<-])([\w*-]+\.(?:c|h|cl|py|sh))(?![\w.])")


def read_pages(root):
    names = [*root.glob("*.md"), *(root / "tools").rglob("*.md")]
    return {page.relative_to(root).as_posix(): page.read_text() for page in sorted(names)}


def read_names(root):
    """Every file and folder of the project, relative to its root."""
    names = {path.name for path in root.iterdir()}
    for folder in FOLDERS:
        names |= {path.relative_to(root).as_posix() for path in (root / folder).rglob("*")}
    return names


def fragments(text):
    """What GitHub makes of the headings: lower case, no punctuation, hyphens for spaces."""
    titles = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def resolve(page, target):
    parts = []
    for part in (pathlib.PurePosixPath(page).parent / target).parts:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return "/".join(parts)


def broken_links(pages, names):
    found = []
    for page, text in pages.items():
        for link in LINK.findall(text):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, fragment = link.partition("#")
            target = resolve(page, target) if target else page
            if target not in names:
                found.append(f"{page}: no file for the link {link}")
            elif fragment and fragment not in fragments(pages.get(target, "")):
                found.append(f"{page}: no heading for the link {link}")
    return found


def matches(names, path):
    pattern = re.sub(r"[A-Z]{2,}", "*", path)
    return path in names or any(fnmatchcase(name, pattern) for name in names)


def unknown_names(pages, names):
    base_names = {name.rsplit("/", 1)[-1] for name in names}
    found = []
    for page, text in pages.items():
        if page == "CHANGELOG.md":  # it tells of files that are gone
            continue
        for code in CODE.findall(text):
            found += [f"{page}: no {path}" for path in PATH.findall(code) if not matches(names, path.rstrip("./"))]
            found += [f"{page}: no file {name}" for name in FILE.findall(code) if not matches(base_names, name)]
    return sorted(set(found))


def planted(names):
    page = "tools/reference/numerics.md"

    def links(text):
        return broken_links({page: text}, names)

    def unknown(text):
        return unknown_names({page: text}, names)

    return [
        ("a link to no file is noticed", links("[a](absent.md)") and not links("[a](../check)")),
        ("a link to no heading is noticed", links("# One\n[a](#two)") and not links("# One, too\n[a](#one-too)")),
        ("a path that does not exist is noticed", unknown("`src/attic/`") and not unknown("`src/core/` attic/")),
        ("a file that does not exist is noticed", unknown("```\nabsent_*.c\n```") and not unknown("`links.py`")),
    ]


def main():
    root = pathlib.Path(sys.argv[1])
    pages, names = read_pages(root), read_names(root)
    checks = [("every link leads somewhere", broken_links(pages, names))]
    checks += [("every path and file that a page names exists", unknown_names(pages, names))]
    checks = [(title, not found, found) for title, found in checks]
    checks += [(title, noticed, []) for title, noticed in planted(names)]
    tap.report(checks)


if __name__ == "__main__":
    main()
