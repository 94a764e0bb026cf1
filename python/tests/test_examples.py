"""The examples run, and their own assertions hold."""

import runpy

import pytest
from conftest import ROOT

# The example for torch is run by test_torch.py.
EXAMPLES = sorted(p for p in (ROOT / "python" / "examples").glob("*.py") if p.stem != "train_with_layer")


def test_examples_are_twins_of_those_in_rust():
    rust = {path.stem for path in (ROOT / "crates" / "relaxcrf" / "examples").glob("*.rs")}
    assert {path.stem for path in EXAMPLES} == {"compare_methods", "segment", "volume", "warm_start"}
    assert {path.stem for path in EXAMPLES} <= rust


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 2
