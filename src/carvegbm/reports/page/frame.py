"""What frames every page of the house: the skeleton of a file that loads nothing, and the look.

Comes in: a title, a style and a body. Goes out: HTML, which opens offline.
"""

from __future__ import annotations

from html import escape
from importlib import resources

__all__ = ["base_style", "page_of", "resource"]


def page_of(title: str, style: str, body: str) -> str:
    """A page that loads nothing."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def base_style() -> str:
    """The look of the house's pages: paper, ink, tables, folded data, print."""
    return resource(__package__, "base.css")


def resource(package: str, name: str) -> str:
    """The text of a file beside the modules of a package."""
    return resources.files(package).joinpath(name).read_text("utf-8")
