"""Folders of answers, one file per file of rows."""
