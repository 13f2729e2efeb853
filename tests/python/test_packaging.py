"""The completeness of a clone: entry points, package data, declared dependencies, and checks of the set-up."""

import ast
import os
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from mpi_run import SECONDS

import weft

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_the_same_in_package_project_and_cmake() -> None:
    assert weft.__version__ == PROJECT["version"]
    assert f"project(weft VERSION {weft.__version__} " in (ROOT / "CMakeLists.txt").read_text()


def test_the_installed_package_has_its_case_files() -> None:
    names = {f.name for f in (resources.files("weft.cases") / "files" / "poisson").iterdir()}
    assert names == {f.name for f in (ROOT / "python/weft/cases/files/poisson").glob("*.toml")} != set()


def test_the_installed_package_has_the_ledgers_of_published_figures() -> None:
    names = {f.name for f in (resources.files("weft.model") / "ledgers").iterdir()}
    assert names == {"gpu-integration.json", "scaling.json"}


def test_importing_weft_starts_neither_mpi_nor_the_extension() -> None:
    code = "import sys, weft; print([m for m in ('mpi4py', 'numpy', 'weft._weft') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout.strip() == "[]"


def test_public_names_load_and_others_say_so() -> None:
    for name in weft.__all__:
        assert getattr(weft, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Mush'"):
        _ = weft.Mush  # type: ignore[attr-defined]


def test_every_package_that_weft_imports_is_a_declared_dependency() -> None:
    declared = {d.split(">")[0].split("=")[0].strip().lower() for d in PROJECT["dependencies"]}
    # Packages whose modules have another name.
    declared = declared - {"nvidia-ml-py", "tomli-w", "protobuf"} | {"pynvml", "tomli_w", "google"}
    own = {"mpl_toolkits": "matplotlib"}  # packages that come with another
    optional = {"cupy"}  # arrays on a GPU, where the user has it
    optional |= {"imageio_ffmpeg"}  # the extra weft[movie]
    optional |= {"otf2", "_otf2"}  # the extra weft[otf2]: no wheel for every system
    imported = set()
    for path in (ROOT / "python").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported.add(node.module.split(".")[0])
    foreign = {own.get(name, name) for name in imported if name not in sys.stdlib_module_names} - {"weft"} - optional
    assert foreign - declared == set()
    opened = {"mkl", "pyfftw"}  # by the extension, not by Python
    assert declared - foreign - opened == set(), "declared but used nowhere"


def test_a_wheel_uses_the_extension_that_fits_the_processor(monkeypatch, tmp_path) -> None:
    v4 = "flags\t\t: fpu avx2 avx512f avx512bw avx512cd avx512dq avx512vl\n"
    (tmp_path / "avx512").mkdir()
    monkeypatch.setattr(weft, "__file__", str(tmp_path / "__init__.py"))
    for processor, switch, expected in [(v4, "", ["avx512"]), (v4, "off", []), ("flags : fpu avx2 avx512f\n", "", [])]:
        monkeypatch.setenv("WEFT_AVX512", switch)
        (tmp_path / "cpuinfo").write_text(f"processor : 0\n{processor}")
        monkeypatch.setattr(weft, "_PROCESSORS", tmp_path / "cpuinfo")
        assert [Path(folder).name for folder in weft._extension_for_avx512()] == expected
    monkeypatch.setattr(weft, "__file__", str(tmp_path / "other" / "__init__.py"))
    assert weft._extension_for_avx512() == []


def setup(stage: str, path: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path, "VENV": ".venv", "PYTHON": sys.executable}
    return subprocess.run(
        [str(ROOT / "cmake/setup.sh"), stage], env=environment, capture_output=True, text=True, timeout=SECONDS
    )


def test_the_set_up_believes_the_mpi_that_these_tests_run_on() -> None:
    assert setup("mpi_works", os.environ["PATH"]).returncode == 0


def test_the_set_up_does_not_believe_an_mpicxx_that_makes_nothing(tmp_path) -> None:
    for name in ("mpicxx", "mpiexec"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    assert setup("mpi_works", f"{tmp_path}:/usr/bin:/bin").returncode != 0


def test_the_set_up_does_not_believe_a_launcher_that_starts_one_rank(tmp_path) -> None:
    launcher = tmp_path / "mpiexec"
    launcher.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    launcher.chmod(0o755)
    assert setup("mpi_works", f"{tmp_path}:{os.environ['PATH']}").returncode != 0


def test_make_run_and_make_test_are_targets_and_ci_calls_one() -> None:
    done = subprocess.run(["make", "-n", "clean"], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert "rm -rf build" in done.stdout
    makefile = (ROOT / "Makefile").read_text()
    for target in ("run:", "test:"):
        assert f"\n{target}" in makefile
    assert (ROOT / ".ci/run").read_text().strip().endswith("exec make test")
    assert os.access(ROOT / ".ci/run", os.X_OK)
