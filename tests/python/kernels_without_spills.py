"""The kernels that were compiled before, for which compiler, and were found free of spills.

What a compiler makes of a text depends on nothing but the text, the options and the compiler's version. A digest of
these three is kept for each unit (the kernels of one file with the same constants) that was compiled without a
problem, so that a test compiles again only what has changed, and a part of the rest.

Run this file after a change of kernels: it compiles what is not in the record, prints what is wrong, and writes the
record.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

from weft import _weft, device

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_suffix(".txt")
HEADER = "# By kernels_without_spills.py: architecture, file, and digests of the units that compile without spills.\n"
LAUNCHED = _weft.device.launched_kernels()
ARCHITECTURES = ["sm_80", "sm_90", "sm_100", "gfx90a"]
COMPILERS = {"sm": "nvrtc", "gfx": "hiprtc"}
RUN = "sm_90"  # what the tests on machine code run
MACHINE_CODE = ROOT / "build/machine_code"  # their cache
CACHE = ROOT / "build/without_spills"


def compiler(architecture):
    """Whether a compiler for this architecture is available, and its name and version or why it is not."""
    return device.info()["compilers"][COMPILERS[architecture.rstrip("0123456789abcdef_")]]


def units(architecture):
    """The kernels of each file and its constants, and which of them are hot.

    Kernels of the architecture that the tests on machine code run are compiled as these do, which then need not be
    compiled again.
    """
    found, together = [], {}
    for file, name, defines, hot in LAUNCHED:
        constants = (file, *sorted(defines.items()))
        if architecture == RUN and "WEFT_N" in defines:
            found.append((constants, {name: hot}))
        else:
            together.setdefault(constants, {})[name] = hot
    return found + list(together.items())


def digest(unit, architecture):
    (file, *defines), kernels = unit
    key = _weft.device.compilation_key(file, list(kernels), dict(defines), architecture)
    return hashlib.sha256(f"{key}{sorted(kernels.items())}".encode()).hexdigest()[:16]


def recorded():
    """The digests of the record."""
    return {word for line in RECORD.read_text().splitlines() if line[0] != "#" for word in line.split()[2:]}


def compiled(unit, architecture):
    """Compiles kernels of one file with the same constants; of each its label, and what is wrong with it or None."""
    (file, *defines), kernels = unit
    labels = [f"{architecture} {file}.{name} " + " ".join(f"{k}={v}" for k, v in defines) for name in kernels]
    try:
        resources = _weft.device.compile_check(file, list(kernels), dict(defines), architecture)
    except RuntimeError as error:
        return [(label, str(error)) for label in labels]
    return list(zip(labels, map(problem, resources, kernels.values()), strict=True))


def problem(resources, hot):
    if hot and (resources["stack_bytes"] or resources["spill_bytes"]):
        return f"a stack of {resources['stack_bytes']} bytes, spills of {resources['spill_bytes']} bytes"
    return "no registers reported" if resources["registers"] <= 0 else None


def begin_cache():
    """Links what the tests on machine code have compiled into a cache of its own.

    In theirs, the images are for the driver made for tests, which does not load what is compiled here.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    for file in MACHINE_CODE.glob("*"):
        with suppress(FileExistsError, FileNotFoundError):  # linked before, or a new entry that was just renamed
            os.link(file, CACHE / file.name)


def use_cache():
    os.environ["WEFT_CACHE"] = str(CACHE)


def processes():
    begin_cache()
    # New processes: the MPI and OpenMP of this one do not survive a fork.
    return ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn"), initializer=use_cache)


def main():
    known = recorded() if RECORD.exists() else set()
    lines, wrong = defaultdict(list), []
    with processes() as pool:
        for architecture in ARCHITECTURES:
            if not compiler(architecture)["available"]:
                sys.exit(compiler(architecture)["reason"])
            every = {digest(unit, architecture): unit for unit in units(architecture)}
            new = [key for key in every if key not in known]
            results = pool.map(compiled, (every[key] for key in new), repeat(architecture))
            bad = {key: rows for key, rows in zip(new, results, strict=True) if any(found for _, found in rows)}
            wrong += [f"{label}: {found}" for rows in bad.values() for label, found in rows if found]
            for key in sorted(every.keys() - bad.keys()):
                lines[architecture, every[key][0][0]].append(key)
            print(f"{architecture}: {len(every)} units, {len(new)} compiled, {len(bad)} with a problem", flush=True)
    RECORD.write_text(HEADER + "".join(f"{a} {file} {' '.join(keys)}\n" for (a, file), keys in sorted(lines.items())))
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
