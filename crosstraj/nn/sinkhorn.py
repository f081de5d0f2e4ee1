"""Sinkhorn-Knopp: codes in which every cluster is about equally full."""

from torch import Tensor


def sinkhorn(scores: Tensor, rounds: int) -> Tensor:
    """Soft cluster assignments in which every cluster is about equally full: [B, C] -> [B, C].

    Starts from the row softmax (the paper's Q, Algorithm 1) and alternates columns and rows in the
    log domain, ending on rows, so that every view is fully assigned: rows sum to one. `scores` are
    already divided by the temperature.
    """
    return log_sinkhorn(scores, rounds).exp()


def log_sinkhorn(scores: Tensor, rounds: int) -> Tensor:
    """The logarithm of the code: scores + a number for each row + a potential for each column."""
    log_code = scores.float().log_softmax(1)
    for _ in range(rounds):
        log_code = log_code - log_code.logsumexp(0, keepdim=True)  # every cluster equally full
        log_code = log_code - log_code.logsumexp(1, keepdim=True)  # every view fully assigned
    return log_code
