"""Meanings of single fields: their kinds, secrets in them, and structures inside their bytes."""
