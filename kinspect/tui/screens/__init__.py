"""The explorer's screens: the list with fields and bytes, help, and prompts."""
