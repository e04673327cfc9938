"""Checks of a capture in the field against the complete capture of the same traffic."""

from __future__ import annotations

from support.reading import Comparison, Reading, compare, directions, ends, gap_complaints

AT_LEAST = 0.95
"""The part of the exchanges whose own packets are all there that must be decoded."""


def _of_a_comparison(comparison: Comparison) -> list[str]:
    missed = []
    if comparison.share < AT_LEAST:
        missed = [f"{comparison.decoded} of {comparison.survivors} decoded: {comparison.missed[:3]}"]
    return comparison.wrong + missed


def loss_complaints(whole: Reading, part: Reading) -> list[str]:
    """Packets are missing: nothing contradicts the whole, and the gaps say how much."""
    return _of_a_comparison(compare(whole, part)) + list(gap_complaints(whole, part))


def late_start_complaints(whole: Reading, part: Reading) -> list[str]:
    """The beginning is missing: what began before is passed over as `mid_start`, and counted, or an orphan."""
    comparison = compare(whole, part)
    complaints = _of_a_comparison(comparison) + list(gap_complaints(whole, part))
    for exchange, line, original, _ in comparison.pairs:
        if exchange.outcome == "orphan" and original.outcome == "answered":
            assert original.request is not None
            if whole.origins(original.request)[0] >= part.packets[0].origin:
                complaints.append(f"{exchange} of {line['connection_id']}: its request is there")
    return complaints


def cut_complaints(whole: Reading, part: Reading) -> list[str]:
    """Packets are cut: nothing contradicts the whole, what is cut is not `complete` and says by how much, and
    every message whose header is there is told of."""
    comparison = compare(whole, part)
    complaints = _of_a_comparison(comparison)
    for exchange, line, _, _ in comparison.pairs:
        told = {
            p["side"]: p["offset"] + p["bytes"] for p in line["problems"] if p["code"] == "truncated_capture"
        }
        for side in ("request", "response"):
            message = line[side]
            if (
                message is not None
                and message["complete"] == (side in told)
                and line["outcome"] != "unanswered"
            ):
                complaints.append(f"{exchange}: {side} complete {message['complete']}, {line['problems']}")
            if side in told and told[side] > message["size"]:
                complaints.append(f"{exchange}: {side} lacks bytes up to {told[side]} of {message['size']}")
    seen = {id(original) for _, _, original, _ in comparison.pairs}
    kept = {packet.origin: len(packet.data) for packet in part.packets if packet.cut}
    for original in whole.exchanges:
        request = original.request
        if request is None or request.packets != 1 or id(original) in seen or original.kind != "kafka":
            continue
        frame = whole.origins(request)[0]
        key = directions(ends(original))[0]
        pieces = [piece for piece in whole.streams.pieces[key] if piece.frame == frame]
        alone = len(pieces) == 1 and pieces[0].end - pieces[0].start == request.size + 4
        header = 4 + request.body_start
        if alone and kept.get(frame, 0) >= len(whole.packets[frame - 1].data) - request.size - 4 + header:
            complaints.append(f"{original}: its header is there, and it is not told of")
    return complaints


def client_side_complaints(whole: Reading, part: Reading) -> list[str]:
    """The brokers' packets are missing: every request is there, and says why it has no answer."""
    comparison = compare(whole, part)
    complaints = list(comparison.wrong)
    for exchange, line, original, _ in comparison.pairs:
        wanted = ("no_response", None) if original.outcome == "no_response" else ("unanswered", "one_sided")
        if (exchange.outcome, exchange.outcome_reason) != wanted or line["response"] is not None:
            complaints.append(
                f"{exchange} of {line['connection_id']}: {exchange.outcome_reason}, not {wanted}"
            )
    there = {id(original) for _, _, original, _ in comparison.pairs}
    return complaints + [
        f"{exchange} is missing"
        for exchange in whole.exchanges
        if exchange.request is not None and id(exchange) not in there
    ]


def broker_side_complaints(whole: Reading, part: Reading) -> list[str]:
    """The clients' packets are missing: no request, and no response is taken for another than it is."""
    comparison = compare(whole, part)
    complaints = comparison.wrong + ([] if comparison.pairs else ["no response at all"])
    for exchange, line, _, _ in comparison.pairs:
        if exchange.outcome != "orphan" or line["request"] is not None:
            complaints.append(f"{exchange} of {line['connection_id']}: no orphan")
    return complaints
