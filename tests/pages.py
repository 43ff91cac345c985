"""The pages of the documentation, and what stands in their blocks: a help to tests."""

from __future__ import annotations

from pathlib import Path

from conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = sorted([REPOSITORY / "README.md", *DOCS.glob("*.md"), *DOCS.glob("project/*.md")])
"""What is written by hand; the other folders of docs/ are written when the site is built."""


def blocks(page: Path, *languages: str) -> list[str]:
    """The blocks of a page in these languages; "" is a block without one."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in page.read_text("utf-8").splitlines(keepends=True):
        if line.startswith("```"):
            inside = not inside
            if inside:
                found.append((line[3:].strip(), []))
        elif inside:
            found[-1][1].append(line)
    return ["".join(lines) for language, lines in found if language in languages]
