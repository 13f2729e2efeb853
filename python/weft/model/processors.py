"""The processors whose instruction limits weft knows: instructions per cycle and core, each with its source.

If a rate depends on the form of an instruction, the most favourable form is used, because a limit must not be exceeded.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

LLVM = "LLVM 22, llvm/lib/Target/X86/X86Sched*.td (from uops.info), by llvm-mca"
OSACA = "OSACA 0.7 (RRZE), osaca/data"
INTEL = "Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 2"


@dataclass(frozen=True)
class Core:
    """A core with vectors of one width: instructions per cycle, and cycles per slow instruction.

    `slots`: instructions that enter per cycle; a comparison and its jump count as one. `operations`: all vector
    operations; `products`: multiply-adds and products; `additions`; `shuffles`. `division`, `gather`, `scatter`:
    cycles between such instructions on vectors of doubles; `gather_slots`, `scatter_slots`: slots that they take.
    """

    title: str
    vectors: str  # avx512 or avx2
    slots: float
    operations: float
    products: float
    additions: float
    shuffles: float
    loads: float
    stores: float
    division: float
    gather: float
    gather_slots: float
    source: str
    scatter: float = 0.0  # AVX2 has none
    scatter_slots: float = 0.0


CORES = (
    Core("Skylake-SP", "avx512", 4, 2, 2, 2, 1, 2, 1, 16, 4, 5, f"{INTEL}; {LLVM}", 8, 19),
    Core("Skylake-SP", "avx2", 4, 3, 2, 2, 1, 2, 1, 8, 2, 5, f"{INTEL}; {LLVM}"),
    Core("Ice Lake-SP", "avx512", 5, 2, 2, 2, 1, 2, 1, 16, 6, 5, f"{INTEL}; {LLVM}; gather: {OSACA}/icx.yml", 7, 19),
    Core("Ice Lake-SP", "avx2", 5, 3, 2, 2, 1, 2, 2, 8, 3, 5, f"{INTEL}; {LLVM}; gather: {OSACA}/icx.yml"),
    # Emerald and Granite Rapids have the same core. Gathers, scatters and divisions were measured there: 3.2, 7.9 and
    # 19 cycles for 8 doubles, 2.1 and 7.8 for a gather and a division of 4.
    Core("Sapphire Rapids", "avx512", 6, 2, 2, 2, 1, 2, 1, 16, 3, 11, f"{INTEL}; {LLVM}; {OSACA}/spr.yml", 7, 19),
    Core("Sapphire Rapids", "avx2", 6, 3, 2, 2, 1, 3, 2, 8, 2, 8, f"{INTEL}; {LLVM}; {OSACA}/spr.yml"),
    Core("Zen 3", "avx2", 6, 4, 2, 2, 2, 2, 1, 4.5, 4, 14, f"{LLVM}; {OSACA}/zen3.yml"),
    # 512 bits take two cycles of units of 256. Scatter: the stores of eight values.
    Core("Zen 4", "avx512", 6, 2, 1, 1, 1, 2, 1, 9, 11, 48, f"{LLVM}; {OSACA}/zen4.yml", 8, 19),
    Core("Zen 4", "avx2", 6, 4, 2, 2, 2, 2, 1, 5, 4, 24, f"{LLVM}; {OSACA}/zen4.yml"),
    # Slots of gathers and scatters: as Zen 4's.
    Core("Zen 5", "avx512", 8, 4, 2, 2, 2, 2, 1, 4, 15, 48, f"AMD publication 58455; {OSACA}/zen5.yml", 9, 19),
    Core("Zen 5", "avx2", 8, 4, 2, 2, 2, 2, 2, 4, 6, 24, f"AMD publication 58455; {OSACA}/zen5.yml"),
    Core("generic", "avx512", 4, 2, 2, 2, 1, 2, 1, 16, 4, 5, "as Skylake-SP", 8, 19),
    Core("generic", "avx2", 4, 3, 2, 2, 1, 2, 1, 8, 2, 5, "as Skylake-SP"),
)


def core(title: str, vectors: str) -> Core | None:
    """The core of a processor for code with these vectors (`Device.architecture`); None if weft has no figures."""
    return next((c for c in CORES if c.title in (title, "generic") and c.vectors == vectors), None)


@functools.cache
def microarchitecture(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The name of the processor's cores in `CORES`; "generic" if they are not known."""
    try:
        text = cpuinfo.read_text().split("\n\n")[0]
    except OSError:
        return "generic"
    found = dict(re.findall(r"^(\S[^\t]*?)\s*: (.*)$", text, re.MULTILINE))
    flags = set(found.get("flags", "").split())
    if found.get("vendor_id") == "AuthenticAMD":
        family = int(found.get("cpu family", "0"))
        if family >= 26:
            return "Zen 5"
        return "Zen 4" if "avx512f" in flags else "Zen 3" if family >= 23 else "generic"
    if found.get("vendor_id") == "GenuineIntel" and "avx512f" in flags:
        return "Sapphire Rapids" if "amx_tile" in flags else "Ice Lake-SP" if "avx512_vbmi2" in flags else "Skylake-SP"
    return "generic"
