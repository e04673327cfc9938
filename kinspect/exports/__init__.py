"""A part of captures as a capture of its own: which packets, and how they are written."""
