"""Draws the ladder and the roofline, and writes the table of .github/LADDER.md, from the figures in `harness/backwarp/measure/ladder.json`.

python -m backwarp.maintain.ladder              draws and writes
python -m backwarp.maintain.ladder --measure    first counts every rung again, on the virtual GPU: minutes

Times on a GPU come from the data file of `python -m backwarp.maintain.hardware`, if there is one.
"""

from __future__ import annotations

import json

import click

from ..course.checkout import open_course
from ..measure.ladder import DATA, LADDERS, load, measure
from ..report.pictures import ladder, roofline


@click.command()
@click.option("--measure", "again", is_flag=True, help="Measure before drawing.")
@click.option("--only", type=click.Choice([ladder.name for ladder in LADDERS]), help="One ladder.")
def main(again: bool, only: str | None) -> None:
    """Draw the ladder, and write the page's table, from stored figures."""
    course = open_course(DATA.parent)
    data = load() if DATA.exists() else None
    if again:
        counts = measure(course, data, only or "")
        DATA.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
        data = load()
    for made in (ladder.save, roofline.save, ladder.to_page):
        click.echo(made(data, course.root))


if __name__ == "__main__":
    main()
