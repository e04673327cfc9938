"""One filter for every output: selects the exchanges that are shown.

Filters AND; the values of one, repeated or separated by commas, OR. A leading `!` negates a value: an exchange passes a
filter if it matches one of its positive values (if there are any) and none of the others. A property that is not known
of an exchange matches no positive value, and is counted in `Filter.unknown`.
"""
