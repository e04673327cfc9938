"""The explorer's screens: the list with fields and bytes, help, and what is asked or shown in between."""
