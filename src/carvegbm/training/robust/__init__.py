"""Robust training of ensembles of any shape: trees that are grown against an attacker.

search      the configurations to compare, and the choice among them
bounds      the trainer for norm inf: bounds per tree
witnesses   the trainer for other norms: refit at witnesses
trainer     what both trainers share
booster     rows as codes, boosting rounds, losses of worst scores
"""
