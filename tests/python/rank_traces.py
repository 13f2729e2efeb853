"""A run of several ranks as PyTorch's profiler records it: one file per rank, reduced to what its format needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

LATENCY, RATE = 100_000, 20e9  # ns, byte/s of the ring
BASE = 1_711_964_646_000_000_000  # ns since 1970 at which 'ts' is zero


def write_ranks(
    folder: Path,
    ranks: int = 4,
    steps: int = 12,
    skews: Sequence[int] = (),
    slow: int = -1,
    jitter: int = 2_000,
    lost: dict[int, tuple[int, int]] | None = None,
    sizes: Sequence[int] = (1 << 20, 1 << 22, 1 << 24),
    seed: int = 0,
    spread: int = 200_000,
    name: str = "rank-{}.json",
    world: int | None = None,
) -> list[Path]:
    """Writes a data-parallel run; returns its files.

    Each step of a rank computes on stream 7 and reduces on stream 20. The reduction takes LATENCY and the time of a
    ring with RATE from the arrival of the last rank. `skews` (ns) are the offsets of the clocks, `jitter` (ns) is the
    spread of the ends of a collective, `spread` (ns) that of the lengths of steps, `slow` the rank that computes 40 %
    longer, and `lost` the numbers of steps that a rank's file lacks at its beginning and end.
    """
    random = np.random.default_rng(seed)
    lengths = random.integers(700_000, 700_000 + spread, (steps, ranks))
    if slow >= 0:
        lengths[:, slow] = lengths[:, slow] * 14 // 10
    free = np.zeros(ranks, dtype=np.int64) + 1_000_000
    rows: list[list[tuple[int, str, str, int, int, int, dict[str, object]]]] = [[] for _ in range(ranks)]
    for step in range(steps):
        ready = free + 10_000 + lengths[step]
        size = sizes[step % len(sizes)]
        ended = ready.max() + LATENCY + round(2 * (ranks - 1) / ranks * size / RATE * 1e9)
        for r in range(ranks):
            compute, reduce, wait, sync = ({"correlation": 10 * step + k} for k in range(4))
            launch, end = int(free[r]), int(ended + random.integers(0, jitter + 1))
            group = {"Collective name": "allreduce", "In msg nelems": size // 4, "dtype": "Float",
                     "Group size": ranks, "Process Group Name": "0",
                     "Process Group Ranks": str([*range(ranks)])}  # fmt: skip
            rows[r] += [
                (step, "cuda_runtime", "cudaLaunchKernel", 4000 + r, launch, 5_000, compute),
                (step, "kernel", "gemm", 7, launch + 10_000, int(lengths[step, r]), compute),
                (step, "cuda_runtime", "cudaStreamWaitEvent", 4000 + r, launch + 5_200, 500, wait),
                (step, "cuda_runtime", "cudaLaunchKernelExC", 4000 + r, launch + 6_000, 4_000, reduce),
                (step, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20,
                 int(ready[r]), end - int(ready[r]), {**reduce, **group}),
                (step, "cuda_runtime", "cudaStreamSynchronize", 4000 + r, launch + 20_000, end - launch - 18_000,
                 sync),
            ]  # fmt: skip
            free[r] = end + 12_000
    files = []
    for r in range(ranks):
        skew = skews[r] if len(skews) else 0
        first, last = (lost or {}).get(r, (0, 0))
        events = [
            {"ph": "X", "cat": cat, "name": what, "pid": 0 if cat == "kernel" else 4000 + r, "tid": tid,
             "ts": round((start + skew + 10**12) / 1000, 3), "dur": length / 1000,
             "args": {**args, **({"device": 0, "stream": tid} if cat == "kernel" else {})}}
            for step, cat, what, tid, start, length, args in rows[r] if first <= step < steps - last
        ]  # fmt: skip
        info = {"backend": "nccl", "rank": r, "world_size": ranks if world is None else world}
        header = {"schemaVersion": 1, "distributedInfo": info, "baseTimeNanoseconds": BASE, "traceEvents": events}
        files.append(folder / name.format(r))
        files[-1].write_text(json.dumps(header))
    return files


def write_exchanges(
    folder: Path, ranks: int = 4, steps: int = 8, sizes: Sequence[int] = (1 << 20, 1 << 24), single: bool = False
) -> None:
    """Writes a run whose steps compute and then exchange messages with both neighbours in a ring.

    The exchange is one kernel of NCCL, as PyTorch's `batch_isend_irecv` records it: operators name the messages, but
    the kernel does not. It ends LATENCY and the time of one message after the last of the three kernels has started.
    With `single`, each rank sends to the next rank in one kernel and receives from the previous one in another, and
    the arguments of these kernels name the message.
    """
    random = np.random.default_rng(0)
    lengths = random.integers(700_000, 900_000, (steps, ranks))
    lengths[:, 1] += 300_000
    free = np.full(ranks, 1_000_000, dtype=np.int64)
    events: list[list[dict[str, object]]] = [[] for _ in range(ranks)]

    def add(rank: int, cat: str, name: str, tid: int, start: int, length: int, **args: object) -> None:
        pid = 0 if cat == "kernel" else 4000 + rank
        events[rank].append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start / 1000,
                             "dur": length / 1000, "args": args})  # fmt: skip

    kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    for step in range(steps):
        ready, size = free + 10_000 + lengths[step], sizes[step % len(sizes)]
        for r in range(ranks):
            near = [(r - 1) % ranks, (r + 1) % ranks]
            last = max(int(ready[k]) for k in (r, *near))
            end = last + LATENCY + round(size / RATE * 1e9)
            at, who, link = int(free[r]), 4000 + r, 10 * step
            add(r, "cuda_runtime", "cudaLaunchKernel", who, at, 5_000, correlation=link)
            add(r, "kernel", "gemm", 7, at + 10_000, int(lengths[step, r]), correlation=link)
            add(r, "cuda_runtime", "cudaStreamWaitEvent", who, at + 5_200, 500, correlation=link + 1)
            group = {"In msg nelems": size // 4, "dtype": "Float", "Process Group Name": "0",
                     "Process Group Ranks": str([*range(ranks)])}  # fmt: skip
            said = [{"Collective name": "send", "Dst Rank": k, **group} for k in near]
            said += [{"Collective name": "recv", "Src Rank": k, **group} for k in near]
            if single:
                for k, args in enumerate((said[1], said[2])):
                    add(r, "cuda_runtime", "cudaLaunchKernelExC", who, at + 7_000 + 1_000 * k, 500,
                        correlation=link + 2 + k)  # fmt: skip
                    until = int(max(ready[r], ready[near[1 - k]])) + end - last
                    add(r, "kernel", kernel, 20 + k, int(ready[r]), until - int(ready[r]), correlation=link + 2 + k,
                        **args)  # fmt: skip
            else:
                for k, args in enumerate(said):
                    add(r, "cpu_op", "record_param_comms", who, at + 6_000 + 200 * k, 100, **args)
                add(r, "cuda_runtime", "cudaLaunchKernelExC", who, at + 7_000, 4_000, correlation=link + 2)
                add(r, "kernel", kernel, 20, int(ready[r]), end - int(ready[r]), correlation=link + 2)
            add(r, "cuda_runtime", "cudaDeviceSynchronize", who, at + 12_000, end + 2_000 - at - 12_000,
                correlation=link + 5)  # fmt: skip
            free[r] = end + 14_000
    for r in range(ranks):
        info = {"backend": "nccl", "rank": r, "world_size": ranks}
        header = {"schemaVersion": 1, "distributedInfo": info, "baseTimeNanoseconds": BASE, "traceEvents": events[r]}
        (folder / f"rank-{r}.json").write_text(json.dumps(header))
