"""Instances: from what a user gives, or a file holds, to rows of numbers.

`rows` is X and y as the core takes them, `sparse` X that stores some of its values; `columns` says
which column is which feature, `numbers` what is a number, `frames` what a frame holds, and `mixed`
is a small one of our own; `tabular` reads files into a `table`, and `batches` some of their rows at
a time; `text` reads CSV, `libsvm`, `arrays` and `parquet` the other formats; `matching` makes of a
table what a model takes.
"""
