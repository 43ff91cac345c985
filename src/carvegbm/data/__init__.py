"""Rows: what users pass, or files hold, as arrays of numbers in the model's order of features."""
