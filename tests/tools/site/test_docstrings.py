"""Plain docstrings as reStructuredText: code, examples, lists of arguments."""

from tools.site.docstrings import as_rst, marked


def test_an_indented_block_after_a_colon_is_an_example() -> None:
    lines = ["All at once:", "", "    loss.learn(`x`)", "", "After."]
    assert as_rst(lines) == ["All at once::", "", "    loss.learn(`x`)", "", "After.", ""]


def test_lines_with_names_are_a_list_and_what_is_indented_goes_on() -> None:
    lines = ["Frames.", "", "done: true where", "    an episode `ended`.", "levels: [S, N]"]
    assert as_rst(lines)[2:] == [
        "* ``done``: true where",
        "  an episode ``ended``.",
        "* ``levels``: [S, N]",
        "",
    ]


def test_stars_and_underscores_stay_what_they_are() -> None:
    assert marked("f(**{`a*b`: 1}) x_ y") == r"f(\*\*{``a*b``: 1}) x\_ y"
    assert as_rst([]) == []
