"""Make the README's links lead somewhere from PyPI, where it stands alone.

    python tools/released_readme.py https://github.com/OWNER/NAME TAG

rewrites README.md: pictures and links to files of the repository become addresses at that tag. The
workflow that makes the source distribution calls it: only there is the repository known.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
_PICTURE = re.compile(r"(?<=!\[)([^\]]*\]\()(?![a-z]+:)([^)\s]+)(?=\))")
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s]+)(?=\))")


def released(text: str, repository: str, tag: str) -> str:
    """The text with addresses in place of paths.

    Examples
    --------
    >>> released("![a](b.svg) [c](d.md#e) [f](#g)", "https://github.com/o/n", "v1")
    ... # doctest: +NORMALIZE_WHITESPACE
    '![a](https://raw.githubusercontent.com/o/n/v1/b.svg)
     [c](https://github.com/o/n/blob/v1/d.md#e)
     [f](https://github.com/o/n/blob/v1/README.md#g)'
    """
    raw = repository.replace("github.com", "raw.githubusercontent.com", 1)
    text = _PICTURE.sub(rf"\g<1>{raw}/{tag}/\g<2>", text)

    def address(found: re.Match[str]) -> str:
        path = f"README.md{found[1]}" if found[1].startswith("#") else found[1]
        return f"{repository}/blob/{tag}/{path}"

    return _LINK.sub(address, text)


if __name__ == "__main__":
    README.write_text(released(README.read_text("utf-8"), *sys.argv[1:]), encoding="utf-8")
