"""Reports from made-up run directories: what is in the tables, what is named, and what is safe."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from crosstraj.cli.main import main
from crosstraj.config.presets import plain, started
from crosstraj.envs import GymnasiumConfig, ProcgenConfig
from crosstraj.report import statistics
from crosstraj.report.comparison import compare
from crosstraj.report.level_by_level import AUDIT_LIMIT
from crosstraj.report.page import _csv, write_report
from crosstraj.report.reading import find_runs, read_run
from tests.cli.answers import Capture, answer, refusal
from tests.conftest import Trained
from tests.report.runs import TITLE, Row, make_run, report_on

pytestmark = pytest.mark.usefixtures("quick")


def episode(split: str, level: int, score: float, frame: str = "", frames: int = 1000) -> Row:
    return {
        "frames": frames, "split": split, "level": level, "score": score,
        "first_frame": frame or f"{split}{level}",
    }  # fmt: skip


def table(page: str, caption: str) -> list[list[str]]:
    """The rows of the table after a caption, head first."""
    lines = page[page.index(caption) :].split("\n\n")[1].split("\n")
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line
    ]


# --- What stands in the tables


def test_means_deviations_and_the_gap_are_those_of_the_seeds(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for seed, (seen, unseen) in enumerate([(9.0, 7.0), (9.0, 8.0), (9.0, 9.0)]):
        make_run(root, f"r{seed}", seed=seed, finals=[(1000, seen, unseen)])
    page = report_on(root)
    assert table(page, "Raw return on unseen levels")[1][:2] == ["coinrun", "8.00 ± 1.00 (3)"]
    assert table(page, "Raw return on seen levels")[1][:2] == ["coinrun", "9.00 ± 0.00 (3)"]
    assert table(page, "Generalisation gap")[1] == ["coinrun", "1.00 ± 1.00 (3)"]  # 2, 1, 0
    assert table(page, "Normalised unseen return")[1][1] == "0.600 ± 0.200 (3)"  # of 5 to 10
    assert "jumper and leaper: minimum 3" in page
    assert "Not in the tables" not in page


def test_the_gap_is_of_each_run_not_of_the_means(tmp_path: Path) -> None:
    """Seen and unseen returns both vary, their difference does not."""
    root = tmp_path / "runs"
    for seed in range(2):
        make_run(root, f"r{seed}", seed=seed, finals=[(1000, 5.0 + seed, 4.0 + seed)])
    assert table(report_on(root), "Generalisation gap")[1][1] == "1.00 ± 0.00 (2)"


def test_published_numbers_stand_beside_ours_with_both_budgets(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_run(root, "a", "ppo", seed=0)
    make_run(root, "b", "ctrl", "paper", seed=0)
    page = report_on(root)
    rows = table(page, "Raw return on unseen levels")
    assert rows[0] == ["game", "ppo", "PPO, paper", "ctrl paper", "CTRL, paper", "random play"]
    assert rows[1] == ["coinrun", "1.00 (1)", "8.3 ± 0.2", "1.00 (1)", "8.7 ± 0.3", "2.97"]
    assert "after 1,000 frames. Paper: CTRL paper, after 8,000,000 frames, 10 seeds" in page
    assert "another budget" in page
    tex = (tmp_path / "out/tables.tex").read_text()
    assert r"coinrun & 1.00 (1) & 8.3 $\pm$ 0.2 & 1.00 (1) & 8.7 $\pm$ 0.3 & 2.97 \\" in tex


def test_openais_ppo_is_there_at_its_budget_and_the_papers_is_not_in_hard_mode(
    tmp_path: Path,
) -> None:
    make_run(tmp_path / "a", "r", frames=500_000, finals=[(507_904, 1.0, 1.0)])
    assert "PPO, OpenAI at 500,000" in report_on(tmp_path / "a")
    hard = replace(plain("ppo").procgen, mode="hard")
    make_run(tmp_path / "b", "r", frames=500_000, finals=[(507_904, 1.0, 1.0)], procgen=hard)
    page = report_on(tmp_path / "b")
    assert "PPO, OpenAI" not in page
    assert "PPO, paper" not in page
    assert "No normalised scores" in page


def test_aggregates_are_over_shared_games_with_equally_many_seeds(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for seed in range(3):
        make_run(root, f"pc{seed}", "ppo", seed=seed, finals=[(1000, 9.0, 6.0)])
        make_run(root, f"cc{seed}", "ctrl", seed=seed, finals=[(1000, 9.0, 7.0)])
    make_run(root, "pm0", "ppo", seed=0, env="maze", finals=[(1000, 9.0, 8.0)])
    make_run(root, "cm0", "ctrl", seed=0, env="maze", finals=[(1000, 9.0, 8.0)])
    make_run(root, "pn0", "ppo", seed=0, env="ninja", finals=[(1000, 9.0, 8.0)])
    page = report_on(root)
    # Random play has 2.97 of 5 to 10 and 4.08 of 5 to 10: normalised -.406 and -.184.
    assert "ppo 0.400; ctrl 0.500; random play -0.295." in page
    assert "Games, played to the end by every variant: coinrun, maze." in page
    assert "Not finished by every variant, or without a range: ninja." in page
    assert "- ppo: seed 1, 2 of coinrun\n- ctrl: seed 1, 2 of coinrun\n" in page
    assert "One seed gives no interval: ppo; ctrl." in page
    assert "missing: ctrl: seed 0, 1, 2 of ninja" in page
    assert "missing: ctrl: seed 1, 2 of maze" in page
    rows = table(page, "Unseen return, normalised")
    assert rows[1] == ["ppo", "1", "0.400", "0.400", "0.400", "0.600"]  # 0.2 and 0.6
    assert rows[-1] == ["random play", "–", "-0.295", "-0.295", "-0.295", "1.295"]
    rows = [[row[0], row[-1]] for row in table(page, "Normalised unseen return")]
    assert rows[0] == ["game", "random play"]
    assert rows[1:] == [
        *(["coinrun", "-0.406"], ["maze", "-0.184"], ["ninja", "-0.148"]),
        ["mean of 3", "-0.246"],
    ]
    assert "Probability that a run" not in page  # of one seed it would be 0, 1 or a half


def test_one_run_is_one_table_after_a_sentence_with_random_play(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "a", finals=[(1000, 9.0, 6.0)], encoder="laptop")
    page = report_on(tmp_path / "runs")
    first = "ppo on coinrun after 1,000 frames: 6.00 on unseen levels, 9.00 on seen ones"
    assert f"{first}; random play has 2.97. One seed is no ranking." in page
    rows = table(page, "Raw return on unseen levels")
    assert rows[0][:4] == ["levels", "return", "random play", "normalised"]
    assert rows[1][:4] == ["unseen", "6.00", "2.97", "0.200"]
    assert rows[2][:2] == ["seen", "9.00"]
    assert rows[3][:4] == ["seen minus unseen", "3.00", "–", "–"]
    assert "with encoder=laptop, seed 0" in page
    assert page.index(first) < page.index("![") < page.index("| levels |")
    assert "Generalisation gap" not in page
    assert page.count("figures/curves") == 1  # seen and unseen in one picture
    assert "Nothing is said of single levels" in page


def test_random_play_is_left_out_of_means_over_games_where_one_was_not_measured(
    tmp_path: Path,
) -> None:
    black = ProcgenConfig(use_backgrounds=False)
    for name in ("coinrun", "maze"):
        make_run(tmp_path / "runs", name, env=name, procgen=black)
    page = report_on(tmp_path / "runs")
    assert table(page, "Normalised unseen return")[-1][-1] == "– (0 games)"
    assert [row[0] for row in table(page, "Unseen return, normalised")[1:]] == ["ppo"]
    assert page.index("There is nothing to compare it with.") < page.index("random play")


def test_what_all_variants_share_is_said_once(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_run(root, "a", encoder="laptop")
    make_run(root, "b", "ppo", "procgen", encoder="laptop")
    page = report_on(root)
    assert table(page, "Raw return on unseen levels")[0][1] == "ppo"
    assert page.count("encoder=laptop") == 1
    assert "All of them: encoder=laptop." in page


CODES: Row = {
    "view_cosine": 0.3, "codes_about_level": 0.9, "levels_per_cluster": 0.4, "level_variance": 0.5,
    "level_variance_untrained": 0.25, "knowing_all": 3.0, "knowing_before": 3.1,
}  # fmt: skip


def test_several_variants_say_what_their_codes_are_about_in_a_table(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_run(root, "p", "ppo")
    make_run(root, "c0", "ctrl", figures=CODES)
    make_run(root, "c1", "ctrl", seed=1, figures=CODES | {"view_cosine": 0.99, "knowing_all": 2.8})
    make_run(root, "s", "situations", figures=CODES | {"codes_about_level": 0.1})
    head, *rows = table(report_on(root), "Means over the runs of a variant, at their end.")
    assert head == [
        "variant", "collapsed", "level in the codes", "levels per cluster",
        "level in the features", "the same, untrained", "lead over repeating",
    ]  # fmt: skip
    assert rows == [  # PPO has no codes
        ["ctrl", "1 of 2 runs", "90%", "0.40", "50%", "25%", "0.20"],
        ["situations", "0 of 1 run", "10%", "0.40", "50%", "25%", "0.10"],
    ]


def test_one_run_says_what_its_codes_are_about_in_words(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "a", "ctrl", figures=CODES)
    page = report_on(tmp_path / "runs")
    said = "Not collapsed; an estimated 90% of what its codes say is which level a view is from;"
    assert said in page
    assert "Means over the runs" not in page
    make_run(tmp_path / "other", "a", "ppo")
    assert "The representation in words" not in report_on(tmp_path / "other")


def test_two_seeds_have_intervals(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for seed in range(2):
        make_run(root, f"p{seed}", "ppo", seed=seed, finals=[(1000, 9.0, 6.0)])
        make_run(root, f"c{seed}", "ctrl", seed=seed, finals=[(1000, 9.0, 7.0)])
    page = report_on(root)
    assert table(page, "Probability that a run")[1][1] == "1.000 [1.000, 1.000]"
    assert table(page, "Unseen return, normalised")[1][2] == "0.200 [0.200, 0.200]"
    assert "One seed gives no interval" not in page


def test_nan_shows_as_nan_and_is_named(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_run(root, "a", seed=0, finals=[(1000, 1.0, math.nan)])
    make_run(root, "b", seed=1, finals=[(1000, 1.0, 6.0)])
    page = report_on(root)
    assert table(page, "Raw return on unseen levels")[1][1] == "NaN ± NaN (2)"
    assert table(page, "Unseen return, normalised")[1][2] == "NaN"
    assert "NaN: ppo, coinrun, seed 0" in page


def test_split_and_joint_runs_of_a_method_make_the_split_table(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for game, split, joint in (("coinrun", 8.0, 4.0), ("maze", 6.0, 8.0)):
        for seed in range(2):
            common: Row = {"env": game, "seed": seed}
            alone: Row = {"encoder_grad": "ssl", "order": "objective"}
            make_run(root, f"s{game}{seed}", "curl", finals=[(1000, 9.0, split)], **common, **alone)
            both: Row = {"encoder_grad": "both", "order": "joint"}
            make_run(root, f"j{game}{seed}", "curl", finals=[(1000, 9.0, joint)], **common, **both)
    caption = "Split (curl, encoder_grad=ssl, order=objective) over joint (curl)"
    rows = table(report_on(root), caption)
    assert rows[1] == ["coinrun", "+1.00", "+0.800", "–"]
    assert rows[2] == ["maze", "-0.25", "-0.400", "–"]
    assert rows[3][:2] == ["mean", "+0.38 [+0.38, +0.38]"]


def test_split_tables_of_hard_levels_have_no_range(tmp_path: Path) -> None:
    root, hard = tmp_path / "runs", ProcgenConfig(mode="hard")
    for grad, unseen in (("ssl", 8.0), ("both", 4.0)):
        finals = [(1000, 9.0, unseen)]
        make_run(root, grad, "ctrl", finals=finals, encoder_grad=grad, procgen=hard)
    assert table(report_on(root), "Split (ctrl")[1] == ["coinrun", "+1.00", "NaN", "–"]


@pytest.mark.parametrize("method", ["daac", "idaac"])
def test_a_method_tuned_by_game_is_one_variant(method: str, tmp_path: Path) -> None:
    for game in ("bigfish", "chaser", "coinrun"):
        tuned = started({"method": method, "env": game, "policy.per_game": True})
        values = {"policy": tuned.policy, "objective": tuned.objective}
        make_run(tmp_path / "runs", game, method, env=game, **values)
    page = report_on(tmp_path / "runs")
    assert f"{method}, policy.per_game=True" in page
    assert "missing: " not in page
    assert "No aggregates" not in page


# --- What is named


def test_partial_missing_and_double_runs_are_named_and_not_averaged(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_run(root, "a", seed=0, finals=[(1000, 9.0, 6.0)])
    make_run(root, "b", seed=1, finals=[(600, 1.0, 1.0)])
    make_run(root, "c", seed=2, finals=[])
    make_run(root, "d", seed=0, finals=[(1000, 1.0, 1.0)])
    make_run(root, "e", "ctrl", seed=3, finals=[(1000, 9.0, 8.0)])
    page = report_on(root)
    assert f"partial: 600 of 1,000 frames: ppo, coinrun, seed 1 ({root}/b)" in page
    assert f"partial: 500 of 1,000 frames: ppo, coinrun, seed 2 ({root}/c)" in page
    assert f"double: {root}/d is ppo, coinrun, seed 0 again" in page
    assert "missing: ppo: seed 3 of coinrun" in page
    assert "missing: ctrl: seed 0 of coinrun" in page
    rows = table(page, "Raw return on unseen levels")
    assert rows[1][1] == "6.00 (1)"


def test_each_ising_goal_is_a_game_and_no_level_is_spoken_of(tmp_path: Path) -> None:
    for seed in (0, 1):
        for clusters in (4, 5):
            config = plain("ctrl")
            make_run(
                tmp_path / "runs",
                f"{clusters}-{seed}",
                "ctrl",
                env="ising",
                encoder="lattice",
                seed=seed,
                ising=replace(config.ising, instance=3 + seed),
                objective=replace(config.objective, clusters=clusters),
                finals=[(1000, seed, clusters)],
                episodes=[episode("seen", seed, 1.0, "a"), episode("unseen", seed, 1.0, "b")],
            )
    (one,) = compare([read_run(path) for path in find_runs([tmp_path / "runs"])])
    assert one.games == ["ising, goal 3", "ising, goal 4"]
    assert len(one.variants) == 2
    assert one.title == "1,000 frames, sampled actions"
    page = report_on(tmp_path / "runs")
    assert "easy levels" not in page
    assert "numbers in both" not in page  # a goal is the same in both splits, and no leak
    assert (tmp_path / "out/levels.csv").read_text().count("\n") == 1  # the heading


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config.json", "{"),
        ("config.json", '{"config": {"method": "ppo"}}'),
        ("config.json", '{"config": 3}'),
        ("config.json", '{"config": {"method": null, "env": "maze", "frames": 9, "seed": 0}}'),
        ("metrics.jsonl", "nonsense\n"),
        ("metrics.jsonl", '{"row": "evaluation", "frames": 3}\n'),
        ("metrics.jsonl", "[]\n"),
        ("episodes.jsonl", '{"split": "../../x", "level": 1, "frames": 3}\n'),
        ("episodes.jsonl", '{"split": "seen", "level": "x", "frames": 3}\n'),
    ],
)
def test_an_unreadable_run_is_named_and_the_others_are_reported(
    file: str, text: str, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    make_run(root, "good", finals=[(1000, 9.0, 6.0)])
    (make_run(root, "bad", seed=1) / file).write_text(text)
    page = report_on(root)
    assert f"unreadable: {root}/bad cannot be read" in page
    assert table(page, "Raw return on unseen levels")[1][:2] == ["unseen", "6.00"]


# --- Levels


def test_the_report_has_levels_audit_and_its_limit(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    seen = [episode("seen", 1, 5.0, "x"), episode("seen", 2, 5.0)]
    unseen = [episode("unseen", 300, 10.0, "x"), episode("unseen", 301, 0.0)]
    early = [episode("unseen", 301, 99.0, frames=500)]
    make_run(root, "a", "ppo", episodes=[*early, *seen, *unseen])
    better = [row | {"score": row["score"] + 1} for row in (*seen, *unseen)]
    make_run(root, "b", "ctrl", episodes=better)
    page = report_on(root)
    assert AUDIT_LIMIT in page
    audited = table(page, "Level audit by first frames")
    assert audited[1] == ["coinrun", "2 of 200", "2", "1 (50.0%)", "0", "0", "0"]
    won = table(page, "Levels on which the first variant")
    assert won[1] == ["ctrl over ppo", "seen", "2", "0", "0", "0"]
    assert won[2] == ["ctrl over ppo", "unseen", "2", "0", "0", "0"]
    helped = table(page, "Does repetition help?")
    assert helped[1] == ["ppo", "coinrun", "10.00 (1)", "0.00 (1)"]
    levels = (tmp_path / "out/levels.csv").read_text().splitlines()
    assert levels[1] == f'"{TITLE}",1000,ppo,coinrun,seen,1,5'
    assert len(levels) == 9


def test_levels_of_gymnasium_ids_are_audited_and_another_split_is_another_task(
    tmp_path: Path,
) -> None:
    root, door = tmp_path / "runs", "crosstraj/MiniGrid-DoorKey-6x6-v0"
    seen = [episode("seen", 11, 1.0, "x"), episode("seen", 12, 1.0)]
    unseen = [episode("unseen", 900, 1.0, "x"), episode("unseen", 901, 0.0)]
    split = GymnasiumConfig(train_levels=100, first_level=10)
    make_run(root, "a", env=door, gymnasium=split, episodes=[*seen, *unseen])
    make_run(root, "b", env=door, episodes=[episode("seen", -1, 1.0), episode("unseen", -1, 1.0)])
    page = report_on(root)
    assert "1,000 frames, levels 10 to 109, sampled actions" in page
    assert "1,000 frames, sampled actions" in page
    audited = table(page, "Level audit by first frames")
    assert audited[1] == [door, "2 of 100", "2", "1 (50.0%)", "0", "0", "0"]
    assert "gymnasium" not in page  # it is the task's, and no variant's


def test_formulas_are_quoted_and_numbers_are_not() -> None:
    cells = ["=1", "+1x", "-2+3+cmd", "@x", "\tx", "-1.5", "7", "ppo"]
    quoted = _csv([cells]).decode().strip("\n").split(",")
    assert quoted == ["'=1", "'+1x", "'-2+3+cmd", "'@x", "'\tx", "-1.5", "7", "ppo"]


def test_stacked_frames_are_audited_apart(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_run(root, "a", episodes=[episode("seen", 1, 0.0, "x"), episode("unseen", 300, 0.0, "y")])
    stacked = [episode("seen", 1, 0.0, "z"), episode("unseen", 300, 0.0, "x")]
    make_run(root, "b", frame_stack=4, episodes=stacked)
    rows = table(report_on(root), "Level audit by first frames")
    assert [row[0] for row in rows[1:]] == ["coinrun", "coinrun, 4 frames stacked"]
    assert all(row[3:] == ["0 (0.0%)", "0", "0", "0"] for row in rows[1:])


# --- Safety


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "](javascript:alert(1)) ![x](http://evil.example/x.png)",
    "| a | b |\n\n# heading",
    r"$\frac{1}{0$ \input{/etc/passwd} %",
    "../../../escape",
    "_hidden `code` *bold* www.evil.example \u202egnp",
)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[str, tuple[str, ...]]] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.add((tag, tuple(name for name, _ in attributes)))
        self.links += [value or "" for name, value in attributes if name in ("src", "href")]


def tags(page: str) -> Tags:
    parser = Tags()
    parser.feed(page)
    return parser


MARKUP = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "ul", "li", "div"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "img", "figcaption"),
}


@pytest.mark.drawn
def test_hostile_runs_inject_nothing_and_leave_the_rest_of_the_disk_alone(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "out"
    episodes = [episode("seen", 1, 1.0), episode("unseen", 300, 1.0)]
    for index, name in enumerate(HOSTILE):
        make_run(runs, re.sub("[/\n]", "", name), seed=index, episodes=episodes)
        hostile = {"method": name, "preset": name, "objective": {name: name}}
        make_run(runs, f"as method {index}", changed=hostile, episodes=episodes)
        make_run(runs, f"as game {index}", changed={"env": name}, episodes=episodes)
        (runs / f"broken {index}").mkdir()
        broken = json.dumps({"config": {"method": name, "preset": 1}})
        (runs / f"broken {index}/config.json").write_text(broken)
    before = set(tmp_path.rglob("*"))
    page = write_report([runs], out)
    assert all(path.is_relative_to(out) for path in {*tmp_path.rglob("*")} - before)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table")
    for text in (page.read_text(), rendered.render((out / "report.md").read_text())):
        found = tags(text)
        assert {name for name, _ in found.seen} <= MARKUP
        assert {name for _, names in found.seen for name in names} <= ATTRIBUTES
        assert all(re.fullmatch(r"figures/[a-z0-9-]+\.png", link) for link in found.links)
        assert "alert(1)" in text  # the names are there, as text
    tex = (out / "tables.tex").read_text()
    ours = {"usepackage", "begin", "end", "centering", "caption", "toprule", "midrule"}
    ours |= {"bottomrule", "pm", "geq", "textbackslash", "textless", "textgreater", "textbar"}
    assert set(re.findall(r"\\([a-z]+)", tex.replace(r"\\", ""))) <= ours
    assert all(
        line.count("{") == line.count("}")
        for line in tex.replace(r"\{", "").replace(r"\}", "").split("\n")
    )


ATTRIBUTES = {"lang", "charset", "name", "content", "class", "scope", "src", "alt", "style"}


# --- The command


@pytest.mark.drawn
def test_a_run_with_its_report(trained: Trained, tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "page"
    code, said, _ = answer(capfd, "report", str(trained.directory), "--out", str(out))
    assert (code, said) == (0, f"{out}/index.html\n")
    page = (out / "index.html").read_text()
    assert trained.directory.name in page
    for link in tags(page).links:
        assert (out / link).read_bytes()[:4] == b"\x89PNG"
    assert {path.name for path in out.iterdir()} == {
        "index.html", "report.md", "tables.tex", "levels.csv", "figures",
    }  # fmt: skip
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main(["report", str(trained.directory), "--out", str(out)]) == 0
    assert {path: path.read_bytes() for path in files} == files  # to the byte


def test_a_report_needs_runs_and_a_place(trained: Trained, tmp_path: Path, capfd: Capture) -> None:
    run = str(trained.directory)
    assert "holds no run" in refusal(capfd, "report", str(tmp_path), "--out", str(tmp_path / "o"))
    absent = str(tmp_path / "absent")
    assert absent in refusal(capfd, "report", run, absent, "--out", str(tmp_path / "o"))
    assert "no run is given" in refusal(capfd, "report", "--out", str(tmp_path / "o"))
    assert "--out" in refusal(capfd, "report", run, run)
    assert "--out" in refusal(capfd, "report", str(trained.directory.parent))
    (tmp_path / "file").write_text("precious")
    assert "cannot be written" in refusal(capfd, "report", run, "--out", str(tmp_path / "file"))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/config.json").write_text("{")
    assert "no run can be read" in refusal(
        capfd, "report", str(tmp_path / "bad"), "--out", str(tmp_path / "o")
    )
    assert (tmp_path / "file").read_text() == "precious"
    assert not (tmp_path / "o").exists()


def test_the_tables_in_results_are_those_of_the_runs_kept_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    monkeypatch.setattr(statistics, "RESAMPLES", 2000)
    write_report(sorted(log.parent for log in Path("results").glob("*/metrics.jsonl")), tmp_path)
    for name in ("report.md", "index.html", "tables.tex", "levels.csv"):
        kept = (root / "results/report" / name).read_text()
        assert kept == (tmp_path / name).read_text(), f"make results would change {name}"
