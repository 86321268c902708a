"""The report of a check of a user's own oracle, model or penalty."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(repr=False)
class Report:
    """Result of `check_oracle` and `check_penalty`; true if no rule is broken.

    Attributes
    ----------
    rules : list of str
        Rules that were tried.
    findings : list of str
        One sentence for each broken rule: its name, the place, the value found and the value expected.
    """

    rules: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        if self:
            return "\n  ".join([f"valid: {len(self.rules)} rules hold", *self.rules])
        return "\n".join(f"broken: {finding}" for finding in self.findings)

    __repr__ = __str__
