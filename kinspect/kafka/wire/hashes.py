"""Hashes of short texts, from where `hashlib` has them: it loads OpenSSL too, which takes longer than a small read."""

from __future__ import annotations

try:
    from _blake2 import blake2b
    from _sha1 import sha1  # type: ignore[import-not-found]
except ImportError:  # a Python that was built without its own
    from hashlib import blake2b, sha1

__all__ = ["blake2b", "sha1"]
