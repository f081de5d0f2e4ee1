"""The page of `crosstraj explore`: its data end no script, and frames keep its budget."""

import json
import math
import re

import numpy as np
import pytest

from crosstraj.analysis import explore, pictures
from crosstraj.analysis.result import Choices
from crosstraj.analysis.study import prepare


def test_data_cannot_end_its_script_element_and_is_not_looked_at_again():
    nasty = "</script><script>alert(1)</script><!-- &lt; {{plotly}}"
    text = explore.safe_json({"a": nasty, "b": None})
    assert not re.search(r"[<>&]", text)
    assert json.loads(text) == {"a": nasty, "b": None}
    with pytest.raises(ValueError, match="not JSON compliant"):
        explore.safe_json([math.nan])


def test_frames_get_what_the_rest_leaves_of_the_page(clustered, monkeypatch):
    subject = prepare(clustered, Choices(40, None, 0, 0))
    given = []

    def sheets(frames: np.ndarray, budget: int) -> pictures.Sheets:
        given.append(budget)
        return pictures.Sheets([b"x" * budget], 2, 64, 64, 80)  # the worst that they may be

    monkeypatch.setattr("crosstraj.analysis.explore.sheets", sheets)
    page = explore.page(explore.content(subject, []) | {"more": "x" * 10**6}, subject)
    assert given[0] > 5_000_000
    assert explore.PAGE_BYTES - 10_000 < len(page.encode()) < 15_000_000
