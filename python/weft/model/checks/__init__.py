"""Checks of the methods against the ledgers, one module and one import line per group."""

from __future__ import annotations

from weft.model.checks import dag, integration, link, ratio, replay, scaling, summary

__all__ = ["dag", "integration", "link", "ratio", "replay", "scaling", "summary"]
