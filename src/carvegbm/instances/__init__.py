"""Instances: from what a user gives, or a file holds, to rows of numbers.

`rows` is X and y as the core takes them, `columns` says which column is which feature, `numbers`
what is a number; `tabular` reads files, and `text` the formats that are text.
"""
