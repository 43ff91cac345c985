"""Robust training of any ensemble: trees that are grown against an attacker.

`settings` is what a user may say about it; `job` does the work.
"""
