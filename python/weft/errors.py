"""Errors that more than one floor must know. This module needs nothing, so that the command line starts fast."""

from __future__ import annotations


class CaseError(ValueError):
    """A case that cannot be run; the text says which key is wrong and what is allowed."""
