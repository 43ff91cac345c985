"""Proofs of verdicts, and the files that hold them."""
