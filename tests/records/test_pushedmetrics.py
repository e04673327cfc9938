"""Metrics of PushTelemetry beside what OpenTelemetry's own library reads, and bytes that are none."""

import gzip
import random
import struct
import tracemalloc
from collections import deque

import cramjam
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
    SummaryDataPoint,
)

from kinspect.records import pushedmetrics
from kinspect.records.pushedmetrics import MOST_BYTES, MOST_NESTED, PushError, read_push

TIMES = {"start_time_unix_nano": 1, "time_unix_nano": (1 << 63) + 5}
ANY = {
    "text": AnyValue(string_value="é"),
    "empty": AnyValue(string_value=""),
    "true": AnyValue(bool_value=True),
    "false": AnyValue(bool_value=False),
    "int": AnyValue(int_value=-3),
    "double": AnyValue(double_value=0.5),
    "list": AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1), AnyValue(string_value="x")])),
    "map": AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k", value=AnyValue(bool_value=True))])),
    "bytes": AnyValue(bytes_value=b"\0\xff"),
    "none": AnyValue(),
}
ATTRIBUTES = [KeyValue(key=key, value=value) for key, value in ANY.items()]
SHOWN = {
    "text": "é",
    "empty": "",
    "true": True,
    "false": False,
    "int": -3,
    "double": 0.5,
    "list": [1, "x"],
    "map": {"k": True},
    "bytes": "AP8=",
    "none": None,
}
BUCKETS = ExponentialHistogramDataPoint.Buckets(offset=-2, bucket_counts=[1, 300, 0])
METRICS = [
    (
        Metric(name="g", unit="ms", gauge=Gauge(data_points=[NumberDataPoint(as_double=-0.25, **TIMES)])),
        -0.25,
        None,
    ),
    (Metric(name="g", gauge=Gauge(data_points=[NumberDataPoint(as_double=float("nan"))])), "NaN", None),
    (Metric(name="g", gauge=Gauge(data_points=[NumberDataPoint(as_int=7, flags=1)])), None, None),
    (Metric(name="g", gauge=Gauge(data_points=[NumberDataPoint()])), None, None),
    (
        Metric(name="s", sum=Sum(data_points=[NumberDataPoint(as_int=-(1 << 62))], is_monotonic=True)),
        -(1 << 62),
        None,
    ),
    (Metric(name="s", sum=Sum(data_points=[NumberDataPoint(as_int=0)], aggregation_temporality=2)), 0, None),
    (
        Metric(
            name="h",
            histogram=Histogram(
                data_points=[
                    HistogramDataPoint(
                        count=3, sum=1.5, explicit_bounds=[0.5, 1], bucket_counts=[1, 0, 2], max=1
                    )
                ],
                aggregation_temporality=1,
            ),
        ),
        None,
        {"count": 3, "sum": 1.5, "min": None, "max": 1.0, "bounds": [0.5, 1.0], "counts": [1, 0, 2]},
    ),
    (
        Metric(
            name="e",
            exponential_histogram=ExponentialHistogram(
                data_points=[
                    ExponentialHistogramDataPoint(count=4, scale=-1, zero_count=2, positive=BUCKETS, min=1)
                ]
            ),
        ),
        None,
        {
            "count": 4,
            "sum": None,
            "min": 1.0,
            "max": None,
            "scale": -1,
            "zero_count": 2,
            "positive": {"offset": -2, "counts": [1, 300, 0]},
            "negative": {"offset": 0, "counts": []},
        },
    ),
    (
        Metric(
            name="q",
            summary=Summary(
                data_points=[
                    SummaryDataPoint(
                        count=2,
                        sum=3,
                        quantile_values=[SummaryDataPoint.ValueAtQuantile(quantile=0.5, value=1)],
                    )
                ]
            ),
        ),
        None,
        {"count": 2, "sum": 3.0, "quantiles": [{"quantile": 0.5, "value": 1.0}]},
    ),
]


def pushed(*metrics):
    resource = ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=metrics)])
    resource.resource.attributes.extend(ATTRIBUTES)
    resource.scope_metrics[0].scope.name = "client"
    return MetricsData(resource_metrics=[resource]).SerializeToString()


def field(number, data):
    """A field with a size, as protobuf has it."""
    size, text = len(data), bytearray()
    while size > 127:
        text.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *text, size]) + data


def within(*numbers, data):
    for number in reversed(numbers):
        data = field(number, data)
    return data


@pytest.mark.parametrize(("metric", "value", "histogram"), METRICS)
def test_every_kind_of_metric(metric, value, histogram):
    (point,) = read_push(0, pushed(metric))
    kind = metric.WhichOneof("data")
    data = getattr(metric, kind)
    times = data.data_points[0]
    assert (point["metric"], point["type"], point["unit"]) == (metric.name, kind, metric.unit or None)
    assert (point["value"], point["histogram"]) == (value, histogram)
    assert type(point["value"]) is type(value)
    assert (point["resource"], point["scope"]) == (SHOWN, "client")
    assert point["start_time_ns"] == (times.start_time_unix_nano or None)
    assert point["time_ns"] == (times.time_unix_nano or None)
    told = {1: "delta", 2: "cumulative"}.get(getattr(data, "aggregation_temporality", 0))
    assert (point["temporality"], point["monotonic"]) == (told, getattr(data, "is_monotonic", None))


@pytest.mark.parametrize("codec", range(5))
def test_every_codec(codec):
    data = pushed(*(metric for metric, _, _ in METRICS))
    packed = [
        bytes,
        gzip.compress,
        lambda data: bytes(cramjam.snappy.compress_raw(data)),
        lambda data: bytes(cramjam.lz4.compress(data)),
        lambda data: bytes(cramjam.zstd.compress(data)),
    ][codec](data)
    assert [point["metric"] for point in read_push(codec, packed)] == [
        metric.name for metric, _, _ in METRICS
    ]


def test_attributes_of_points():
    point = NumberDataPoint(attributes=ATTRIBUTES, as_int=1)
    (found,) = read_push(0, pushed(Metric(name="g", gauge=Gauge(data_points=[point]))))
    assert found["attributes"] == SHOWN


def nested(depth):
    """A point of a resource with an attribute of lists in lists."""
    value = field(1, b"x")
    for number in range(depth):
        value = field(5, field(1, value)) if number % 2 else field(6, field(1, field(2, value)))
    resource = field(1, field(1, field(2, value)))
    return field(1, resource + within(2, 2, 5, data=field(1, b"")))


def common(size):
    """10,000 points without anything, of a resource and a metric with names of this size."""
    attribute = field(1, b"a") + field(2, field(1, bytes(size)))
    metric = field(1, bytes(size)) + field(3, bytes(size)) + field(5, field(1, b"") * 9999)
    return field(1, within(1, 1, data=attribute) + within(2, 2, data=metric))


BOMBS = {
    "repeats names and attributes": (1, gzip.compress(common(8000))),
    "300000 fields: what": (0, within(1, 2, 2, 10, 1, 8, 2, data=b"\1" * 2_700_000)),
    "300000 fields: what is": (0, within(1, 2, 2, 9, 1, 6, data=bytes(2_700_000))),
    "expands to more than": (1, gzip.compress(bytes(MOST_BYTES + 1))),
    "more than 8388608 bytes": (0, bytes(MOST_BYTES + 1)),
    "more than 10000 points": (0, within(1, 2, 2, 5, data=field(1, b"") * 20_000)),
    "more than 300000 fields": (0, within(1, 2, 2, 5, data=field(1, b"") * 1_000_000)),
    "than 300000 fields": (0, within(1, 2, data=field(2, b"") * 1_000_000)),
    "nests deeper than": (0, nested(MOST_NESTED + 1)),
    "has more than 8192 bytes": (0, nested(3000)),
    "a set of attributes has more than": (0, within(1, data=field(1, field(1, field(1, b"x")) * 100_000))),
    "a name has more than": (0, within(1, 2, 2, data=field(1, bytes(9000)) + field(5, field(1, b"")))),
    "codec 9 has no meaning": (9, b""),
    "wire type": (0, b"\x0b"),
    "is cut off": (0, b"\x0a\x05abc"),
    "is cut off, or": (0, b"\xff" * 11),
    "damaged or cut off": (4, b"no zstd"),
}


LONG = {"more than 300000 fields", "than 300000 fields"}


@pytest.mark.parametrize(
    "why", [pytest.param(why, marks=pytest.mark.big) if why in LONG else why for why in BOMBS]
)
def test_bombs_end_in_one_problem_within_bounds(why):
    codec, data = BOMBS[why]
    tracemalloc.start()
    points = read_push(codec, data)
    with pytest.raises(PushError, match=why):
        deque(points, maxlen=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * MOST_BYTES


def test_names_of_usual_sizes_repeat_in_each_of_many_points():
    assert len([*read_push(0, common(40))]) == 9999


WRONG = {
    "a value of the type varint": (5, b"\x30\x05"),
    "a double of four bytes": (5, b"\x25\0\0\0\0"),
    "a count of the type varint": (9, b"\x20\x05"),
    "counts of twelve bytes": (9, field(6, b"\1" * 12)),
    "a bound of four bytes": (9, b"\x3d\0\0\0\0"),
    "a scale with a size": (10, field(6, b"\1")),
    "buckets of the type varint": (10, b"\x40\x05"),
    "attributes of the type varint": (5, b"\x38\x05"),
    "flags with a size": (5, field(8, b"\1")),
}


@pytest.mark.parametrize("what", WRONG)
def test_nothing_is_taken_for_another_type(what):
    kind, point = WRONG[what]
    with pytest.raises(PushError, match="wrong wire type or size"):
        deque(read_push(0, within(1, 2, 2, kind, 1, data=point)), maxlen=0)


def test_as_deep_as_is_shown():
    (point,) = read_push(0, nested(MOST_NESTED))
    assert str(point["resource"]).count("x") == 1


def test_any_bytes_give_points_or_a_problem():
    made = random.Random(714)
    whole = pushed(*(metric for metric, _, _ in METRICS))
    for _ in range(2000):
        data = bytearray(whole[: made.randint(0, len(whole))])
        for _ in range(made.randint(0, 3)):
            if data:
                data[made.randrange(len(data))] = made.randrange(256)
        try:
            for point in read_push(0, bytes(data)):
                assert point["type"] in {kind for kind, _ in pushedmetrics._KINDS.values()}
        except PushError:
            pass


def test_unpacked_lists_are_lists():
    bounds = b"".join(b"\x39" + struct.pack("<d", each) for each in (1.0, 2.0))
    data = within(1, 2, 2, data=field(9, field(1, bounds)))
    (point,) = read_push(0, data)
    assert point["histogram"]["bounds"] == [1.0, 2.0]
