"""The notebook and the gallery of the guide's page on data frames run as they stand."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from documents import free_port, samples

# They have no types.
nbclient: Any = importlib.import_module("nbclient")
nbformat: Any = importlib.import_module("nbformat")

DOCS = Path(__file__).parents[3] / "docs"
PORT = "127.0.0.1:4747"
LIMIT_S = 120


def test_the_notebook_plots_an_answer() -> None:
    notebook = nbformat.read(DOCS / "notebooks/dataframes.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    # The page begins with the same cells.
    cells = "\n\n".join(cell.source for cell in code) + "\n"
    assert samples(DOCS / "src/guide/dataframes.md")[0] == cells and cells.count(PORT) == 1
    with free_port() as address:
        for cell in code:
            cell.source = cell.source.replace(PORT, address)
        nbclient.NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3").execute()
    outputs = [output for cell in code for output in cell.outputs if "data" in output]
    shown = [output.data["text/html"] for output in outputs if "text/html" in output.data]
    assert any("avg(delay)</th>" in html and "from " in html for html in shown), shown
    assert any("image/png" in output.data for output in outputs), outputs
    assert not [output for output in outputs if output.output_type == "error"]


def test_the_gallery_is_drawn(tmp_path: Path) -> None:
    program = [sys.executable, str(DOCS / "notebooks/gallery.py"), str(tmp_path)]
    subprocess.run(program, check=True, timeout=LIMIT_S)
    drawn = sorted(file.name for file in tmp_path.iterdir())
    assert drawn == [f"frames-{number}.svg" for number in range(1, 6)]
    page = (DOCS / "src/guide/dataframes.md").read_text()
    assert [name for name in drawn if f"../images/{name}" in page] == drawn
