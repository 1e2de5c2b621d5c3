"""What the checks found, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Status: TypeAlias = Literal["ok", "warning", "failed"]
STATUSES: Final[tuple[Status, ...]] = ("ok", "warning", "failed")
"""From best to worst."""


@frozen
class Finding:
    """What one check found. `owner` is `host` or a plugin's name, `fix` the way out or empty."""

    name: str
    owner: str
    status: Status
    detail: str
    fix: str = ""
    elapsed_ms: float = 0.0

    def to_json(self) -> Mapping[str, object]:
        return {
            "name": self.name,
            "owner": self.owner,
            "status": self.status,
            "detail": self.detail,
            "fix": self.fix,
            "ms": round(self.elapsed_ms, 1),
        }


@frozen
class Report:
    """All findings, the host's first, then the plugins' in plugin order."""

    findings: Sequence[Finding]

    @property
    def worst(self) -> Status:
        return max((f.status for f in self.findings), key=STATUSES.index, default="ok")

    @property
    def counts(self) -> Mapping[Status, int]:
        """How many findings there are of each status."""
        return {status: sum(f.status == status for f in self.findings) for status in STATUSES}

    @property
    def exit_code(self) -> int:
        """1 when something failed; a warning is for people, not for scripts."""
        return 1 if self.worst == "failed" else 0

    def to_json(self) -> Mapping[str, object]:
        return {
            "status": self.worst,
            "counts": self.counts,
            "checks": [finding.to_json() for finding in self.findings],
        }
