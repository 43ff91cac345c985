"""Mutated model files and proofs, and what must hold for every one of them.

A format has documents (nested dicts and lists), and writes a document as the bytes of a file.
Mutations change counts, indices, signs, types, fields and arrays of one, and sometimes bytes.
`check` loads a mutated file and uses the model, or runs the checker; it returns one of `OUTCOMES`,
and any exception is a finding. `readers/test_fuzz.py` checks a sample and `tools/campaigns.py fuzz`
many.
"""

from __future__ import annotations

from fuzzing.models import FORMATS as MODELS
from fuzzing.models import Format
from fuzzing.proofs import CheckerFormat

__all__ = ["FORMATS", "OUTCOMES", "SLOW"]

OUTCOMES = ("accepted", "refused", "refused: syntax")
FORMATS: dict[str, Format | CheckerFormat] = {**MODELS, "checker": CheckerFormat()}
SLOW = ("catboost-binary",)
"""Formats that start a process for every file."""
