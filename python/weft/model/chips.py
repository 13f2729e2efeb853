"""The GPUs that `weft model kernels` knows: rates and latencies of a multiprocessor, each with its source.

Rates are per clock and multiprocessor. Where no published measurement was found, the source names the substitute.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.formulas import Multiprocessor
from weft.model.result import ModelError

PROGRAMMING_GUIDE = "CUDA C++ Programming Guide, technical specifications per compute capability"
BENCHES = "github.com/te42kyfo/gpu-benches, commit 1c36d50"
AZURE = "github.com/Azure/AI-benchmarking-guide, BabelStream"
LATENCIES = "github.com/markdewing/AI_kernels, latency/README.md"
CHIPS_AND_CHEESE = "chipsandcheese.com, Nvidia's B200: Keeping the CUDA Juggernaut Rolling (2025)"
HOPPER_PAPER = "NVIDIA H100 white paper"
LUO = "Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, arXiv:2402.13499"
HIPBONE_SHARE = "810 of 900 GB/s on a V100, 8 reads : 1 write (hipBone, Fig. 3)"
# One block at a time: blocks of 32 threads that move 512 bytes each reach this rate however many there are.
BLOCKS_H200 = "gpu-small-kernels/h200_graph.txt: 851 GB/s in blocks of 512 bytes; 64 threads: 1701 GB/s in 1024 bytes"


@dataclass(frozen=True)
class Figure:
    """A number and its source."""

    value: float
    source: str


@dataclass(frozen=True)
class Chip:
    """An NVIDIA GPU: the rates and latencies that its multiprocessors see."""

    title: str
    clock: Figure  # Hz
    multiprocessors: Figure
    memory: Figure  # byte/s of the data sheet
    stream_share: Figure  # share of `memory` that a streaming kernel reaches
    l2: Figure  # byte/s between L2 and all multiprocessors
    l2_capacity: Figure  # bytes
    block_rate: Figure  # blocks per second that all multiprocessors together can begin
    fp64: Figure  # lanes
    fp64_matrix: Figure  # multiply-adds of matrix instructions
    fp32: Figure  # lanes
    integer: Figure  # lanes, other than multiply-adds
    special: Figure  # lanes
    global_latency: Figure  # clocks, unloaded
    l2_latency: Figure  # clocks, for prefetched data
    shared_latency: Figure  # clocks
    multiprocessor: Multiprocessor
    multiprocessor_source: str = PROGRAMMING_GUIDE

    @property
    def stream_rate(self) -> float:
        """The byte/s that a streaming kernel reaches."""
        return self.memory.value * self.stream_share.value

    def per_clock(self, rate: float) -> float:
        """A rate of the whole GPU in 1/s, per clock and multiprocessor."""
        return rate / (self.clock.value * self.multiprocessors.value)

    @property
    def peak_fp64(self) -> float:
        """FLOP/s in FP64, without tensor cores."""
        return 2 * self.fp64.value * self.multiprocessors.value * self.clock.value

    @property
    def peak_fp32(self) -> float:
        """FLOP/s in FP32, without tensor cores."""
        return 2 * self.fp32.value * self.multiprocessors.value * self.clock.value

    def figures(self) -> dict[str, Figure]:
        """All figures with a source, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Figure)}


def _hopper(title: str, memory: Figure, stream_share: Figure) -> Chip:
    clock = 1.98e9
    return Chip(
        title=title,
        clock=Figure(clock, "boost clock of the SXM5 board (nvidia-smi; NVIDIA H100 and H200 data sheets)"),
        multiprocessors=Figure(132, HOPPER_PAPER),
        memory=memory,
        stream_share=stream_share,
        l2=Figure(9.8e12, f"{BENCHES}, gpu-l2-cache/h200.txt: 9.7 to 9.9 TB/s from 10 to 40 MB"),
        l2_capacity=Figure(50e6, f"{HOPPER_PAPER}; {BENCHES}, gpu-l2-cache/h200.txt: its rate falls from 44 MB on"),
        block_rate=Figure(1.66e9, f"{BENCHES}, {BLOCKS_H200}"),
        fp64=Figure(64, HOPPER_PAPER),
        fp64_matrix=Figure(128, f"{HOPPER_PAPER}: 67 TFLOP/s FP64 by tensor cores"),
        fp32=Figure(128, HOPPER_PAPER),
        integer=Figure(64, HOPPER_PAPER),
        special=Figure(16, PROGRAMMING_GUIDE),
        # L2 265 clocks; memory 650 clocks at 1.755 GHz, so 219 ns beyond the L2, which do not scale with the clock.
        global_latency=Figure(265 + 219e-9 * clock, f"{BENCHES}, gpu-latency/h100_pcie.txt, at this clock"),
        l2_latency=Figure(265, f"{BENCHES}, gpu-latency/h100_pcie.txt"),
        shared_latency=Figure(29, LUO),
        multiprocessor=Multiprocessor(32, 256 * 1024, 8, 64, 32, 228 * 1024, reserved_shared_bytes=1024),
    )


CHIPS = {
    "a100": Chip(
        title="NVIDIA A100-SXM4-80GB",
        clock=Figure(1.41e9, "NVIDIA A100 white paper, boost clock"),
        multiprocessors=Figure(108, "NVIDIA A100 white paper"),
        memory=Figure(2.039e12, "NVIDIA A100 80GB data sheet"),
        stream_share=Figure(
            0.87, f"{BENCHES}, gpu-stream/a100_80.txt: 1769 GB/s read; {AZURE}: 1.70 TB/s triad to 1.75 TB/s dot"
        ),
        l2=Figure(5.4e12, f"{BENCHES}, gpu-l2-cache/a100_80.txt: 5.3 to 5.4 TB/s up to 26 MB"),
        l2_capacity=Figure(40e6, "NVIDIA A100 white paper"),
        block_rate=Figure(1.35e9, f"{BENCHES}, gpu-small-kernels/a100_80_graph.txt: 689 GB/s in blocks of 512 bytes"),
        fp64=Figure(32, "NVIDIA A100 white paper"),
        fp64_matrix=Figure(64, "NVIDIA A100 white paper: 19.5 TFLOP/s FP64 by tensor cores"),
        fp32=Figure(64, "NVIDIA A100 white paper"),
        integer=Figure(64, "NVIDIA A100 white paper"),
        special=Figure(16, PROGRAMMING_GUIDE),
        global_latency=Figure(570, f"{BENCHES}, gpu-latency/a100_80.txt: 570 clocks at 125 MB"),
        l2_latency=Figure(211, f"{BENCHES}, gpu-latency/a100_80.txt; code for this GPU does not prefetch"),
        shared_latency=Figure(29, LUO),
        multiprocessor=Multiprocessor(32, 256 * 1024, 8, 64, 32, 164 * 1024, reserved_shared_bytes=1024),
    ),
    "h100": _hopper(
        "NVIDIA H100 SXM5 80GB",
        Figure(3.35e12, "NVIDIA H100 data sheet"),
        Figure(0.9, f"{AZURE}: 2.97 TB/s triad to 3.18 TB/s dot, 0.89 to 0.95; {HIPBONE_SHARE}"),
    ),
    "h200": _hopper(
        "NVIDIA H200 SXM 141GB",
        Figure(4.8e12, "NVIDIA H200 data sheet"),
        Figure(0.9, f"{AZURE}: 4.15 TB/s triad to 4.48 TB/s dot, 0.86 to 0.93; {HIPBONE_SHARE}"),
    ),
    "b200": Chip(
        title="NVIDIA B200 180GB",
        clock=Figure(1.965e9, "boost clock reported by nvidia-smi"),
        multiprocessors=Figure(148, f"{CHIPS_AND_CHEESE}: 74 on each of two dies"),
        memory=Figure(8.0e12, "NVIDIA HGX B200 data sheet"),
        stream_share=Figure(0.9, f"not measured: {HIPBONE_SHARE}"),
        l2=Figure(9.8e12 * 148 / 132 * 1.965 / 1.98, "not measured: per multiprocessor and clock as the H200's"),
        l2_capacity=Figure(126e6, CHIPS_AND_CHEESE),
        block_rate=Figure(1.66e9, "not measured: as the H200's"),
        fp64=Figure(64, "NVIDIA HGX B200 data sheet: 37 TFLOP/s FP64 per GPU"),
        fp64_matrix=Figure(64, "NVIDIA HGX B200 data sheet: 37 TFLOP/s FP64 by tensor cores per GPU"),
        fp32=Figure(128, "NVIDIA HGX B200 data sheet: 75 TFLOP/s FP32 per GPU"),
        integer=Figure(64, "not measured: as the H200's"),
        special=Figure(16, PROGRAMMING_GUIDE),
        global_latency=Figure(860, LATENCIES),
        l2_latency=Figure(295, LATENCIES),
        shared_latency=Figure(29, "not measured: as the H200's"),
        multiprocessor=Multiprocessor(32, 256 * 1024, 8, 64, 32, 228 * 1024, reserved_shared_bytes=1024),
    ),
}


def load(name: str) -> Chip:
    """A GPU by its name. Raises ModelError for unknown names."""
    chip = CHIPS.get(name.lower())
    if chip is None:
        raise ModelError(f"unknown GPU '{name}'; known: {', '.join(CHIPS)}")
    return chip
