"""Published columns: their means, whose runs stand beside them, and at which budget."""

import numpy as np
import pytest

from crosstraj.learning.evaluation import normalised
from crosstraj.report.published import (
    ABLATIONS,
    BUDGETS,
    OPENAI_PPO,
    PAPER,
    openai_ppo,
    paper_columns,
)


@pytest.mark.parametrize(
    ("column", "mean"),
    [("PPO", 0.242), ("DAAC", 0.215), ("Proto-RL", 0.255), ("CURL", 0.241), ("CTRL", 0.273)],
)
def test_published_columns_have_the_mean_normalised_scores_of_the_reference(
    column: str, mean: float
) -> None:
    scores = [normalised(game, entry.mean) for game, entry in PAPER[column].items()]
    assert len(scores) == 16
    assert np.mean(scores) == pytest.approx(mean, abs=0.0006)


def test_a_run_is_held_against_the_column_of_its_method_and_ablation() -> None:
    assert list(paper_columns({"method": "pse"})) == ["PSE random"]
    trained = {"method": "pse", "objective": {"policies": "pretrained"}}
    assert list(paper_columns(trained)) == ["PSE trained"]
    assert paper_columns({"method": "ctrl", "objective": {"predict_weight": 1.0}}) == {
        "CTRL": PAPER["CTRL"]
    }
    assert paper_columns({"method": "ctrl", "objective": {"predict_weight": 0.0}}) == {
        "CTRL no pred": ABLATIONS["CTRL no pred"]
    }
    assert paper_columns({"method": "ctrl", "objective": {"action_conditioning": False}}) == {
        "CTRL no action": ABLATIONS["CTRL no action"]
    }
    two = {"predict_weight": 0.0, "sampling": "consecutive"}
    assert paper_columns({"method": "ctrl", "objective": two}) == {}
    assert paper_columns({"method": "somebody's own"}) == {}
    assert PAPER["DBC"]["bossfight"] == (5.0, 0.1)
    assert ABLATIONS["CTRL consecutive T"]["leaper"] == (3.4, 1.1)


def test_openais_ppo_stands_beside_a_run_within_a_tenth_of_its_budget() -> None:
    assert openai_ppo("starpilot", 507_904) == (500_000, 4.52, 3.78)
    assert openai_ppo("starpilot", 600_000) is None
    assert openai_ppo("chess", 500_000) is None
    assert all(len(row) == len(BUDGETS) for row in OPENAI_PPO.values())
