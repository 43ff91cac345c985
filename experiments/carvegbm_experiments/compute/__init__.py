"""How a cell is computed: `kinds`, from `data` and `models`, by `verdicts` and `attacked` images.

Verdicts, radii and witnesses come from carvegbm's public functions. `plain` trains plain LightGBM,
`trials` are the models that were trained for a cell.
"""
