"""Short builders for the oracle's tests."""

import numpy as np

from aliquot.contract.batch import Batch, Request
from aliquot.contract.params import SamplingParams
from aliquot.oracle import pipeline

INF = float("inf")


def request(output=(), prompt=(), drafts=(), id="r", **params):
    """A request with the given parameters."""
    return Request(
        id=id,
        params=SamplingParams(**params),
        prompt_token_ids=prompt,
        output_token_ids=list(output),
        draft_token_ids=drafts,
    )


def batch(*requests, vocab_size, **fields):
    """A batch of requests."""
    return Batch(requests=requests, vocab_size=vocab_size, **fields)


def run(logits, *requests, profile=None, **fields):
    """The outcome of float64 rows; one row may be given without its outer list."""
    rows = np.atleast_2d(np.asarray(logits, dtype=np.float64))
    options = {} if profile is None else {"profile": profile}
    return pipeline.run(rows, batch(*requests, vocab_size=rows.shape[1], **fields), **options)


def after(name, logits, *requests, **fields):
    """The rows directly after one step, as lists."""
    rows = np.atleast_2d(np.asarray(logits, dtype=np.float64))
    traced = pipeline.run(rows, batch(*requests, vocab_size=rows.shape[1], **fields), trace=True)
    return dict(traced.trace)[name].tolist()


def kept(logits, profile=None, **params):
    """The tokens that one row keeps after all steps."""
    return np.flatnonzero(
        run(logits, request(**params), profile=profile).filtered[0] > -INF
    ).tolist()
