"""`python -m backwarp.maintain.hardware`; see the package."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from .guarded import Finished, run
from .journal import Journal
from .steps import STEPS, Step, machine_of

LEFT = 3  # the exit status if something is left to do
_SHORT = 20.0  # seconds that every item gets at least
#: what a machine with CuPy, PyTorch and CUDA's toolkit lacks
WHEELS = ("tree-sitter>=0.25,<0.27", "tree-sitter-cuda>=0.21.2,<0.22")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


class Call:
    """One call: starts items until its time is up."""

    def __init__(self, journal: Journal, minutes: float, again: bool):
        self.journal, self.end, self.again = journal, time.monotonic() + 60 * minutes, again

    def todo(self, step: Step) -> list[str]:
        finished = self.journal.latest(step.name)
        if self.again:
            finished = {item: r for item, r in finished.items() if r["status"] == "done"}
        return [item for item in step.items() if item not in finished]

    def go(self, step: Step) -> int:
        """Returns how many of its items are left."""
        items = self.todo(step)
        with ThreadPoolExecutor(step.parallel) as pool:
            return sum(not done for done in pool.map(lambda item: self.item(step, item), items))

    def item(self, step: Step, item: str) -> bool:
        """Runs an item. Returns whether it has been dealt with, successfully or not."""
        left = self.end - time.monotonic()
        if left < _SHORT:
            return False
        limit = min(step.limit, left)
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report"
            try:
                finished = run(step.command(item, str(report), self.journal), limit, report)
            except Exception as error:  # no failure of one item may stop the others
                finished = Finished(1, "", f"{type(error).__name__}: {error}", 0.0)
        if finished.status is None and limit < step.limit:
            return False  # this call ran out of time, not the item
        found = judged(step, finished)
        if found["status"] != "done" or any(how != "passed" for how in found.get("tests", {}).values()):
            found["tail"] = finished.tail
        record = self.journal.add(step.name, item, **found)
        told = "" if record["status"] == "done" else f": {record.get('reason', '')}"
        click.echo(f"{step.name} {item}: {record['status']}, {finished.seconds:.1f} s{told}")
        return True


def judged(step: Step, finished: Finished) -> dict:
    """The record of an item. A tool may exit with a status other than 0 because it found something."""
    found = {"seconds": finished.seconds}
    try:
        found |= step.read(finished)
    except (ValueError, KeyError) as error:
        found["reason"] = str(error)[:400]
    if finished.status is None:
        return found | {"status": "timeout", "reason": f"more than {step.limit:g} seconds"}
    if "reason" in found or (step.read.__name__ == "results" and finished.status):
        return {"reason": finished.reason} | found | {"status": "failed"}
    return found | {"status": "done"}


def one_machine(journal: Journal) -> None:
    """Examines the machine. Errors: ClickException if no kernel can run, or the results are from another
    GPU."""
    finished = run(STEPS[0].command("machine", "", journal), STEPS[0].limit)
    found = judged(STEPS[0], finished)
    before = machine_of(journal).get("device")
    if found["status"] != "done":
        raise click.ClickException(f"{found['reason']}\n{finished.tail}")
    now = found["results"][0]
    if before and now["device"] != before:
        raise click.ClickException(
            f"{journal.path} holds the results of {before}, and this is {now['device']}"
        )
    journal.add("machine", "machine", **found)
    click.echo(f"on {now['device']}; missing: {', '.join(now['missing']) or 'nothing'}")


def gather(folder: Path) -> None:
    """Fetches WHEELS for the machine's Python."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(folder),
    ]
    command += ["--python-version", "3.12", "--implementation", "cp"]
    command += [option for name in PLATFORMS for option in ("--platform", name)]
    subprocess.run([*command, *WHEELS], check=True, stdout=subprocess.DEVNULL)
    for path in sorted(folder.glob("*.whl")):
        click.echo(f"{path.stat().st_size:>10,} {path.name}")


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="Run what is left, and write the results here.")
@click.option("--minutes", default=9.0, show_default=True, help="Of this call.")
@click.option("--only", multiple=True, type=click.Choice([s.name for s in STEPS]), help="These steps.")
@click.option("--again", is_flag=True, help="Repeat what failed.")
@click.option(
    "--collect", "source", type=click.Path(path_type=Path, exists=True), help="Make the data file from these."
)
@click.option(
    "--gather", "wheels", type=click.Path(path_type=Path), help="Fetch what the machine lacks into a folder."
)
@click.pass_context
def main(
    context, out: Path | None, minutes: float, only, again: bool, source: Path | None, wheels: Path | None
):
    """Measure and check everything on a GPU, in calls of a few minutes."""
    if wheels:
        gather(wheels)
    if source:
        from .collect import collect

        click.echo(collect(source))
    if not out:
        return
    call, left = Call(Journal(out), minutes, again), 0
    one_machine(call.journal)
    for step in STEPS[1:]:
        if step.name in (only or [step.name]):
            rest = call.go(step)
            done = call.journal.latest(step.name).values()
            failed = sum(r["status"] != "done" for r in done)
            click.echo(
                f"== {step.name} ({step.about}): {len(done)} done, {failed} of them failed; {rest} left"
            )
            left += rest
    context.exit(LEFT if left else 0)


if __name__ == "__main__":
    main()
