"""New leaf scores for fixed trees.

batches     rows in batches, with what is within reach of each: slopes of the loss
descent     finds the scores
refit       has them proven on validation rows; numbers, for regressions
rewriting   puts them into a model of someone else's
"""
