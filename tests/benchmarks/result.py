"""The one JSON line that every benchmark ends with: name, value, unit, target, holds."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """One measured number against its target; the value holds when it is at most the target."""

    name: str
    value: float
    unit: str
    target: float

    @property
    def line(self) -> str:
        holds = self.value <= self.target
        return json.dumps({**asdict(self), "value": round(self.value, 4), "holds": holds})
