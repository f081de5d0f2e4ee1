"""What comes with a checkout: agents by their names, and random play."""

import json
import math
from pathlib import Path

import pytest

from crosstraj.config.values import Config
from crosstraj.envs import GAMES
from crosstraj.errors import BadInput
from crosstraj.runs import shipped
from crosstraj.runs.shipped import agent_for, comes_along, file_of, named, random_return


def test_a_name_is_looked_up_where_no_such_path_is(tmp_path: Path, monkeypatch):
    place = tmp_path / "results" / "agents" / "one"
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps({"config": {"env": "coinrun"}}))
    monkeypatch.setattr(shipped, "RESULTS", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    assert named(Path("agents/one")) == place
    assert comes_along(place)
    assert agent_for("coinrun") == place
    assert agent_for("bigfish") is None
    with pytest.raises(BadInput, match=r"agents/two is not an agent.*there are: agents/one"):
        named(Path("agents/two"))
    for other in ("runs/x", "agents", "agents/one/deeper", "/agents/one"):
        assert named(Path(other)) == Path(other)
    (tmp_path / "agents" / "one").mkdir(parents=True)  # a path of one's own comes first
    assert named(Path("agents/one")) == Path("agents/one")
    assert not comes_along(Path("agents/one"))


def test_random_play_is_known_for_every_game_and_kind_of_levels():
    for game in GAMES:
        for levels in ("seen", "unseen", "validation"):
            found = random_return(Config(env=game), levels)
            assert found.measured, (game, levels)
            assert 0 < found.stderr < 1
    assert random_return(Config(env="coinrun"), "unseen").score == pytest.approx(2.96875)


def test_what_was_not_measured_is_not_made_up(tmp_path: Path):
    assert math.isnan(random_return(Config(), "unseen", tmp_path).score)
    path = file_of(Config(), "unseen", tmp_path)
    path.write_text(json.dumps({"return": 1.0, "stderr": None}))
    assert random_return(Config(), "unseen", tmp_path).score == 1.0
    path.write_text("{}")
    with pytest.raises(BadInput, match="is damaged"):
        random_return(Config(), "unseen", tmp_path)
