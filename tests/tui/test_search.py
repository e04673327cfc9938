"""Search of a text in the fields of an exchange."""

import pytest
from support.shares import one_in
from support.tui import CAPTURES, ERRORS, NANO, indexed

import kinspect
from kinspect.kafka.view.view import View
from kinspect.tui.index.exchangefields import ExchangeFields
from kinspect.tui.index.filterline import parse_filter

LOGINS = CAPTURES / "4.4.0" / "sasl_plain.pcap.gz"
NONE = "no field has this text, as far as fields are shown"


async def find(explorer, text):
    await explorer.press("ctrl+f")
    explorer.main.details.find_bar.value = text
    await explorer.press("enter")


def names_with(fields, text):
    """Lines of the tree, all unfolded, in whose name or value the text is; as their paths."""

    def below(nodes):
        for node in nodes:
            shown = node.key if node.unfolds or node.value is None else f"{node.key} {node.value} {node.name}"
            if text in shown.lower():
                yield node.side, node.path
            if node.unfolds:
                yield from below(fields.children(node))

    return [*below(fields._roots)]


def test_matches_one_by_one_and_round_again(explore):
    async def script(explorer):
        tree = explorer.main.details.fields
        await explorer.press("enter")
        expected = names_with(ExchangeFields(explorer.app.store.exchange(0), View(records=True)), "topic")
        assert len(expected) > 2
        await find(explorer, "TOPIC")
        assert tree.has_focus
        seen = [(tree.node.side, tree.node.path)]
        for _ in expected[1:]:
            await explorer.press("full_stop")
            seen.append((tree.node.side, tree.node.path))
        assert seen == expected
        await explorer.press("full_stop")
        assert (tree.node.side, tree.node.path) == expected[0]
        await explorer.press("comma")
        assert (tree.node.side, tree.node.path) == expected[-1]
        await explorer.press("comma")
        assert (tree.node.side, tree.node.path) == expected[-2]

    explore(script, ERRORS)


def test_matches_are_marked(explore):
    async def script(explorer):
        tree = explorer.main.details.fields
        await find(explorer, "client")
        marked = [
            tree.draw(place).plain[span.start : span.end]
            for place in range(tree.count)
            for span in tree.draw(place).spans
            if "underline" in str(span.style)
        ]
        assert len(marked) > 2
        assert {text.lower() for text in marked} == {"client"}
        await find(explorer, "")
        assert not any(
            "underline" in str(span.style) for place in range(tree.count) for span in tree.draw(place).spans
        )

    explore(script, ERRORS, size=(130, 40))


@pytest.mark.big
def test_the_next_exchange_is_searched_too(explore):
    async def script(explorer):
        tree = explorer.main.details.fields
        await find(explorer, "pcerr-missing")
        assert explorer.said() == [NONE]
        await explorer.press("right_square_bracket", "full_stop")
        explorer.main.exchanges.move_to(5)
        await explorer.rest()
        await explorer.press("full_stop")
        assert tree.node.value == "pcerr-missing"

    explore(script, ERRORS, size=(130, 40))


def test_escape_closes_the_input_and_keeps_the_list(explore):
    async def script(explorer):
        await explorer.press("ctrl+f", "escape")
        assert explorer.main.details.fields.has_focus
        assert not explorer.main.details.find_bar.display
        await explorer.press("full_stop")
        assert explorer.said() == ["Ctrl-F looks for a text first"]
        await explorer.press("escape")
        assert explorer.main.exchanges.has_focus

    explore(script, NANO)


@pytest.mark.parametrize("text", one_in(5, ["[0]", "(", "\\", ".*", "🜁"]))
def test_any_text_may_be_looked_for(explore, text):
    async def script(explorer):
        await find(explorer, text)
        found = explorer.main.details.fields.node.key == "[0]"
        assert found if text == "[0]" else explorer.said() == [NONE] or text == "("

    explore(script, ERRORS)


@pytest.mark.big
@pytest.mark.parametrize(
    ("path", "api", "text", "view"),
    [
        pytest.param(*(NANO, "Produce", "nano-0", View(records=True, payload="text")), marks=pytest.mark.big),
        (LOGINS, "SaslAuthenticate", "AGFsaWNlAHMzY3IzdC1wbGFpbg", View(records=True, show_secrets=True)),
    ],
    ids=["records", "passwords"],
)
def test_what_is_hidden_is_not_found(explore, path, api, text, view):
    exchanges = [*kinspect.read(path, filter=parse_filter(f"api={api}"))]
    matches = []

    async def script(explorer):
        tree = explorer.main.details.fields
        found = 0
        await explorer.press("enter")
        await find(explorer, text)
        for _ in exchanges:
            found += tree.node is not None and tree.marked.search(tree.draw(tree.cursor).plain) is not None
            await explorer.press("right_square_bracket", "full_stop")
        matches.append(found)

    explore(script, path, text=f"api={api}")
    explore(script, path, text=f"api={api}", view=view)
    assert matches[0] == 0
    assert matches[1] > 0


def test_a_search_keeps_nothing_of_what_it_walked():
    store = indexed(ERRORS)
    fields = ExchangeFields(store.exchange(0), View(records=True))
    for place in reversed(range(len(fields.lines))):
        if fields.lines[place].open:
            fields.toggle(place)
    body = fields.children(fields._roots[-1])[-1]
    body._children = None
    walked = [*fields.walk()]
    assert len(walked) > 300
    assert body._children is None
    places, node = walked[-1]
    line = fields.lines[fields.reveal(places)]
    assert (line.key, line.path, line.value) == (node.key, node.path, node.value)
