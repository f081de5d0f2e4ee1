"""Files of experiments: the runs they stand for, and one sentence for a bad one."""

import re
from pathlib import Path

import pytest

from crosstraj.cli.main import main
from crosstraj.config.methods import METHODS
from crosstraj.experiments.file import read
from tests.experiments.files import FILES, SMALL, without, write

PAIRED = SMALL.replace("seeds = [0, 3]", "seeds = [0, 1, 2, 3, 4]\ntable = 'paired'")
PAIRED = PAIRED.replace("table =", "baseline = 'ppo narrow'\ntable =")
SWEEP = SMALL.replace("seeds", "table = 'sweep'\nover = 'policy.epochs'\nseeds")
SWEEP = SWEEP.replace("procgen.train_levels = 50\n", "")
LOOK = "\n[look]\nvariant = 'ppo wide'\nseeds = 4\nsuccess = 0.008\nfutility = 0.1\n"


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


def test_the_check_that_all_methods_train_has_every_method() -> None:
    runs = read(Path("experiments/ours/all_methods.toml")).runs()
    assert {run.values["method"] for run in runs} == METHODS.keys()


# --- bad files


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name = ", "is not TOML"),
        (SMALL + '\n[extra]\nkey = "x"', "unknown key 'extra'"),
        (SMALL.replace("title", "titel"), "unknown key 'titel': did you mean 'title'?"),
        (without("title"), "title is missing"),
        (without("games"), "games is missing"),
        (SMALL.replace('"ppo"]', '"pop"]'), "unknown method 'pop': did you mean 'ppo'?"),
        (SMALL.replace("ctrl:paper", "ctrl:papre"), "unknown preset 'papre'"),
        (SMALL.replace("[0, 3]", "[]"), "seeds is an empty list"),
        (SMALL.replace('["bigfish", "coinrun"]', "[]"), "games is an empty list"),
        (SMALL.replace('["ctrl:paper", "ppo"]', "[]"), "methods is an empty list"),
        (SMALL.replace("[0, 3]", '["0"]'), "entry of seeds='0': must be a whole number"),
        (SMALL.replace("[0, 3]", "[true]"), "entry of seeds=True: must be a whole number"),
        (SMALL.replace("[0, 3]", "[0, 0]"), "names something twice"),
        (SMALL.replace("[0, 3]", "3"), "seeds=3: must be a list"),
        (SMALL.replace("1_000", '"many"'), "frames='many': must be a whole number"),
        (SMALL.replace("1_000", "0"), "frames=0: must be at least 1"),
        (SMALL.replace("3_000", "3.5"), "frames=3.5: must be a whole number"),
        (SMALL.replace('"small"', '"../small"'), "names a directory"),
        (SMALL.replace("policy.epochs = 2", "env = 'maze'"), "this is said by games"),
        (SMALL.replace("policy.epochs = 2", "seed = 1"), "this is said by seeds"),
        (SMALL.replace("policy.epochs = 2", "policy.epochs = 1979-05-27"), "must be a number"),
        (SMALL.replace('"narrow"', '"a/b"'), "a name has no slash"),
        (without("methods"), "variant 'narrow' names no method"),
        (SMALL.replace('"frozen"', '"ppo narrow"'), "has the name of a method in the list"),
        (without("methods", SMALL[: SMALL.index("[variants")]), "nothing to run"),
        (SMALL.replace("seeds", "table = 'x'\nseeds"), "unknown table 'x'"),
        (SMALL.replace("seeds", "judge = 'frosen'\nseeds"), "did you mean 'frozen'?"),
        (
            SMALL.replace("seeds", "baseline = 'frozen'\nseeds"),
            "baseline is for table = 'paired' or 'screen'",
        ),
        (SMALL.replace("seeds", "table = 'paired'\nseeds"), "needs `baseline`"),
        (SMALL.replace("seeds", "levels = 'validtion'\nseeds"), "did you mean 'validation'?"),
        (SMALL.replace("seeds", "levels = 'validation'\nseeds"), "held_out = 'both'"),
        (SMALL.replace("seeds", "judge = 'frozen'\ntable = 'health'\nseeds"), "leave it out"),
        (SMALL + LOOK, "look is for table = 'paired', and this is 'returns'; leave it out"),
        (
            SMALL.replace("seeds", "beside = ['frozen']\nseeds"),
            "beside is for table = 'paired', and this is 'returns'; leave it out",
        ),
        (PAIRED.replace("table", "beside = ['frosen']\ntable"), "did you mean 'frozen'?"),
        (PAIRED.replace("table", "beside = [3]\ntable"), "entry of beside=3"),
        (
            PAIRED.replace("table", "beside = ['ppo narrow']\ntable"),
            "unknown variant for beside 'ppo narrow'",
        ),
        (
            PAIRED.replace("table", "beside = ['ppo wide']\ntable") + LOOK,
            "unknown variant for look 'ppo wide'",
        ),
        (PAIRED + LOOK.replace("'ppo wide'", "'ppo wild'"), "did you mean 'ppo wide'?"),
        (PAIRED + LOOK.replace("'ppo wide'", "'ppo narrow'"), "unknown variant for look"),
        (PAIRED + LOOK.replace("seeds = 4", "seeds = 5"), "less than the 5 seeds there are"),
        (PAIRED + LOOK.replace("seeds = 4", "seeds = 1"), "one seed shows nothing"),
        (PAIRED + LOOK.replace("0.008", "0.05"), "look.success=0.05: must be above 0"),
        (
            PAIRED + LOOK.replace("0.008", "0.007"),
            "look.success=0.007: 4 seeds of 2 games have a p of 0.0078 at least, so this look could"
            " never stop for success; raise look.success or look.seeds, or take more games",
        ),
        (
            PAIRED + "seeds = [1]\n" + LOOK.replace("ppo wide", "frozen"),
            "variants.frozen.seeds: a look is at all pairs",
        ),
        (PAIRED + LOOK.replace("0.1", "1"), "look.futility=1: must be a number with a point"),
        (PAIRED + LOOK.replace("futility", "futile"), "did you mean 'futility'?"),
        (SMALL + 'games = ["maze"]', "variants.frozen.games: 'maze' is not in games above"),
        (SMALL + "seeds = [1]", "variants.frozen.seeds: 1 is not in seeds above"),
        (SMALL.replace("seeds", "table = 'split'\nseeds"), "named `X joint` and `X split`"),
        (SMALL.replace("seeds", "over = 'policy.epochs'\nseeds"), "over is for table = 'sweep'"),
        (SMALL.replace("seeds", "table = 'sweep'\nseeds"), "needs `over`"),
        (SWEEP, "variant 'frozen' gives no number for over = 'policy.epochs'"),
        (SWEEP.replace("encoder_grad", "policy.epochs = 5\nencoder_grad"), "and differ in more"),
        (
            SWEEP[: SWEEP.index('[variants."frozen"]')].replace("epochs = 3", "epochs = 2"),
            "variants 'ctrl:paper narrow' and 'ctrl:paper wide' have the same policy.epochs",
        ),
        # what only the configuration knows
        (SMALL.replace("policy.epochs = 2", "policy.epoch = 2"), "did you mean 'policy.epochs'?"),
        (SMALL.replace("policy.epochs = 2", "policy.epochs = 2.5"), "must be a whole number"),
        (SMALL.replace("policy.epochs = 2", "policy.epochs = true"), "must be a whole number"),
        (SMALL.replace("policy.epochs = 2", "policy.epochs = 0"), "policy.epochs=0"),
        (SMALL.replace('"laptop"', '"laptpo"'), "must be one of impala, laptop"),
        (SMALL.replace("policy.epochs = 2", "policy.clip = true"), "must be a number"),
        (SMALL.replace('"laptop"', "3"), "must be one of impala, laptop"),
        (SMALL.replace('"bigfish"', '"bigfis"'), "did you mean 'bigfish'?"),
        (SMALL.replace("epochs = 2", "epochs = 3\nprocgen.train_levels = 50"), "the same values"),
        (SMALL.replace("policy.epochs = 2", "phases = [0.5, 0.5]"), "phases is not given"),
    ],
)
def test_a_bad_file_gets_one_sentence_and_starts_nothing(
    text: str, sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, runs = write(tmp_path, text), tmp_path / "runs"
    assert main(["experiment", str(path), "--runs", str(runs), "--out", str(tmp_path / "o")]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"crosstraj: [^\n]+\n", said.err), said.err
    assert sentence in said.err
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_there_gets_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "no/such.toml"]) == 2
    assert capfd.readouterr().err == (
        "crosstraj: no/such.toml cannot be read: No such file or directory\n"
    )
