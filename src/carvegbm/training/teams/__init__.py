"""Teams: several processes that train one model, each with some of the rows.

Every member runs the same training in step with the others. Whatever is decided from rows is
decided from sums over the rows of all members, so that all of them decide alike, and as one process
with all rows would.

team       what members can do together: exchange, gather, add up
share      which of all rows a member has
exact      sums that do not depend on who adds what
sockets    a team over TCP
network    LightGBM's histograms, added up by a team
counting   the rows of leaves, counted by the team and told to LightGBM
proving    verdicts on rows that members share
member     one member's part of a fit
"""
