"""Stored cells as tables, figures, one page and one Markdown file.

`lookup` finds cells, `comparison` puts them beside the paper's numbers, `tables` are both as text;
`figures` and `gallery` are drawn; `page` and `markdown` show them, and `writing` writes the two.
"""
