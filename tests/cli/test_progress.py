from types import SimpleNamespace

from kinspect.cli import progress


class Bar:
    """Stands in for rich's."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *_, **facts: self.calls.append((name, *facts.values()))


def test_nothing_is_shown_in_the_first_second(monkeypatch):
    clock, bar = [100.0], Bar()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "_bar", lambda: bar)
    reading = SimpleNamespace(bytes_read=10, bytes_total=100)
    shown = progress.ProgressBar(reading)
    for now in (100.5, 100.9):
        clock[0] = now
        shown.update()
    assert bar.calls == []
    for now in (101.0, 101.1, 101.3):
        clock[0] = now
        reading.bytes_read += 10
        shown.update()
    shown.stop()
    assert [call for call in bar.calls if call[0] == "update"] == [("update", 20), ("update", 40)]
    assert bar.calls[-1] == ("stop",)


def test_a_short_run_shows_none(monkeypatch):
    monkeypatch.setattr(progress, "_bar", lambda: 1 / 0)
    shown = progress.ProgressBar(SimpleNamespace(bytes_read=0, bytes_total=None))
    shown.update()
    shown.stop()
