"""Reads captures: pcap, pcapng, either of them compressed, from files and pipes, as one timeline.

    timeline = open_timeline(["a.pcap", "b.pcapng.gz"])
    for block in timeline:
        ...                      # model.Block, packets in order of time over all files
    timeline.errors              # of inputs that could not be read, or ended too early

A format is a module with a table of the magic numbers it answers to; `formats` joins the tables.
"""

from kinspect.capture.timeline import Timeline, may_bring_secrets, open_timeline, slice_block

__all__ = ["Timeline", "may_bring_secrets", "open_timeline", "slice_block"]
