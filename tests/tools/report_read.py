#!/usr/bin/env python3
"""Reads reports as a browser would, with Python's own HTML parser, and prints TAP lines without a plan.

Arguments: the number of the first line, a text that must be shown, then reports.
"""

import base64
import sys
import xml.etree.ElementTree
from html.parser import HTMLParser

UNCLOSED = {"meta", "img"}
FETCHING = {"src", "href", "data", "action", "poster", "srcset"}
PICTURE = "data:image/svg+xml;base64,"


def is_picture(source):
    """Whether SOURCE holds a whole SVG file."""
    try:
        root = xml.etree.ElementTree.fromstring(base64.b64decode(source.removeprefix(PICTURE), validate=True))
    except (ValueError, xml.etree.ElementTree.ParseError):
        return False
    return root.tag == "{http://www.w3.org/2000/svg}svg"


class Report(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.complaints, self.text = [], [], []
        self.tables = self.pictures = 0

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in UNCLOSED:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tables += tag == "table"
        self.pictures += tag == "img"
        if tag in {"script", "link", "iframe", "object", "embed", "base", "form", "a"}:
            self.complaints.append(f"<{tag}>")
        for name, value in attributes:
            if name.startswith("on") or (name in FETCHING and not (tag == "img" and is_picture(value))):
                self.complaints.append(f"{tag} {name}={value[:40]}")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.complaints.append(f"</{tag}>")

    def handle_data(self, data):
        self.text.append(data)


count = int(sys.argv[1])
for path in sys.argv[3:]:
    with open(path, encoding="utf-8") as file:
        html = file.read()
    report = Report()
    report.feed(html)
    report.close()
    bad = report.complaints + report.open
    for passed, name in (
        (not bad, f"well-formed, nothing to fetch or to run {bad[:3]}"),
        (sys.argv[2] in "".join(report.text), f"{sys.argv[2]} is shown as text"),
        (
            report.tables >= 1 and "http:" not in html.lower() and "https:" not in html.lower(),
            "a table, and no address",
        ),
    ):
        print(f"{'' if passed else 'not '}ok {count} - {path.split('/')[-2]}: {name}")
        count += 1
    print(f"# {report.tables} tables, {report.pictures} pictures, {len(html)} characters")
