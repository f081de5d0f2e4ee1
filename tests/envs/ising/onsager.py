"""The paper's inverse temperatures, and Onsager's correlations at them."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
BETAS = (0.01, 0.0825, 0.155, 0.2275, 0.3)
ONSAGER = (0.0100, 0.0834, 0.1614, 0.2487, 0.3523)
