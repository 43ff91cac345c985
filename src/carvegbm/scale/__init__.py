"""Queries about more rows than memory holds: files, Dask and Spark.

query           a query about blocks of rows: a `Verifier`, its columns and its totals
files           answer one file block by block
writing         write blocks of answers to one Parquet or CSV file
output_folder   which files of a folder of answers are finished, for --resume

`carvegbm.dask` and `carvegbm.spark` answer partitions with the same `Query`.
"""
