"""HTML pages as tests see them: their elements, their tables, and what every page must keep to."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input"}
LOADING = {"src", "href", "xlink:href", "srcset", "poster", "data", "action", "background"}

BLOCKS = {"p", "li", "h1", "h2", "h3", "h4", "td", "th", "figcaption", "summary", "code", "text"}


class Outline(HTMLParser):
    """The elements of a page with their attributes, the text of its table cells, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.cells: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        """Rows of cells, the header among them, by the id of the table."""
        self.text = ""
        """What can be read, a line per element that begins one."""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables[self.elements[-1][1].get("id", f"table {len(self.tables)}")] = []
        if tag == "tr":
            next(reversed(self.tables.values())).append([])
        if tag in ("td", "th"):
            self.cells.append("")
            next(reversed(self.tables.values()))[-1].append("")
        if tag in BLOCKS:
            self.text += "\n"
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        data = data.replace("\u00a0", " ")
        if {"td", "th"} & set(self._open):
            self.cells[-1] += data
            next(reversed(self.tables.values()))[-1][-1] += data
        if not {"style", "head"} & set(self._open):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def check_that_nothing_is_loaded(text: str, outline: Outline) -> None:
    """From elsewhere; no link leaves the page."""
    for tag, attributes in outline.elements:
        assert tag not in ("script", "iframe", "object", "embed", "base")
        for name in LOADING & set(attributes):
            value = attributes[name]
            assert tag == "a" or value.startswith(("data:", "#")), (tag, name, value[:80])
    assert "http" not in text  # no link leaves the page, no namespace is needed
    assert "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(\s*['\"]?([^)]*)", text))


def check_references(text: str, outline: Outline) -> int:
    """Ids are unique, and whatever refers to one finds it; how many are referred to."""
    ids = Counter(a["id"] for _, a in outline.elements if "id" in a)
    assert [name for name, count in ids.items() if count > 1] == []
    used = set(re.findall(r"url\(#([^)]+)\)", text))
    for _, attributes in outline.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            used |= set(attributes.get(name, "").split())
        if attributes.get("href", "").startswith("#"):
            used.add(attributes["href"][1:])
    assert used <= set(ids)
    return len(used)
