"""Tables: `table` is one as data, `chapters` are all in reading order, the other files theirs."""
