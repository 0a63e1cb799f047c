"""The freedoms: where real samplers differ without being wrong, and which choice a backend declares."""

from dataclasses import asdict, dataclass, fields


class ProfileError(ValueError):
    """A choice that the freedom does not offer."""


@dataclass(frozen=True)
class Freedom:
    """One freedom: its field in Profile, what it is about, and its choices, the canonical one first."""

    name: str
    about: str
    choices: tuple[str, ...]


FREEDOMS = (
    Freedom("topk_ties", "ties at the k-th logit",
            ("keep_all", "lowest_ids", "highest_ids", "any_ids")),
    Freedom("topp_ties", "ties at the nucleus edge",
            ("keep_all", "lowest_ids", "highest_ids", "any_ids")),
    Freedom("topp_exact", "nucleus when the mass reaches p exactly", ("stop", "one_more")),
    Freedom("filter_order", "top-k and top-p together", ("sequential", "joint")),
    Freedom("temperature_order", "temperature and the filters", ("before", "after")),
    Freedom("topk_off", "top_k of 0, -1 or above V", ("off", "error")),
    Freedom("minp_order", "place of min-p",
            ("after_temperature", "after_filters", "before_temperature")),
    Freedom("greedy_ties", "greedy among equal maxima", ("lowest_id", "any_maximum")),
    Freedom("logprobs", "default logprobs", ("raw", "processed")),
    Freedom("id_dtype", "dtype of token ids", ("int64", "int32")),
    Freedom("bad_row", "a row with NaN, +inf or nothing but -inf",
            ("error", "invalid_mark", "any_valid_id")),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A backend's declared choices; the defaults are the canonical profile.

    `temperature_floor` is the temperature to which smaller ones between 1e-5 and 0.01 are raised, 0
    for none. With `any_ids` the number of kept tokens is fixed and which of the tied ones stay is
    not. Raises ProfileError for an unknown choice.
    """

    topk_ties: str = "keep_all"
    topp_ties: str = "keep_all"
    topp_exact: str = "stop"
    filter_order: str = "sequential"
    temperature_order: str = "before"
    topk_off: str = "off"
    minp_order: str = "after_temperature"
    greedy_ties: str = "lowest_id"
    logprobs: str = "raw"
    id_dtype: str = "int64"
    bad_row: str = "error"
    temperature_floor: float = 0.0

    def __post_init__(self) -> None:
        for freedom in FREEDOMS:
            choice = getattr(self, freedom.name)
            if choice not in freedom.choices:
                raise ProfileError(
                    f"profile: {freedom.name} is {choice!r}, allowed are {', '.join(freedom.choices)}"
                )
        if not 0 <= self.temperature_floor <= 0.01:
            raise ProfileError(
                f"profile: temperature_floor is {self.temperature_floor!r}, allowed is [0, 0.01]"
            )

    def as_dict(self) -> dict[str, str]:
        """Every freedom and the declared choice, as text."""
        return {name: str(value) for name, value in asdict(self).items()}

    def departures(self) -> dict[str, str]:
        """The choices that are not the canonical ones."""
        defaults = {f.name: f.default for f in fields(self)}
        return {k: v for k, v in self.as_dict().items() if v != str(defaults[k])}


CANONICAL = Profile()
