"""UCX's hooks into the memory functions: none where no device needs them, and what the user says elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.run import memory_hooks
from weft.run.memory_hooks import MODE, for_other_nodes, skip_hooks


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node whose RDMA devices are the files of a folder, and a process that has chosen nothing yet."""
    monkeypatch.setattr(memory_hooks, "RDMA_DEVICES", tmp_path / "infiniband")
    monkeypatch.setattr(memory_hooks, "_chosen_here", False)
    monkeypatch.setenv(MODE, "")  # so that it is put back afterwards
    monkeypatch.delenv(MODE)
    return tmp_path / "infiniband"


def test_a_node_without_rdma_devices_has_no_hooks_and_passes_that_to_no_other_node(node: Path) -> None:
    skip_hooks()
    assert os.environ[MODE] == "none"
    assert MODE not in for_other_nodes()
    assert for_other_nodes()["PATH"] == os.environ["PATH"]


def test_a_node_with_an_rdma_device_keeps_the_hooks(node: Path) -> None:
    (node / "mlx5_0").mkdir(parents=True)
    skip_hooks()
    assert MODE not in os.environ


def test_what_the_user_chose_holds_here_and_on_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODE, "reloc")
    skip_hooks()
    assert os.environ[MODE] == for_other_nodes()[MODE] == "reloc"
