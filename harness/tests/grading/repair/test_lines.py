"""Two edits of one line that do not belong together; nothing is run."""

from harness.grading.repair.lines import OTHERS, in_one_line
from harness.grading.repair.schemata import Schemata
from harness.tests.devices.virtual.launches import K

SOURCE = f"{K}k(int* x, int i, int c, int C, int N) {{\n x[i * C + 1] = c;\n x[c] = N;\n}}\n"


def test_every_two_simple_edits_of_a_line_are_tried_together():
    sites = Schemata(SOURCE, "k").sites
    for site in sites:
        site.suspect = 0.2 * (site.piece.line == 2)
    (first, pairs), *others = sorted(in_one_line(sites), key=lambda item: item[0])
    assert first < OTHERS and {when for when, _ in others} == {OTHERS}
    (found,) = pairs()
    texts = [tuple(c.edit.after for c in pair) for pair in found]
    assert ("i", "N") in texts  # `x[i + N]`
    assert {c.site.piece.line for pair in found for c in pair} == {2}
    costs = [one.cost + other.cost for one, other in found]
    assert costs == sorted(costs)
    assert all(a.edit.end <= b.edit.start or b.edit.end <= a.edit.start for a, b in found)
