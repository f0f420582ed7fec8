"""The examples in the docs run, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

from moso.models.compat import prepare_torchvision

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


# Lightning 2.6 makes tree specifications in a way that PyTorch 2.13 has deprecated, and wishes for more workers;
# Trainer pins memory for a device that is not here.
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found")
@pytest.mark.parametrize(
    "page",
    [
        ROOT / "README.md",
        *(
            ROOT / "docs" / f"{name}.md"
            for name in (
                "library",
                "methods",
                "selectors",
                "plugins",
                "errors",
                "methods/ssp",
                "methods/opt",
                "text-and-regression",
                "language-models",
                "optimizer-aware",
                "index-of-gradients",
                "integrations",
                "report",
                "weights",
                "how-to/from-cleanlab",
                "how-to/from-deepcore",
                "how-to/from-scripts",
            )
        ),
    ],
    ids=lambda page: page.name,
)
def test_python_blocks_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare_torchvision()  # a user's own import of transformers needs a whole torchvision, or none
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert blocks
    session: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), session)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
