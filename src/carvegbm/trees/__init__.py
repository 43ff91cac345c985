"""What an ensemble consists of and what is made of it; `carvegbm.ensemble` joins it.

`nested` is the layout of nodes and ways through it, `wellformed` what makes arrays an ensemble,
`link` the way from raw scores to labels, `ensemble_json` an ensemble as a file for other programs.
"""
