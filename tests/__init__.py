"""The same rooms as the package: what tests `crosstraj/nn/ops.py` is in `tests/nn/test_ops.py`.

`tools/`, `benchmarks/` and `examples/` have their rooms here too. Files that hold no test have what
several test files share: `helpers.py` and `conftest.py` for all of them, others in the room that
needs them. No test file imports from another one.

Named for what they show, because that takes several modules:
    analysis/first/test_first_browser.py: what a real browser makes of the page of `first`
    analysis/test_browser.py: what a real browser makes of the page of `explore`
    analysis/test_screens.py: the same page on wide and narrow screens
    config/test_terms.py: that methods are compared on equal terms, and the page that says so
    config/test_controls.py: that every experiment has the policy alone beside each objective
    examples/test_cleanrl.py: CTRL in CleanRL's style, `examples/cleanrl_ppo_ctrl.py`
    examples/test_recipes.py: what all recipes for other libraries have in common
    examples/test_sb3.py: CTRL in Stable-Baselines3, `examples/sb3_ppo_ctrl.py`
    examples/test_torchrl.py: CTRL in TorchRL, `examples/torchrl_ppo_ctrl.py`
    experiments/cluster/test_cluster.py: runs on a cluster of several nodes
    experiments/cluster/test_torture.py: what `make torture-cluster` calls lost
    learning/test_belief.py: a memory while a run acts, learns, is judged and goes on
    learning/test_nonfinite.py: what is not finite, from the reward to the last save
    learning/test_one_pass.py: objectives that read the frames of the policy's minibatches
    learning/test_rehearsal.py: every method on a device that stands in for a GPU
    nn/test_native_bf16.py: the kernels of `nn/native.py` in bfloat16
    objectives/test_golden.py: that losses on given weights are what they were
    objectives/test_methods.py: every method before the same questions
    objectives/test_situations_leaks.py: no pair of `situations` is told by its stretch
    outside/test_light.py: the wheel without extras
    outside/test_names.py: the public names of the package
    outside/test_page.py: that docs/your_agent.md runs
    report/test_report_browser.py: what a real browser makes of the page of `report`
    test_house.py: the direction of imports
    test_locks.py: the locked versions
    test_names.py: names and sizes of files, and this list
    theory/test_counterexamples.py: where the paper's theory fails as printed

Modules of more than 40 statements that are tested where they are used:
    analysis/episode_ends.py: analysis/test_check_method.py
    analysis/export/onnx_file.py: analysis/export/test_bundle.py
    analysis/first/curve.py: analysis/first/test_first_page.py
    analysis/first/situation_map.py: analysis/first/test_first_page.py
    analysis/plots.py: analysis/test_study.py
    analysis/probes/show.py: analysis/probes/test_ranking.py
    analysis/result.py: analysis/test_study.py
    analysis/states.py: analysis/test_study.py
    analysis/summary.py: analysis/test_study.py
    analysis/table.py: analysis/test_study.py
    cli/analyse.py: analysis/test_study.py
    cli/experts.py: learning/test_experts.py
    cli/help.py: cli/test_run_values.py
    cli/margins.py: analysis/margins/test_robustness.py
    cli/options.py: cli/test_parse.py
    cli/probe.py: analysis/probes/test_ranking.py
    cli/train.py: test_loop.py
    cli/watch.py: analysis/test_watching.py
    config/groups.py: config/test_values.py
    config/own.py: examples/test_own_objective.py
    data/rollout.py: data/test_collect.py
    disk.py: runs/test_checkpoint.py
    envs/ising/task.py: envs/ising/test_matching.py
    experiments/cluster/driver.py: experiments/cluster/test_cluster.py
    experiments/cluster/node_task.py: experiments/cluster/test_cluster.py
    experiments/cluster/parcel.py: experiments/cluster/test_shelf.py
    experiments/cluster/session.py: experiments/cluster/test_cluster.py
    experiments/expert_runs.py: learning/test_experts.py
    experiments/plan.py: experiments/test_file.py
    experiments/tables/decision.py: experiments/tables/test_paired.py
    experiments/tables/gallery.py: analysis/test_gallery.py
    experiments/tables/ising_pictures.py: experiments/tables/test_ising.py
    experiments/tables/kinds.py: experiments/test_file.py
    experiments/tables/scores.py: experiments/tables/test_returns.py
    learning/auxiliary.py: policies/test_ppg.py
    learning/networks.py: learning/test_load.py
    learning/state.py: test_loop.py
    objectives/base.py: objectives/test_methods.py
    outside/encoder.py: outside/test_loss.py
    outside/losses.py: outside/test_loss.py
    policies/policy.py: policies/test_ppo.py
    policies/two_networks.py: policies/test_daac.py
    report/drawing.py: report/test_comparison_plots.py
    report/sections/aggregates.py: report/test_page.py
    report/sections/codes.py: report/test_page.py
    report/sections/headline.py: report/test_page.py
    report/sections/levels.py: report/test_page.py
    report/sections/returns.py: report/test_page.py
    report/sections/split.py: report/test_page.py
    runs/codec.py: runs/test_checkpoint.py
    runs/read.py: experiments/test_kept.py
"""
