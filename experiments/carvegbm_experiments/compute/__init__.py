"""How a cell is computed: `kinds`, from `data` and `models`, by `verdicts` and `attacked` images.

Everything is computed through carvegbm's public functions; `plain` trains plain LightGBM.
"""
