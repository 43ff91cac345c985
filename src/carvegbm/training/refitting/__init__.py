"""New leaf scores for fixed trees.

`descent` finds them, `refit` judges them on validation rows, `rewriting` puts them into a model of
someone else's.
"""
