"""What the tests of this room share."""

import pytest

from crosstraj.report import drawing, statistics


@pytest.fixture
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are drawn only for tests that look at them, and intervals from few resamples."""
    monkeypatch.setattr(statistics, "RESAMPLES", 50)
    if "drawn" not in request.keywords:
        monkeypatch.setattr(drawing, "png", lambda figure: b"not drawn")
