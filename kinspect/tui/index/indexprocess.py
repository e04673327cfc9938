"""The indexer in a process of its own, which is forked before the screen is made and begins with all loaded modules."""

from __future__ import annotations

import signal
from functools import partial

from kinspect.background import OWN, Channel, Child, spoken
from kinspect.tui.index.answerprocess import NICE, AnswerProcess
from kinspect.tui.index.captures import index
from kinspect.tui.index.indexer import Inputs, LivePackets, RowBatch, index_live
from kinspect.tui.index.spool import Spool

_LOSS = "what is listed is not all"


class IndexProcess:
    """Reads `inputs` beside this process; messages that cannot be read again go into `spool`. `packets`: a capture that
    is to be started, in place of the inputs' files. `answers`: counts answers over what was read."""

    def __init__(self, inputs: Inputs, spool: Spool, packets: LivePackets | None = None) -> None:
        self.answers = AnswerProcess(inputs, spool)
        self._live = packets is not None
        self._over = False
        # The keys belong to the screen's process, which ends this one.
        work, ignored = partial(_work, inputs, spool, packets), (signal.SIGINT,)
        self.child = Child("the process that reads", work, _LOSS, ignored=ignored, nice=NICE)

    def receive(self) -> RowBatch | str | None:
        """Wait for the next batch; None after the last one; an error is a text."""
        try:
            values = (self.child.receive() or [])[1:]
        except Exception as error:
            over, self._over = self._over, True
            return None if over else spoken(error, _LOSS)
        batch = RowBatch.told(values)
        self._over = batch.done
        return batch

    def stop(self) -> None:
        """Stop reading: a live capture ends with the packets up to now, whose batches still come; files end at once."""
        if self._live:
            self.child.tell(signal.SIGTERM)
        else:
            self._over = True
            self.child.end()

    def leave(self) -> None:
        """End a live capture soon: waiting packets are counted and not decoded, and the last batch follows."""
        self.child.tell(signal.SIGUSR1)

    def end(self) -> None:
        """Kill the process, and the one that answers; may be called again."""
        self._over = True
        self.answers.end()
        self.child.end()


def _work(inputs: Inputs, spool: Spool, packets: LivePackets | None, channel: Channel) -> None:
    """Read, and send batches."""

    def send(batch: RowBatch) -> None:
        channel.send(OWN, *batch)

    if packets is None:
        index(inputs, spool, send)
    else:
        signal.signal(signal.SIGTERM, lambda *_: packets.stop())
        signal.signal(signal.SIGUSR1, lambda *_: packets.leave())
        index_live(inputs, spool, packets, send)
