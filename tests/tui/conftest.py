"""The explorer driven without a terminal."""

import asyncio
import gzip

import pytest
from atrest import Loop, press

from kinspect.kafka.view.view import View
from kinspect.tui.app import Explorer
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.indexprocess import IndexProcess
from kinspect.tui.index.shownpayloads import ShownPayloads
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store


@pytest.fixture
def plain(tmp_path):
    """A capture as it is without its compression."""

    def make(path):
        if path.suffix != ".gz":
            return path
        target = tmp_path / path.stem
        target.write_bytes(gzip.decompress(path.read_bytes()))
        return target

    return make


class Driver:
    """A running explorer: `press` keys and `read` the screen, which is at rest then."""

    def __init__(self, app, pilot, ends=True):
        self.app, self.pilot = app, pilot
        self.ends = ends

    @property
    def main(self):
        return self.app.main

    async def press(self, *keys):
        for key in keys:
            press(self.app, key)
            await self.rest()

    async def write(self, text):
        for character in text:
            press(self.app, {" ": "space", "-": "minus", "=": "equals_sign"}.get(character, character))
        await self.rest()

    async def rest(self):
        """Wait until everything that was asked for is on the screen."""
        loop = asyncio.get_running_loop()
        while True:
            await loop.rest()
            if self.is_at_rest:
                return
            await asyncio.sleep(0.001)

    @property
    def is_at_rest(self):
        if not self.ends and not self.app.store.stopped:
            return True
        return self.app.store.done and self.main.is_at_rest

    def state(self, loop):
        """What is waited for, where a test ends without rest."""
        workers = [str(worker) for worker in self.app.workers]
        soon = [str(timer) for timer in loop._scheduled if timer.when() < loop.time() + 1]
        shown = self.main.details_shown
        return f"read: {self.app.store.done}, details: {shown}, workers: {workers}, timers: {soon}"

    def said(self):
        """Notifications so far."""
        return [notification.message for notification in self.app._notifications]

    def read(self):
        """The screen as text."""
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())

    def status(self):
        """The line of numbers."""
        return self.read().splitlines()[self.main.query_one("StatusLine").region.y]

    def keys(self):
        """The lines of keys."""
        return self.read().splitlines()[self.main.query_one("KeyLine").region.y :]


@pytest.fixture
def explore():
    """Runs a script with the explorer of some captures; `ends`: whether their end is waited for."""

    def run(
        script, *paths, size=(80, 24), text="", limit=1 << 30, view=None, payloads=None, ends=True, **options
    ):
        drivers = []

        async def drive():
            inputs = Inputs([str(path) for path in paths], **options)
            spool = Spool(limit)
            store = Store(inputs, spool)
            shown = payloads or ShownPayloads("none" if view is None else view.payload)
            made = view or View(records=True, payload=shown.viewed)
            app = Explorer(store, IndexProcess(inputs, spool), made, shown, utc=True, text=text)
            async with app.run_test(size=size) as pilot:
                driver = Driver(app, pilot, ends)
                drivers.append(driver)
                await driver.rest()
                await script(driver)
            spool.close()

        with asyncio.Runner(loop_factory=Loop) as runner:
            try:
                runner.run(drive())
            except BaseException as error:
                for driver in drivers:
                    error.add_note(driver.state(runner.get_loop()))
                raise

    return run
