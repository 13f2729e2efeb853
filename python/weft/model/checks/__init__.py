"""Checks of the methods against the ledgers: one module a group, one import line each."""

from __future__ import annotations

from weft.model.checks import integration, link, ratio, scaling, summary

__all__ = ["integration", "link", "ratio", "scaling", "summary"]
