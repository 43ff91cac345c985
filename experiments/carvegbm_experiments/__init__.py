"""The paper's evaluation from carvegbm: cells computed once, tables and a page drawn from them.

A *cell* is one finished measurement, a JSON document with its kind, the configuration that
determines it and its result. Four rooms, in the order of the work:

- `plan`: which cells there are; the paper's numbers beside which they will stand
- `store`: where a finished cell is kept and found again, and unfinished rows with it
- `compute`: how a cell is computed, from data and models to its result
- `report`: stored cells as tables, figures, one page and one Markdown file

`running` goes through a plan with them; `command` is what `carvegbm reproduce` calls. A room knows
those before it; `report` knows stored cells only, and nothing of how they are computed.
"""
