"""What a run says of its health: once when it begins, and in one sentence at the end."""

from crosstraj.config.presets import plain, preset
from crosstraj.learning import watch as health


def test_the_verdict_has_two_parts_and_says_what_the_codes_are_about():
    figures = {"view_cosine": 0.2, "codes_about_level": 0.934, "knowing_all": 3.0}
    said = "not collapsed; an estimated 93% of what its codes say is which level a view is from"
    assert health.verdict(figures) == said
    assert health.verdict(figures, levels=False) == said.replace("level", "episode")
    more = figures | {"view_cosine": 0.99, "knowing_before": 3.25, "action_gain": 0.0213}
    assert health.verdict(more) == (
        "collapsed; an estimated 93% of what its codes say is which level a view is from; they are "
        "foretold 0.25 nats better than by repeating the code before; knowing the actions is worth "
        "0.021 nats"
    )
    assert health.verdict({"view_cosine": 0.2}) is None


def test_a_run_whose_rank_falls_is_called_so_in_words_and_one_whose_rank_does_not_is_not():
    """The ranks of docs/methods.md#dbc; the same rule for every method, said once."""
    course = [24.0, 22.8, 7.8, 3.7, 3.6]
    watch = health.Watch(preset("dbc", "paper"))
    fine = {"latent_std": 0.8, "latent_distance": 0.5}
    said = [watch.news(fine | {"feature_rank": rank}) for rank in course]
    assert [len(sentences) for sentences in said] == [0, 0, 1, 0, 0]
    resumed = health.Watch(preset("dbc", "paper"), [{"row": "evaluation"}, {"feature_rank": 24.0}])
    (sentence,) = resumed.news(fine | {"feature_rank": 3.7})
    assert sentence.startswith(
        "the features have folded: their effective rank is 3.7, and was 24.0"
    )
    assert health.verdict({"feature_rank": 3.7}, rank_before=24.0) == sentence

    for ranks in ([24.0, 22.8], [95.0, 29.0], [8.6, 8.0]):  # PPO's; starpilot's; maze's, from low
        ppo = health.Watch(plain("ppo"))
        assert [ppo.news({"feature_rank": rank}) for rank in ranks] == [[], []]
    assert health.verdict({"feature_rank": 22.8}, rank_before=24.0) is None
