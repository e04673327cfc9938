"""A quarter of a million exchanges: how much memory, the first ones early, and no long pause.

What is measured does not depend on what else the machine does: not the time that passed, but how much was read, and how
long the thread of the screen computed without looking at its keys.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.big
LIMIT = 200  # MiB
EARLY = 0.05  # of the capture
PAUSE = 1.0  # seconds of computing
BENCH = Path(__file__).parents[1] / "bench" / "generate.py"

SCRIPT = """
import asyncio, sys, time
from kinspect.kafka.view.view import View
from kinspect.tui.app import Explorer
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.indexprocess import IndexProcess
from kinspect.tui.index.shownpayloads import ShownPayloads
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store

def resident(process):
    for line in open(f"/proc/{process}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0

async def main():
    inputs, spool = Inputs([sys.argv[1]]), Spool()
    store = Store(inputs, spool)
    rows = IndexProcess(inputs, spool)
    app = Explorer(store, rows, View(), ShownPayloads("none"), utc=True)
    peak = first = worst = 0
    async with app.run_test(size=(130, 40)) as pilot:
        async def settled():
            nonlocal peak, first, worst
            while True:
                before = time.thread_time()
                await asyncio.sleep(0.01)
                worst = max(worst, time.thread_time() - before)
                peak = max(peak, resident("self") + resident(rows.child.pid))
                if store.count and not first:
                    first = store.bytes_read / store.bytes_total
                if store.done and app.main.is_at_rest:
                    return
        await settled()
        for keys in ("l", "b", "t", "end", "e", "e", "f", "f"):
            await pilot.press(keys)
            await settled()
        await pilot.press("end")
        await settled()
        assert app.main.details.fields.fields.exchange.order == store.count
    print(store.count, first, worst, peak)

asyncio.run(main())
"""


def test_many_exchanges(tmp_path):
    path = tmp_path / "many.pcap"
    made = [sys.executable, str(BENCH), "chatty", "--size", "110MiB", "--connections", "200", "-o", str(path)]
    subprocess.run(made, check=True, capture_output=True)
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    count, first, worst, peak = map(float, result.stdout.split())
    assert count >= 250_000
    assert peak <= LIMIT
    assert first <= EARLY
    assert worst <= PAUSE
