"""Importing, documentation, examples."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys

import pytest
from conftest import ROOT

import relaxcrf

MODULES = [m.name for m in pkgutil.walk_packages(relaxcrf.__path__, "relaxcrf.") if not m.name.endswith("_core")]


@pytest.mark.parametrize("name", ["relaxcrf", *MODULES])
def test_examples(name):
    if name == "relaxcrf.dask":
        pytest.importorskip("dask.array")
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_import_is_silent_and_quick():
    code = (
        # Processor time: other programs of a busy machine do not count.
        "import sys, time, numpy; start = time.process_time(); import relaxcrf;"
        "print(time.process_time() - start, *(m for m in ('torch', 'PIL', 'tqdm', 'pandas') if m in sys.modules))"
    )
    best = float("inf")
    for _ in range(5):
        run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
        assert run.stderr == ""
        words = run.stdout.split()
        assert len(words) == 1, words
        best = min(best, float(words[0]))
    assert best < 0.05
    run = subprocess.run([sys.executable, "-c", "import relaxcrf"], capture_output=True, text=True, check=True)
    assert run.stdout == run.stderr == ""


def test_version_is_the_workspace_version():
    text = (ROOT / "Cargo.toml").read_text()
    assert re.search(r'^version = "(.*)"$', text, re.M).group(1) == relaxcrf.__version__


def test_every_preset_is_on_the_page_of_presets():
    path = ROOT / "docs" / "presets.md"
    if not path.exists():
        pytest.skip("installed without documentation")
    page = path.read_text()
    for name in relaxcrf.presets():
        assert f"`{name}`" in page or (name.startswith("paper-") and "`paper-...`" in page), name


def python_blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/migrate.md", "docs/scale.md"])
def test_pages_run(page, tmp_path, monkeypatch):
    """All Python blocks of a page, in order, in one namespace with an image and probabilities at hand."""
    path = ROOT / page
    if not path.exists():
        pytest.skip("installed without documentation")
    if page == "docs/scale.md":
        pytest.importorskip("dask.array")
        pytest.importorskip("zarr")
    from conftest import make_scene

    monkeypatch.chdir(tmp_path)
    image, probabilities, truth = make_scene(40, 60, 3)
    space = {"image": image, "probabilities": probabilities, "labels": truth, "__name__": "page"}
    space.update(images=[image, image], many_probabilities=[probabilities, probabilities])
    blocks = python_blocks(path)
    assert len(blocks) >= 2
    modules = set(sys.modules)
    try:
        for block in blocks:
            exec(compile(block, str(path), "exec"), space)
    finally:
        for name in set(sys.modules) - modules:
            if name.startswith("pydensecrf"):
                del sys.modules[name]


