"""The two actors of a driver, and how they are called; neither takes a processor."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from crosstraj.experiments.cluster.owners import Ask, Registry


class Registrar(Registry):
    """The registry as an actor, which knows whether it was started again after a death."""

    def __init__(self, seconds: float) -> None:
        forgot = ray.get_runtime_context().was_current_actor_reconstructed
        super().__init__(seconds, forgot=forgot)


def actor(kind: type, **options: Any) -> Any:
    """An actor on the driver's own node: it dies with a node only where the driver does.

    (With soft affinity, Ray places one without processors on any node.)
    """
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(kind).options(
        num_cpus=0,
        max_restarts=-1,
        max_task_retries=-1,
        scheduling_strategy=here,
        get_if_exists="name" in options,
        **options,
    )


# While the main thread of a task waits for Ray, Ray gives the task's processors to another one,
# which for us would be a run too many; waiting for a thread that waits is not noticed.
_BESIDE = ThreadPoolExecutor(2)


def caller(called: Any, seconds: float | None) -> Ask:
    """Calls of an actor as plain ones, which fail after so many seconds."""

    def ask(method: str, *arguments: Any) -> Any:
        def get() -> Any:
            return ray.get(getattr(called, method).remote(*arguments), timeout=seconds)

        return _BESIDE.submit(get).result()

    return ask
