"""Tables as Markdown: our own words may hold markup, a stranger's never."""

from crosstraj.report.document import Table, markdown, marked_table


def test_our_own_cells_keep_their_markup_and_no_cell_can_end_early() -> None:
    text = marked_table(["a|b", "c"], [["**1**", "|x|"]])
    assert text == "| a\\|b | c |\n|---|---|\n| **1** | \\|x\\| |"
    assert marked_table(["a"], []) == "| a |\n|---|"


def test_a_stranger_s_cells_are_text() -> None:
    text = markdown([Table("T", ["a|b", "c"], [["**1**", "|x|"]])])
    assert text.splitlines()[2:] == [
        "| a\\|b | c |",
        "| --- | ---: |",
        "| \\*\\*1\\*\\* | \\|x\\| |",
    ]
