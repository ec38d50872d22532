"""Special registers: one row for each.

A row has a name, a type, the threads for which it is the same (`row`: those of a block with the same y and z;
`time`: not even one thread at different times), and a value: a field of the runtime's structs, a number, the
name of a function in `emit/special_registers`, or `-`, with a description for the student, if it is refused.
`(a|b)` is a choice; in a value, `*` stands for the chosen alternative.

Source: PTX ISA 8.7, section 10.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

_TABLE = """
%tid.x                                           u32   thread  Thread.tid_x
%tid.(y|z)                                       u32   row     Thread.tid_*
%ntid.(x|y|z)                                    u32   grid    Launch.block_*
%ctaid.(x|y|z)                                   u32   block   Env.ctaid_*
%nctaid.(x|y|z)                                  u32   grid    Launch.grid_*
%(tid|ntid|ctaid|nctaid).w                       u32   grid    0
%laneid                                          u32   thread  lane
%warpid                                          u32   warp    warp
%nwarpid                                         u32   grid    warps
%smid                                            u32   grid    0
%nsmid                                           u32   grid    1
%gridid                                          u64   grid    1
%lanemask_(eq|lt|le|gt|ge)                       u32   thread  lanemask
%(clock|clock_hi)                                u32   time    ticks
%clock64                                         u64   time    ticks
%globaltimer                                     u64   time    ticks
%globaltimer_(lo|hi)                             u32   time    ticks
%reserved_smem_offset_(begin|end|cap|0|1)        b32   grid    reserved
%dynamic_smem_size                               u32   grid    Launch.shared_dynamic
%total_smem_size                                 u32   grid    total_shared
%aggr_smem_size                                  u32   grid    -
%current_graph_exec                              u64   grid    -
%envreg(1|2)                                     b32   grid    workspace
%envreg(0|3|4|5|6|7|8|9)                         b32   grid    -
%envreg(1|2)(0|1|2|3|4|5|6|7|8|9)                b32   grid    -
%envreg3(0|1)                                    b32   grid    -
%pm(0|1|2|3|4|5|6|7)                             u32   time    -
%pm(0|1|2|3|4|5|6|7)_64                          u64   time    -
%clusterid.(x|y|z)                               u32   block   Env.clusterid_*
%cluster_ctaid.(x|y|z)                           u32   block   Env.cluster_ctaid_*
%nclusterid.(x|y|z)                              u32   grid    Launch.nclusterid_*
%cluster_nctaid.(x|y|z)                          u32   grid    Launch.cluster_*
%(clusterid|cluster_ctaid|nclusterid|cluster_nctaid).w  u32   grid    0
%cluster_ctarank                                 u32   block   Env.cluster_rank
%cluster_nctarank                                u32   grid    Launch.cluster
%is_explicit_cluster                             pred  grid    is_cluster
"""


@dataclass(frozen=True)
class Row:
    """same: for which threads it is the same. value: "" if it is refused; `why` then names what is
    missing."""

    name: str
    type: str
    same: str
    value: str
    why: str = ""

    @property
    def of_neighbours(self) -> bool:
        """Whether it is the same for threads of one block and row."""
        return self.same in ("row", "block", "grid")


def _rows() -> dict[str, Row]:
    found = {}
    for line in _TABLE.strip().splitlines():
        pattern, type_, same, value, *why = line.split(maxsplit=4)
        parts = [part.strip("()").split("|") for part in re.findall(r"\([^)]*\)|[^()]+", pattern)]
        for chosen in product(*parts):
            name, given = "".join(chosen), "" if value == "-" else value.replace("*", chosen[-1])
            found[name] = Row(name, type_, same, given, why[0] if why else f"the special register {name}")
    return found


#: name -> its row
ROWS = _rows()
