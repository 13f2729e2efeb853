"""CUDA's libraries in packages of Python: found in every folder that Python imports from, unless the user chose one."""

from __future__ import annotations

import os
import sys

import pytest

from weft import cuda_wheels


@pytest.fixture
def environments(tmp_path, monkeypatch):
    """Two folders of packages, as where an environment builds on the packages of another."""
    folders = []
    for name, package in (("own", "cuda_nvrtc"), ("below", "cu13")):
        folder = tmp_path / name / "nvidia" / package / "lib"
        folder.mkdir(parents=True)
        (folder / "libnvrtc.so.13").touch()
        folders.append(folder)
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(sys, "path", ["", *(str(tmp_path / name) for name in ("own", "empty", "below"))])
    monkeypatch.setattr(os, "environ", {})
    return folders


def test_libraries_of_all_folders_are_named_in_the_order_of_imports(environments):
    cuda_wheels.announce("WEFT_NVRTC", "libnvrtc")
    assert os.environ["WEFT_NVRTC"].split(":") == [str(folder) for folder in environments]


def test_what_the_user_chose_stays(environments):
    os.environ["WEFT_NVRTC"] = "/elsewhere"
    cuda_wheels.announce("WEFT_NVRTC", "libnvrtc")
    assert os.environ["WEFT_NVRTC"] == "/elsewhere"


def test_a_library_that_is_nowhere_sets_nothing(environments):
    cuda_wheels.announce("WEFT_CUFFT", "libcufft")
    assert "WEFT_CUFFT" not in os.environ
