"""Tables as Markdown: our own words may hold markup, a stranger's never."""

from crosstraj.report.document import (
    Heading,
    Items,
    Picture,
    Table,
    Text,
    html,
    latex,
    markdown,
    marked_table,
)


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


def test_every_writer_escapes_every_block() -> None:
    name = "<b>|*$_{}\\&#%"
    blocks = [
        Heading(name), Text(name), Items([name]), Table(name, [name, name], [[name, name]]),
        Picture("figures/a.png", name),
    ]  # fmt: skip
    page = html(name, blocks)
    assert "<b>" not in page
    assert page.count("&lt;b&gt;|*$_{}\\&amp;#%") == 11  # 4 texts, a caption, 4 cells, 2
    assert markdown(blocks).count(r"\<b\>\|\*\$\_\{\}\\\&\#%") == 9
    assert (
        latex(blocks).count(r"\textless{}b\textgreater{}\textbar{}*\$\_\{\}\textbackslash{}\&\#\%")
        == 5
    )
