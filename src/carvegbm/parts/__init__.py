"""Rows in parts, wherever the parts are: files, partitions of Dask, partitions of Spark.

questions   what is asked of every part: model, attacker and settings, without the rows
shipping    a question on its way to another process, where it is opened once
files       one file of instances, answered some rows at a time, written and totalled
writing     answers on their way to a file
finished    which files of a folder are answered, for a run that continues another
runners     who answers files: this process, or the workers of a Dask cluster

A part in, the columns of its answer out; `carvegbm.totals` adds up what they say.
"""
