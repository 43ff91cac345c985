"""Attackers: which changes of a row are possible, and at what cost."""
