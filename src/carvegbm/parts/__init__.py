"""Rows in parts, wherever the parts are: files, partitions of Dask, partitions of Spark.

questions   what is asked of every part: model, attacker and settings, without the rows
shipping    a question on its way to another process, where it is opened once

A part in, the columns of its answer out; `carvegbm.totals` adds up what they say.
"""
