"""How things are said to people, the same in terminals, notebooks, figures and pages.

shares    shares in percent
hidden    text that others chose, with nothing hidden in it
"""
