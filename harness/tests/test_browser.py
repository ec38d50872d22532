"""A notebook in JupyterLab in a real browser: a cell is edited and run, the verdict and the picture are seen, and the
sliders of %explore and %step move.

Optional: `pip install -e '.[browser]'` and Chromium with its driver (Debian: chromium, chromium-driver), then
`python -m pytest -m browser`. BACKWARP_SCREENSHOT=FILE.png keeps what the page looked like.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from backwarp.jupyterlab import install
from backwarp.maintain.notebooks import copy_course
from tests import ROOT, SOURCES

PATIENCE = 120  # seconds
WRONG = """%%kernel 01
__global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] - b[i];
}"""

pytestmark = pytest.mark.browser


@pytest.fixture
def lab(tmp_path):
    """The address of a JupyterLab that serves a copy of the course."""
    pytest.importorskip("jupyterlab")
    copy_course(ROOT, tmp_path)
    install(tmp_path / "environment")
    environment = os.environ | {
        "PYTHONPATH": str(SOURCES),
        "JUPYTER_PATH": str(tmp_path / "environment/share/jupyter"),
    }
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--port=0",
        "--ip=127.0.0.1",
        "--allow-root",
        "--LabApp.expose_app_in_browser=True",
        "--IdentityProvider.token=course",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        try:
            for line in server.stderr:
                if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                    break
            yield found[0]
        finally:
            server.terminate()


@pytest.fixture
def browser(tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs Chromium and its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1400,1800",
        f"--user-data-dir={tmp_path / 'profile'}",
    ):
        options.add_argument(argument)
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    found.set_script_timeout(PATIENCE)
    yield found
    if where := os.environ.get("BACKWARP_SCREENSHOT"):
        found.save_screenshot(where)
    found.quit()


PANEL = "[...jupyterapp.shell.widgets('main')].find(w => w.context?.path?.endsWith('.ipynb'))"
CELL = f"({PANEL}).content.widgets[arguments[0]].node"
NUMBER = f"getComputedStyle({CELL}.querySelector('.backwarp-run td')).color"


def steps_through(browser, wait, cell: int) -> None:
    """The page of %step begins at the first element that is wrong, and obeys keys."""
    from selenium.webdriver.common.keys import Keys

    time = wait(f"{CELL}.querySelector('.backwarp-run input[aria-label=time]')", cell)
    browser.execute_script(f"{CELL}.scrollIntoView()", cell)
    text = f"{CELL}.querySelector('.backwarp-run').textContent"
    wait(f"{text}.includes('writes c[0]')", cell)
    time.send_keys("p", Keys.ARROW_DOWN)
    wait(f"{text}.includes('Thread (1,0,0) runs it.') && !{text}.includes('writes c')", cell)


def themes(browser, wait, plot: str, plotted: int, graded: int, stepped: int) -> None:
    """What is drawn is dark where the theme is, and can be read."""
    for theme, filter in (("Light", "none"), ("Dark", "invert")):
        change = "jupyterapp.commands.execute('apputils:change-theme', {theme: `JupyterLab ${arguments[0]}`})"
        browser.execute_script(change, theme)
        wait(f"getComputedStyle({plot}).filter.startsWith(arguments[1])", plotted, filter)
    drawn = f"getComputedStyle({CELL}.querySelector('.backwarp-drawn')).filter"
    wait(f"{drawn}.startsWith('invert')", graded)
    wait(f"{NUMBER} == 'rgb(34, 34, 34)'", stepped)  # before it is inverted with the rest


def test_a_cell_edited_in_jupyterlab_is_graded(lab, browser):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    def wait(script: str, *arguments):
        return WebDriverWait(browser, PATIENCE).until(
            lambda b: b.execute_script(f"return {script}", *arguments)
        )

    def run(index: int, text: str | None = None) -> None:
        """Puts a text into a cell and presses Shift+Enter in it."""
        browser.execute_script(
            f"const book = ({PANEL}).content; jupyterapp.shell.activateById(({PANEL}).id);"
            "book.activeCellIndex = arguments[0];"
            "if (arguments[1]) book.activeCell.model.sharedModel.setSource(arguments[1]);"
            "book.mode = 'edit'; book.activeCell.editor.focus();",
            index,
            text,
        )
        browser.switch_to.active_element.send_keys(Keys.SHIFT, Keys.ENTER)

    browser.get(f"{lab}lab/tree/notebooks/01_lenet.ipynb?token=course&reset")
    wait(f"window.jupyterapp && ({PANEL})?.sessionContext?.session?.kernel?.status == 'idle'")
    ids = browser.execute_script(f"return ({PANEL}).content.widgets.map(w => w.model.id)")
    named = "setup-1", "p01-explore-1", "p01-kernel-1", "p01-look-1"
    setup, run_of_01, own, look = map(ids.index, named)
    run(setup)
    assert (
        browser.execute_script(f"return ({PANEL}).content.widgets[arguments[0]].model.mimeType", setup)
        == "text/x-ipython"
    )
    wait(f"({PANEL}).content.widgets[arguments[0]].model.mimeType == 'text/x-c++src'", own)
    run(own, WRONG)
    output = f"{CELL}.querySelector('.jp-OutputArea')"
    wait(f"{output}?.textContent.includes('c[i=0] = ') && !!{CELL}.querySelector('img')?.naturalWidth", own)
    text = browser.execute_script(f"return {output}.textContent", own)
    assert "x 01_vector_add" in text and "expected" in text and "Next: %hint 01" in text
    wait(f"{output}.textContent.includes('One change in line 4')", own)  # counted from the magic's line on
    assert browser.execute_script(f"return {CELL}.querySelector('img').naturalWidth", own) == 800
    run(run_of_01)
    slider = f"{CELL}.querySelector('.backwarp-run input[aria-label=time]')"
    handle = wait(slider, run_of_01)
    browser.execute_script(f"{CELL}.scrollIntoView()", run_of_01)
    assert "Step 1: the warp reads " in browser.execute_script(f"return {output}.textContent", run_of_01)
    handle.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    wait(f"{output}.textContent.includes('Step 3: the warp writes c: 4 threads')", run_of_01)
    run(look, "%step 01")
    steps_through(browser, wait, look)
    run(run_of_01, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    plot = f"{CELL}.querySelector('.jp-RenderedImage img')"
    wait(f"!!{plot}", run_of_01)
    themes(browser, wait, plot, run_of_01, own, look)
    browser.execute_async_script(f"({PANEL}).sessionContext.restartKernel().then(arguments[0])")
    run(ids.index("p01-predict-1"), "my_guess = 512\n%predict 01")  # knows the magic, with no other cell run
    wait(f"{output}?.textContent.includes('Yes, 512')", ids.index("p01-predict-1"))
