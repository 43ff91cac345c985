"""Files that results are written to, resume files of long runs, and text shown to people."""
