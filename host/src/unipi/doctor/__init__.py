"""What `unipi doctor` looks at: the host's own checks and those of plugins, each in bounds."""

from __future__ import annotations

from .report import Finding as Finding, Report as Report
from .run import examine as examine
