"""Reader of JSON written by AMD's profilers.

`rocprof --hip-trace|--hsa-trace` writes Chrome trace events with their times in `args`, and `rocprofv3 --output-format
json` writes records by kind. The reader follows the profilers' documentation and published excerpts. It was tested with
a single real file, of rocprofv3 with kernels only.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from weft.errors import reason
from weft.traces import apis
from weft.traces.chrome import Event, Events, arguments, integer
from weft.traces.head import Head, open_text
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "JSON of rocprof or rocprofv3"

_CHUNK = 1 << 16
_SDK = "rocprofiler-sdk-tool"
_Record = dict[str, Any]  # as parsed: a record has nested objects, and every access to it is checked by `_read_sdk`
_CALLS = ("hip_api", "hsa_api", "rccl_api", "rocshmem_api")


def probe(head: Head) -> bool:
    text = head.text
    return head.is_json() and (f'"{_SDK}"' in text or ('"BeginNs"' in text and '"traceEvents"' in text))


def read(path: Path) -> Trace:
    """Reads runtime calls, kernels, copies and markers, with the recorded nanoseconds."""
    with open_text(path) as file:
        new = f'"{_SDK}"' in file.read(1 << 16)
    return _read_sdk(path) if new else _read_chrome(path)


def _read_chrome(path: Path) -> Trace:
    builder = Builder("rocprof", path)
    sections: dict[int, str] = {}  # Chrome's process -> 'CPU HIP API', 'GPU0', 'COPY' ...
    rows: list[tuple[int, ...]] = []
    for number, event in enumerate(Events(path, Event)):
        try:
            if event.get("ph") == "M" and event.get("name") == "process_name":
                sections[integer(event["pid"])] = str(arguments(event)["name"])
            elif event.get("ph") == "X" and "BeginNs" in arguments(event):
                rows.append(_chrome_row(builder, event, sections.get(integer(event["pid"]), "")))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path}: event {number} is not a rocprof event ({reason(error)})") from None
        if len(rows) == _CHUNK:
            _flush(builder, rows)
    _flush(builder, rows)
    return builder.build()


def _chrome_row(builder: Builder, event: Event, section: str) -> tuple[int, ...]:
    details, name = arguments(event), str(event["name"])
    start, end = _time(details["BeginNs"]), _time(details["EndNs"])
    process, thread = integer(details.get("pid"), 0), details.get("tid", event.get("tid", 0))
    size = re.search(r"\bsize(?:Bytes)?\((\d{1,15})\)|\bsizeBytes=(\d{1,15})", str(details.get("args", "")))
    moved = int(size[1] or size[2]) if size else -1
    if "GPU" in section:
        device = re.search(r"GPU\d+", section)
        queue = details.get("queue-id", details.get("stream-id", event.get("tid", 0)))
        label = f"{device[0] if device else 'GPU'} queue {queue}"
        line, category = builder.line(process, label, "stream"), _device_work(name)
    elif "COPY" in section:
        line, category = builder.line(process, f"copies {event.get('tid', 0)}", "stream"), _device_work(name or "copy")
    elif "HIP" in section or "HSA" in section or name.startswith(("hip", "hsa_")):
        line, category = builder.line(process, f"thread {thread}", "host"), apis.call(name)
        moved = moved if category == Category.copy else -1
    else:
        line, category = builder.line(process, f"thread {thread}", "host"), Category.cpu
    link = integer(details.get("correlation_id", details.get("corr-id")))
    return line, start, end, int(category), builder.name(name), moved, link


def _device_work(name: str) -> Category:
    lower = name.lower()
    if "copy" in lower and "kernel" not in lower:
        return apis.copy(not re.search(r"devicetodevice|device_to_device|dtod|d2d|peertopeer", lower))
    return Category.gpu if "fillbuffer" in lower else apis.kernel(name)


def _read_sdk(path: Path) -> Trace:
    try:
        with open_text(path) as file:
            content = json.load(file)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: the JSON ends early or is damaged ({error})") from None
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: a value cannot be read ({error})") from None
    builder = Builder("rocprof", path)
    try:
        tools = content[_SDK]
        for tool in tools if isinstance(tools, list) else [tools]:
            _read_tool(builder, tool)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise ValueError(f"{path}: not the JSON of rocprofv3 ({reason(error)})") from None
    return builder.build()


def _read_tool(builder: Builder, tool: _Record) -> None:
    process = integer(tool.get("metadata", {}).get("pid"), 0)
    kinds = tool.get("strings", {}).get("buffer_records", [])
    kernels = {integer(k.get("kernel_id")): str(k.get("formatted_kernel_name") or k.get("kernel_name", "kernel"))
               for k in tool.get("kernel_symbols", [])}  # fmt: skip
    agents = _labels(tool.get("agents", []))
    cpus = {_handle(a.get("id")) for a in tool.get("agents", []) if integer(a.get("type")) == 1}
    records = tool["buffer_records"]
    rows: list[tuple[int, ...]] = []

    def operation(record: _Record) -> str:
        kind = kinds[integer(record["kind"])]
        return str(kind["operations"][integer(record["operation"])])

    def add(record: _Record, line: int, category: Category, name: str, moved: int = -1) -> None:
        link = record.get("correlation_id")
        link = integer(link.get("internal") if isinstance(link, dict) else link)
        start, end = _time(record["start_timestamp"]), _time(record["end_timestamp"])
        rows.append((line, start, end, int(category), builder.name(name), moved, link))
        if len(rows) == _CHUNK:
            _flush(builder, rows)

    for kind in _CALLS:
        for record in records.get(kind, []):
            name = operation(record)
            category = Category.mpi if kind in ("rccl_api", "rocshmem_api") else apis.call(name)
            add(record, builder.line(process, f"thread {integer(record['thread_id'])}", "host"), category, name)
    for record in records.get("marker_api", []):
        line = builder.line(process, f"thread {integer(record['thread_id'])}", "host")
        add(record, line, Category.other, str(record.get("name") or operation(record)))
    for record in records.get("kernel_dispatch", []):
        info = record["dispatch_info"]
        label = f"{agents.get(_handle(info['agent_id']), 'agent')} queue {_handle(info['queue_id'])}"
        name = kernels.get(integer(info["kernel_id"]), f"kernel {info['kernel_id']}")
        add(record, builder.line(process, label, "stream"), apis.kernel(name), name)
    for record in records.get("memory_copy", []):
        ends = _handle(record.get("src_agent_id")), _handle(record.get("dst_agent_id"))
        name = operation(record)
        between = bool(cpus & set(ends)) if cpus else not re.search(r"DEVICE_TO_DEVICE", name)
        label = f"copies {agents.get(ends[0], ends[0])} to {agents.get(ends[1], ends[1])}"
        add(record, builder.line(process, label, "stream"), apis.copy(between), name, integer(record.get("bytes")))
    _flush(builder, rows)


def _labels(agents: list[_Record]) -> dict[int, str]:
    """Names of agents by handle. Agents with the same name, such as the GPUs of a node, are numbered."""
    names = [str(a.get("name", "")) or "agent" for a in agents]
    return {
        _handle(a.get("id")): name if names.count(name) == 1 else f"{name} #{names[:k].count(name)}"
        for k, (a, name) in enumerate(zip(agents, names, strict=True))
    }


def _handle(value: object) -> int:
    """An opaque handle, an unsigned 64-bit number."""
    value = value.get("handle") if isinstance(value, dict) else value
    return value if type(value) is int and 0 <= value < 2**64 else integer(value)


def _time(value: object) -> int:
    time = integer(value, -1)
    if time < 0:
        raise ValueError(f"{value!r} is not a time in nanoseconds")
    return time


def _flush(builder: Builder, rows: list[tuple[int, ...]]) -> None:
    if rows:
        line, start, end, category, name, moved, link = zip(*rows, strict=True)
        builder.add(line=line, start=start, end=end, category=category, name=name, bytes=moved, correlation=link)
        rows.clear()
