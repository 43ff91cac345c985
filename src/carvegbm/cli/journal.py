"""A long verification that keeps what it has finished.

While `verify --output FILE` runs, what is decided goes to FILE.partial, a line of JSON per block
of rows; when all is done, FILE is written and FILE.partial goes. An interrupted run is continued
with --resume, provided model, data, attacker and engine are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.files import replacing
from carvegbm.verification import Verification

__all__ = ["Journal", "fingerprint"]


def fingerprint(
    model: Ensemble, X: Any, y: Any, attacker: Attacker, settings: dict[str, Any]
) -> str:
    """A digest of all that determines the result."""
    digest = hashlib.sha256()
    for array in (model.nodes, model.roots, model.scores, model.base_score, np.asarray(X)):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    said = [
        np.asarray(y).tolist(),
        attacker.to_dict(),
        settings,
        model.threshold,
        model.average,
        model.input_precision,
        model.classes.tolist(),
    ]
    digest.update(json.dumps(said, default=str).encode())
    return digest.hexdigest()


class Journal:
    """The blocks of rows that are decided, on disk."""

    def __init__(self, output: Path, digest: str, rows: int, resume: bool) -> None:
        self.path = output.with_name(output.name + ".partial")
        self.parts: list[Verification] = []
        self._header = {"fingerprint": digest, "rows": rows}
        if self.path.exists():
            if not resume:
                raise CarveError(
                    f"{self.path} holds an interrupted run; add --resume to continue it, "
                    "or delete it"
                )
            self._lines = list(self._read())
        else:
            self._lines = []
        if not self.path.exists():
            self._write(json.dumps(self._header))

    def restore(self, attacker: Attacker) -> int:
        """Take over the finished blocks; the number of rows they hold."""
        for line in self._lines:
            columns = {
                name: np.array(
                    [np.nan if value is None else value for value in values],
                    dtype=_KINDS.get(name, np.float64),
                )
                for name, values in line.items()
            }
            self.parts.append(Verification(**columns, attacker=attacker))
        return sum(len(part) for part in self.parts)

    def add(self, part: Verification) -> None:
        """Keep a finished block."""
        names = [field.name for field in fields(part) if field.name != "attacker"]
        line = {name: _plain(getattr(part, name)) for name in names}
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        self.parts.append(part)

    def finish(self) -> Verification:
        """All blocks as one; the journal itself stays until `discard`."""
        return Verification.joined(self.parts)

    def discard(self) -> None:
        """Remove the journal."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> Iterator[dict[str, Any]]:
        lines = self.path.read_text(encoding="utf-8").split("\n")
        try:
            header = json.loads(lines[0])
        except ValueError:
            header = None
        if header != self._header:
            raise CarveError(
                f"{self.path} belongs to another run (model, data, attacker or engine differ); "
                "delete it or use another --output"
            )
        whole = [lines[0]]
        for line in lines[1:]:
            try:
                yield json.loads(line)
            except ValueError:
                break  # the line that was being written when the run was cut off
            whole.append(line)
        self._write("\n".join(whole))

    def _write(self, text: str) -> None:
        with replacing(self.path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")


_KINDS: dict[str, Any] = {"status": np.str_, "engine": np.str_, "right": np.bool_}


def _plain(column: Any) -> list[Any]:
    if column.dtype.kind != "f":
        return list(column.tolist())
    return [None if value != value else value for value in column.tolist()]
