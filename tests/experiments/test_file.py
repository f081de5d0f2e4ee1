"""Files of experiments: the runs they stand for, and one sentence for a bad one."""

from pathlib import Path

from crosstraj.experiments.file import read
from tests.experiments.files import FILES, SMALL, write


def test_runs_are_the_product_and_seeds_come_last(tmp_path: Path) -> None:
    runs = read(write(tmp_path)).runs()
    labels = [f"{m} {v}" for v in ("narrow", "wide") for m in ("ctrl:paper", "ppo")] + ["frozen"]
    expected = [f"{v}/{g}/s{s}" for s in (0, 3) for g in ("bigfish", "coinrun") for v in labels]
    assert [run.name for run in runs] == expected
    assert [run.frames for run in runs[:5]] == [1000] * 4 + [3000]
    assert runs[2].values == {
        "method": "ctrl",
        "preset": "paper",
        "encoder": "laptop",
        "policy.epochs": 3,
        "procgen.train_levels": 50,
        "frames": 1000,
    }


def test_a_variant_may_be_for_some_games_and_seeds_alone(tmp_path: Path) -> None:
    runs = read(write(tmp_path, SMALL + 'games = ["coinrun"]\nseeds = [3]')).runs()
    assert len(runs) == 4 * 4 + 1
    (frozen,) = (run for run in runs if run.variant == "frozen")
    assert frozen.name == "frozen/coinrun/s3"
    assert not {"games", "seeds"} & frozen.values.keys()


def test_without_variants_each_method_is_one_and_with_one_method_a_variant_has_its_own_name(
    tmp_path: Path,
) -> None:
    plain = SMALL[: SMALL.index("[variants")]
    assert list(read(write(tmp_path, plain)).variants) == ["ctrl:paper", "ppo"]
    one = SMALL.replace('"ctrl:paper", "ppo"', '"ppo"')
    assert list(read(write(tmp_path, one)).variants) == ["narrow", "wide", "frozen"]
    beside = plain + '[variants."frozen"]\nmethod = "ppo"\nencoder_grad = "none"'
    assert list(read(write(tmp_path, beside)).variants) == ["ctrl:paper", "ppo", "frozen"]


def test_there_is_a_file_for_each_table_and_figure() -> None:
    paper = {"main_table", "curves_25m", "ablations", "clusters", "keypoints", "temperature"}
    paper |= {"split", "ising", "tsne", "temporal", "samples", "pse_grid"}
    assert {path.stem for path in FILES if path.parent.name == "paper"} == paper
    assert {path.parent.name for path in FILES} == {"paper", "ours"}
    for path in FILES:
        assert read(path).reproduces.startswith("CTRL paper") == (path.parent.name == "paper")
