"""The paper's evaluation from this tool: cells computed once, tables and a page drawn from them.

A *cell* is one finished measurement, a JSON document with its kind, the configuration that
determines it and its result. `plan` lists the cells, `cells` computes one, `store` keeps them;
`tables`, `figures`, `summary` and `page` know cells only and show the paper's numbers beside ours.
"""
