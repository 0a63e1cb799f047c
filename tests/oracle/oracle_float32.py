"""A float32 sampler written straight down: what the bounds must contain, under every profile."""

import numpy as np

F = np.float32
NEVER = F(-np.inf)


def softmax(row):
    """Softmax with float32 sums."""
    weights = np.exp(row - row.max())
    return (weights / weights.sum(dtype=F)).astype(F)


def log_softmax(row):
    """Log-softmax with float32 sums."""
    gaps = row - row.max()
    return (gaps - np.log(np.exp(gaps).sum(dtype=F))).astype(F)


def edited(row, request):
    """Bias and penalties."""
    params, row = request.params, row.astype(F)
    for token, bias in params.logit_bias.items():
        row[token] += F(np.clip(bias, -100, 100))
    output = np.bincount(request.output_token_ids, minlength=row.size)
    seen = np.bincount(request.prompt_token_ids, minlength=row.size) + output > 0
    r = F(params.repetition_penalty)
    row = np.where(seen, np.where(row > 0, row / r, row * r), row).astype(F)
    row = row - F(params.frequency_penalty) * output.astype(F)
    return (row - F(params.presence_penalty) * (output > 0).astype(F)).astype(F)


def by_rank(row, ties):
    """Token ids by descending logit, equal ones by ascending or descending id."""
    ids = np.arange(row.size)
    return np.lexsort((-ids if ties == "highest_ids" else ids, -row))


def min_p(row, params, profile, ascending):
    """Probabilities against a product."""
    probs = softmax(row)
    return np.where(probs >= F(params.min_p) * probs.max(), row, NEVER)


def top_k(row, params, profile, ascending):
    """The first k by rank, or all that equal the k-th."""
    if not 0 < params.top_k < row.size:
        return row
    ranked = by_rank(row, profile.topk_ties)[: params.top_k]
    return only(row, ranked, profile.topk_ties)


def top_p(row, params, profile, ascending):
    """A running sum from the largest, or from the smallest against 1 - p."""
    p = F(params.top_p)
    if p >= 1:
        return row
    ranked = by_rank(row, profile.topp_ties)
    probs = softmax(row[ranked])
    one_more = profile.topp_exact == "one_more"
    if ascending:
        mass = np.cumsum(probs[::-1], dtype=F)[::-1]
        stays = mass >= F(1) - p if one_more else mass > F(1) - p
    else:
        before = np.concatenate([[F(0)], np.cumsum(probs, dtype=F)[:-1]])
        stays = before <= p if one_more else before < p
    stays[0] = True
    return only(row, ranked[stays & (row[ranked] > NEVER)], profile.topp_ties)


def only(row, tokens, ties):
    """The row with those tokens, and all their equals where ties are kept."""
    if ties == "keep_all":
        return np.where(row >= row[tokens].min(), row, NEVER)
    out = np.full_like(row, NEVER)
    out[tokens] = row[tokens]
    return out


FILTERS = {"min_p": min_p, "top_k": top_k, "top_p": top_p}


def filtered(row, request, profile, order, ascending):
    """The row [V] after temperature and filters in an order of step names."""
    row = edited(row, request)
    for name in order:
        if name == "temperature":
            row = (row / F(request.params.temperature)).astype(F)
        elif name != "min_p" or request.params.min_p > 0:
            row = FILTERS[name](row, request.params, profile, ascending)
    return row
