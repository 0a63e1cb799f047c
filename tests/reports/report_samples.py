"""Runs as the suite writes them, for the tests of the pages: real statistics of simulated draws."""

import itertools

import numpy as np
from scipy import stats

from aliquot.reports.results import (
    BackendInfo,
    CheckResult,
    ClauseInfo,
    Finding,
    Frequencies,
    KnownFailure,
    RunResults,
    Statistic,
    Verdict,
)

GROUPS = {
    "IO": (
        "input and output",
        ("Logits are a matrix of rows", "Token ids are int64", "Any row stride"),
    ),
    "GREEDY": (
        "greedy rows",
        ("Greedy is the argmax", "Lowest id among equals", "Filters are off"),
    ),
    "PEN": (
        "penalties",
        ("Repetition divides", "Frequency per count", "Presence once", "Prompt apart"),
    ),
    "TOPK": ("top-k", ("k largest logits stay", "k = 0 is off", "Ties at the k-th all stay")),
    "TOPP": ("top-p", ("Smallest set that reaches p", "The crossing token stays", "After top-k")),
    "LAW": ("the law of a draw", ("Draws follow the softmax", "Rows are independent")),
    "LOGP": ("logprobs", ("Raw before penalties", "Ranks from 1", "Sampled id first")),
}
TEXTS = {
    "TOPK03": "Every token whose logit equals the k-th largest stays, however many there are.",
    "TOPP02": "The token whose mass makes the sum reach p belongs to the nucleus.",
    "LAW01": "The law of a row is the softmax of its logits after the filters.",
}
DRAWS = 20_000
ALPHA = 1e-6


def clauses() -> tuple[ClauseInfo, ...]:
    """The clauses that the sample checks test, in groups."""
    return tuple(
        ClauseInfo(
            id=f"{prefix}{number:02}",
            group=group,
            title=title,
            text=TEXTS.get(f"{prefix}{number:02}", f"{title}, for every row and dtype."),
            level="must",
        )
        for prefix, (group, titles) in GROUPS.items()
        for number, title in enumerate(titles, start=1)
    )


def run(checks: list[CheckResult]) -> RunResults:
    """A run of the sample backend that ended in `checks`."""
    return RunResults(
        aliquot="0.1.0",
        backend=BackendInfo(
            name="fast",
            version="0.1.0",
            device="cpu",
            dtypes=("float32", "bfloat16", "float16"),
            accuracy="pairwise",
            noise="replayable",
            parameters=("temperature", "top_k", "top_p", "min_p", "logit_bias", "min_tokens"),
            freedoms={"id_dtype": "int64", "top_k_ties": "all kept", "top_p_ties": "all kept"},
        ),
        tier="pr",
        seed=1,
        alpha=ALPHA,
        environment={"numpy": "2.3.0", "python": "3.11.2", "torch": "2.13.0"},
        clauses=clauses(),
        checks=tuple(sorted(checks, key=lambda check: check.id)),
    )


def exact(clause: str, case: str, verdict: Verdict = Verdict.PASS, **more: object) -> CheckResult:
    """An exact check of one clause."""
    prefix = clause.rstrip("0123456789")
    fields = {
        "id": f"{prefix.lower()}/{clause}/{case}".replace(" ", "-"),
        "clauses": (clause,),
        "group": GROUPS.get(prefix, ("other", ()))[0],
        "title": "ids equal the oracle's",
        "case": case,
        "evidence": "exact",
        "verdict": verdict,
        "reason": "64 of 64 rows agree"
        if verdict is Verdict.PASS
        else "see the reason of the case",
    }
    return CheckResult(**{**fields, **more})  # type: ignore[arg-type]


def drawn(clause: str, case: str, seed: int, skew: float = 0.0, cells: int = 12) -> CheckResult:
    """A chi-square check of simulated draws; `skew` moves mass to the first cell and makes it fail."""
    rng = np.random.default_rng(seed)
    law = np.sort(rng.dirichlet(np.full(cells, 0.8)))[::-1] + 0.002
    law /= law.sum()
    faulty = law * (1 - skew)
    faulty[0] += skew
    counts = rng.multinomial(DRAWS, faulty)
    test = stats.chisquare(counts, law * DRAWS)
    p_value, failed = float(test.pvalue), test.pvalue < 1e-8
    shift = float(np.abs(counts / DRAWS - law).sum() / 2)
    return exact(
        clause,
        case,
        Verdict.FAIL if failed else Verdict.PASS,
        title="draws follow the oracle's law",
        evidence="statistical",
        alpha=1e-8,
        reason=f"p = {p_value:.3g} in {DRAWS} draws",
        statistics=(
            Statistic(
                method="chi-square, pooled",
                draws=DRAWS,
                alpha=1e-8,
                p_value=p_value,
                mde_tv=0.0312,
                cells=cells,
                pooled="49,140 cells below 5 expected in one",
            ),
            Statistic(
                method="e-process", draws=DRAWS, alpha=1e-8, log10_e=-0.41, mde_tv=0.02, gates=False
            ),
        ),
        frequencies=Frequencies(
            title=f"temperature 0.8, {case}",
            labels=tuple(str(int(token)) for token in rng.integers(0, 49152, cells)),
            expected=tuple(law.tolist()),
            drawn=tuple(counts.tolist()),
        ),
        finding=law_finding(shift, clause, case) if failed else None,
    )


def replayed(draws: int) -> Statistic:
    """A replay: it decides without chance, and finds the smallest effects."""
    return Statistic(method="replay, gumbel", draws=draws, alpha=0.0, p_value=1.0, mde_tv=0.00098)


def law_finding(shift: float, clause: str, case: str) -> Finding:
    """The finding of a law that differs by `shift` in total variation."""
    return Finding(
        witness={
            "row": "smollm2-decode/17",
            "params": {"temperature": 0.8, "top_p": 0.9, "seed": 1},
            "token": 504,
        },
        wanted="token 504 in 31.2 % of draws",
        got="token 504 in 34.9 % of draws",
        effect=f"total variation {shift:.4f}",
        likely_cause="top-p is applied before the temperature",
        reproduce=f"aliquot run --backend fast --tier pr --seed 1 --only {clause}/{case}",
    )


def ties_finding(case: str) -> Finding:
    """The finding of a top-k that keeps k of the tied tokens."""
    return Finding(
        witness={"logits": [1.0, 2.0, 3.0, 3.0, 3.0], "params": {"top_k": 2}, "kept": [2, 3]},
        wanted="support {2, 3, 4}: three logits equal the 2nd largest",
        got="support {2, 3}: token 4 is never drawn",
        effect="1 token of 3 lost, total variation 0.3333",
        likely_cause="exactly k are kept, ties cut by lowest id",
        reproduce=f"aliquot run --backend fast --tier pr --seed 1 --only topk/TOPK03/{case}",
    )


def passing_run() -> RunResults:
    """A run in which nothing failed, with every milder verdict."""
    return run(_checks())


def failing_run() -> RunResults:
    """A run with five failed checks in three sets of clauses."""
    failed = [
        exact(
            "TOPK03",
            case,
            Verdict.FAIL,
            title="support equals the oracle's",
            reason="1 token of the must-set was never drawn",
            finding=ties_finding(case),
        )
        for case in ("crafted-ties", "bf16-row-3", "bf16-row-11")
    ]
    faults = [
        drawn("LAW01", "decode-17", seed=3, skew=0.05),
        drawn("TOPP02", "decode-4", seed=8, skew=0.1),
    ]
    return run([*_checks(), *failed, *faults])


def known_run() -> RunResults:
    """A run that is green because its two failures are known."""
    known = KnownFailure(
        entry="clause TOPK03",
        reason="ties are cut by position",
        link="https://example.org/issues/7",
        expires="2030-12-31",
    )
    failed = [
        exact(
            "TOPK03",
            case,
            Verdict.KNOWN,
            reason="known until 2030-12-31: ties are cut by position; 1 token was never drawn",
            finding=ties_finding(case),
            known=known,
        )
        for case in ("bf16-row-3", "bf16-row-11")
    ]
    return run([*_checks(), *failed])


def crashed_run() -> RunResults:
    """A run in which the sampler hung once and crashed once."""
    ended = {
        "hang": ("no answer within 60 s in sample", [0.0, 1.0, 2.0]),
        "crash": ("the process ended in sample: Segmentation fault", [3.0, 3.0]),
    }
    checks = [
        exact(
            "TOPK03",
            case,
            Verdict.FAIL,
            clauses=("ERR18",),
            title="No crash",
            reason=f"wanted an answer or an exception, got {got}",
            finding=Finding(
                witness={"case": case, "call": "sample", "logits": logits, "params": {"top_k": 2}},
                wanted="an answer or an exception",
                got=got,
                reproduce=f"aliquot run --backend fast --tier pr --seed 1 --only {case}",
            ),
        )
        for case, (got, logits) in ended.items()
    ]
    return run([*_checks(), *checks])


def error_run() -> RunResults:
    """A run in which every check ended in ERROR."""
    reason = "RuntimeError: sample() raised: no kernel for float16 on this device"
    return run([exact(clause.id, "row-1", Verdict.ERROR, reason=reason) for clause in clauses()])


def empty_run() -> RunResults:
    """A run without a check."""
    return run([])


def huge_run(size: int = 5_000, failed: int = 40) -> RunResults:
    """A run of `size` checks over all clauses, half of them statistical, with `failed` failures."""
    ids = itertools.cycle([clause.id for clause in clauses()])
    patterns = [drawn("LAW01", f"pattern-{seed}", seed) for seed in range(40)]
    rng = np.random.default_rng(7)
    checks = []
    for number, clause in zip(range(size), ids, strict=False):
        case = f"smollm2-row-{number:04}-t0.8-p0.95"
        if number < failed:
            checks.append(exact(clause, case, Verdict.FAIL, finding=ties_finding(case)))
        elif number % 2:
            checks.append(exact(clause, case))
        else:
            p_value = float(rng.uniform())
            base = patterns[number % len(patterns)]
            figures = Statistic(
                method="chi-square, pooled", draws=DRAWS, alpha=4e-10, p_value=p_value, cells=12
            )
            reason = f"p = {p_value:.3g} in {DRAWS} draws"
            checks.append(
                exact(
                    clause,
                    case,
                    reason=reason,
                    statistics=(figures,),
                    frequencies=base.frequencies,
                    evidence="statistical",
                )
            )
    return run(checks)


def hostile_run() -> RunResults:
    """A run whose every string tries to leave its place in HTML, XML, JSON, SVG and Markdown."""
    nasty = HOSTILE
    check = exact(
        "TOPK03",
        "hostile",
        Verdict.FAIL,
        id=f"a{nasty}",
        clauses=(f"X{nasty}", "TOPK03"),
        group=nasty,
        title=nasty,
        reason=nasty,
        evidence=nasty,
        finding=Finding(
            witness={nasty: nasty, "nested": {nasty: [nasty]}},
            wanted=nasty,
            got=nasty,
            effect=nasty,
            likely_cause=nasty,
            reproduce=nasty,
        ),
        statistics=(Statistic(method=nasty, draws=1, alpha=1e-9, p_value=0.0, pooled=nasty),),
        frequencies=Frequencies(
            title=nasty, labels=(nasty, "<b>"), expected=(0.5, 0.5), drawn=(3, 97)
        ),
    )
    return run([check, exact("TOPK03", "other", Verdict.ERROR, id="b", reason=nasty)])


HOSTILE = (
    "</script><script>window.hit=1</script><img src=http://127.0.0.1:9/x onerror=window.hit=1>"
    "]]>--><!--&amp;\"'`|*_\x00\x1b[31m\ud800\uffff$x_1$\u202e{{ 7*7 }}#010105"
)


def _checks() -> list[CheckResult]:
    checks = [
        exact(clause.id, f"row-{number}-{dtype}")
        for clause in clauses()
        if clause.id != "LOGP03"
        for number in (1, 2, 3, 4)
        for dtype in ("float32", "bfloat16")
    ]
    checks += [
        drawn(clause, f"row-{row}", seed=100 * number + row, cells=4 + (7 * number + row) % 30)
        for number, clause in enumerate(("LAW01", "LAW02", "TOPP01", "TOPP02", "TOPK01"))
        for row in range(8)
    ]
    reason = "the backend does not declare bad_words"
    checks.append(exact("PEN04", "bad-words", Verdict.UNSUPPORTED, reason=reason))
    reason = "token 812 lies inside the rounding band at p = 0.9"
    checks.append(exact("TOPP01", "edge", Verdict.UNDECIDED, evidence="band", reason=reason))
    reason = "ties at the nucleus edge are cut by position, as declared"
    checks.append(exact("TOPP03", "ties", Verdict.DIVERGES, reason=reason))
    return checks
