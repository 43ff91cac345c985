"""`python -m carvegbm.cli` does what `carvegbm` does."""

from carvegbm.cli import main

main()
