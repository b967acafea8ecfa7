"""The controls of how a model samples its answers: each is fixed to a value, or left to the agent."""

from typing import Annotated, Any, Literal

from pydantic import PlainValidator

from benchsite.lib.closed import Closed, custom

AGENT = "agent"


def _float(value: Any, most: float) -> float | Literal["agent"]:
    if value == AGENT and type(value) is str:
        return "agent"
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise custom("bad_profile.sampling", f"it is neither a number from 0 to {most:g} nor the word agent")
    return float(value)


def _integer(value: Any) -> int | Literal["agent"]:
    if value == AGENT and type(value) is str:
        return "agent"
    if type(value) is not int or not 0 <= value < 2**63:
        raise custom("bad_profile.sampling", "it is neither an integer of 0 or more (64 bits) nor the word agent")
    return value


class Sampling(Closed):
    """Every request of a run has the fixed values and no others; `agent` leaves a control to the agent."""

    temperature: Annotated[float | Literal["agent"], PlainValidator(lambda value: _float(value, 2))] = "agent"
    top_p: Annotated[float | Literal["agent"], PlainValidator(lambda value: _float(value, 1))] = "agent"
    seed: Annotated[int | Literal["agent"], PlainValidator(_integer)] = "agent"

    @property
    def fixed(self) -> dict[str, int | float]:
        """The controls that are fixed, by the names that a request gives them."""
        return {name: value for name, value in self if value != AGENT}
