"""The methods compared with the ledgers of published figures, and the rules by which they are judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from weft.cli.main import weft_command
from weft.model import ledger
from weft.model import validate as method
from weft.model.ledger import Claim, claim_of, claims, numbers
from weft.model.result import ModelError, Result, exact

ORIGINALS = Path(__file__).parents[3] / "shared" / "ledger"


def rows() -> list[method.Row]:
    return method.validate(ledger.ledgers())


@pytest.mark.skipif(not ORIGINALS.is_dir(), reason=f"the ledgers that weft's are copies of are not at {ORIGINALS}")
def test_the_ledgers_that_ship_are_those_of_the_papers() -> None:
    for original in ORIGINALS.glob("*.json"):
        assert (ledger.SHIPPED / original.name).read_bytes() == original.read_bytes()


@pytest.mark.parametrize("row", [r for r in rows() if r.verdict is not None], ids=lambda r: r.entry.key)
def test_the_method_comes_to_the_ledgers_verdict(row: method.Row) -> None:
    assert row.verdict == row.entry.verdict, f"{row.entry.claimed} | {row.computed} | ledger: {row.entry.computed}"


def test_every_registered_check_has_an_entry_and_every_other_entry_a_reason() -> None:
    found = rows()
    used = {id(method.find(r.entry)) for r in found if r.verdict is not None}
    assert used == {id(c) for c in ledger.CHECKS}
    assert all(r.computed for r in found if r.verdict is None)


def entry(published: str, computed: str = "-", verdict: str = "MISMATCH") -> ledger.Entry:
    return ledger.Entry("l", "k", "m", {"a": 1.5}, published, computed, verdict, "", {})


def result(value: float, low: float, high: float) -> Result:
    return Result("m", "q", value, "x", low, high, {}, "Eq. 1")


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("5.79x", 5.785, 5.795), ("60%", 55, 65), ("1.0x", 0.95, 1.05), ("22096 calls", 22095.5, 22096.5)],
)
def test_a_published_number_stands_for_all_that_round_to_it(text: str, low: float, high: float) -> None:
    (claim,) = claims(text)
    assert (claim.low, claim.high) == (pytest.approx(low), pytest.approx(high))


def test_ranges_bounds_and_stated_tolerances_are_read() -> None:
    assert (claims("3 to 6 (Fig.33)")[0].low, claims("3 to 6 (Fig.33)")[0].high) == (2.5, 6.5)
    assert claims("1% (claim: <1%)")[0].high == 1
    assert claims(">98%")[0].low == 98
    (near, _) = claims('DNS time 2.00 s ("close", 2% taken)')
    assert (near.low, near.high) == (pytest.approx(1.96), pytest.approx(2.04))


@given(st.floats(-1e6, 1e6).map(lambda x: round(x, 2)))
def test_every_printed_number_is_found_again_and_inside_its_own_interval(value: float) -> None:
    (text,) = numbers(f"about {value} s")
    assert float(text) == value
    claim = claim_of(text)
    assert claim.low <= value <= claim.high


def test_numbers_that_are_part_of_words_are_no_numbers() -> None:
    assert numbers("t_2 of MI250X and 3,086.1 GFLOPS at 1e-3") == ["3086.1", "1e-3"]


@pytest.mark.parametrize(
    ("computed", "verdict"),
    [
        (result(1.34, 1.33, 1.349), "REPRODUCES"),
        (result(1.36, 1.34, 1.38), "WITHIN-INPUT-ROUNDING"),
        (result(1.36, 1.359, 1.361), "MISMATCH"),
        (result(1.24, 1.24, 1.24), "MISMATCH"),
    ],
)
def test_a_verdict_follows_from_the_rounding_of_both_sides(computed: Result, verdict: str) -> None:
    assert ledger.judge(claim_of("1.3"), computed) == verdict


def test_the_worst_of_several_values_decides() -> None:
    good, bad = exact("m", "q", 2, "s", {}, "Eq. 1"), exact("m", "q", 9, "s", {}, "Eq. 1")
    assert ledger.compare(claims("2 s, 3 calls"), [good, bad]).verdict == "MISMATCH"
    with pytest.raises(ModelError, match="2 values for 1 published"):
        ledger.compare(claims("2 s"), [good, bad])


def test_statements_that_exclude_each_other_are_inconsistent() -> None:
    assert ledger.consistent([claim_of("2.44"), claim_of("2.5")]).verdict == "INTERNALLY-INCONSISTENT"
    assert ledger.consistent([claim_of("2.5"), Claim("", 2.54, 2.6)]).verdict == "REPRODUCES"


def test_our_own_figures_are_held_to_the_ledgers_digits() -> None:
    assert ledger.own("INFERRED", entry("-", "12.63 GB/s"), [12.628]).verdict == "INFERRED"
    assert ledger.own("INFERRED", entry("-", "12.63 GB/s"), [12.64]).verdict == ledger.DIFFERS
    with pytest.raises(ModelError, match="not a verdict"):
        ledger.own("REPRODUCES", entry("-", "1"), [1])


def write(folder: Path, verdict: str, launch: str = "50") -> Path:
    row = {
        "id": "AMR-INT-X", "method": "Eq.4", "section": "5", "inputs": {"launch": launch}, "claimed_output": "1.82x",
        "computed_output": "1.818x", "verdict": verdict, "note": "",
    }  # fmt: skip
    other = {**row, "id": "NOBODY", "note": "nothing is printed", "verdict": "NOT-REPRODUCIBLE"}
    path = folder / "gpu-integration.json"
    path.write_text(json.dumps([row, other]))
    return path


def test_the_command_fails_where_a_verdict_is_not_the_ledgers(tmp_path) -> None:
    run = CliRunner().invoke
    good = run(
        weft_command, ["model", "validate", "--ledger", str(write(tmp_path, "REPRODUCES"))], standalone_mode=False
    )
    assert (good.return_value, good.exception) == (0, None)
    assert "nothing is printed" in good.output
    path = write(tmp_path, "MISMATCH")
    bad = run(weft_command, ["model", "validate", "--ledger", str(path), "--failing"], standalone_mode=False)
    assert bad.return_value == 1
    assert "the ledger has MISMATCH" in bad.output


def test_an_input_that_a_method_refuses_is_an_error_and_not_an_agreement(tmp_path) -> None:
    (row, _) = method.validate(ledger.ledgers(write(tmp_path, "REPRODUCES", launch="150")))
    assert str(row.verdict).startswith("ERROR")
    assert row.agrees is False


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a ledger"),
        ("[]", "a JSON list of entries"),
        ('[{"id": "A"}]', "entry 1 has no method"),
        (
            '[{"id": "A", "method": "", "inputs": {}, "claimed_output": "", "computed_output": "", "verdict": "GOOD"}]',
            "unknown verdict 'GOOD'",
        ),
    ],
)
def test_a_file_that_is_no_ledger_is_one_clear_error(tmp_path, content: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(ModelError, match=message):
        ledger.read_ledger(path)


def test_unknown_methods_and_empty_folders_are_refused(tmp_path) -> None:
    with pytest.raises(ModelError, match="no ledger"):
        ledger.ledgers(tmp_path)
    with pytest.raises(ModelError, match=r"no check uses the method 'magic'; known methods: .*integration"):
        method.validate([], "magic")
