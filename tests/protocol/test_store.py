from pathlib import Path

import pytest

from kinspect.protocol import schema, tabletext

TEXT = """api 3 Sample
  versions: 0-4
  flexible: 3+
  enum: SAMPLE
  listeners: broker

request
  Name string 0+ nullable=1-2,4+ default=null entity=topicName
  Items []Item 2+
    Port int32 2+ default=-1
    Old string 2-3
  Later string 3+ tagged=4+ tag=0
variant 3 of 1.2.0..1.3.1
  flexible: no
  Name string 3+

response
"""


def test_an_api_is_written_as_it_was_read():
    api = tabletext.read_api(TEXT)
    assert tabletext.write_api(api) == TEXT
    name, items, later = api.request.fields
    assert name.nullable == {1, 2, 4}
    assert [field.name for field in items.fields] == ["Port", "Old"]
    assert (later.tag, later.tagged) == (0, {4})
    assert api.request.variants[0].label == "1.2–1.3"
    assert api.response.fields == ()


def test_the_whole_table_is_written_as_it_was_read():
    table = Path(schema.TABLE)
    paths = [*table.glob("*_*.txt"), *table.glob("records/*.txt"), table / "headers.txt"]
    assert len(paths) > 100
    for path in paths:
        text = path.read_text("utf-8")
        if text.startswith("api"):
            assert tabletext.write_api(tabletext.read_api(text)) == text, path
        else:
            assert tabletext.write_messages(tabletext.read_messages(text)) == text, path


@pytest.mark.parametrize("text", ["  Name string 0+\n", "variant 0 of 1.0.0..1.0.0\n"])
def test_text_out_of_order_is_refused(text):
    with pytest.raises(ValueError, match=r"begins with|follows"):
        tabletext.read_messages(text)


def test_fields_indented_too_far_are_refused():
    text = "record A\n  versions: 0\n  flexible: none\n    Deep string 0+\n"
    with pytest.raises(ValueError, match="too far"):
        tabletext.read_messages(text)


@pytest.mark.parametrize(
    ("releases", "label"),
    [
        ("3.5.0..3.6.2", "3.5–3.6"),
        ("0.8.2.0..0.8.2.0", "0.8.2"),
        ("2.7.0..2.7.2", "2.7"),
        ("4.0.0", "4.0"),
    ],
)
def test_labels_are_minor_releases(releases, label):
    assert tabletext.LayoutVariant(0, releases, True, ()).label == label
