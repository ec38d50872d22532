"""Where the only store into an array stands: what elements that were never written have missed."""

from __future__ import annotations

from collections.abc import Iterator

from ...course.array_names import name_in_file
from ...course.declare import Kernel
from ...cuda.accesses import stores_into
from ...cuda.follow import value_of
from ...cuda.parts import all_indices, shown
from ...cuda.pieces import Piece
from ...cuda.text import CudaText, read
from ..findings import Finding

MOST = 3  # conditions
LONGEST = 60  # characters of one


def only_store(array: str, kernel: Kernel, source: str) -> list[Finding]:
    """`Only line 27 stores into output, and only where warp == 0 and o < n_out.`"""
    file, name = read(source), name_in_file(array, kernel, source)
    own = file.function(kernel.name)
    local = (v for v in file.variables if own and own.body.holds(v))
    into = next((v for v in (*own.parameters, *local) if v.name == name), None) if own else None
    stores = stores_into(file, into) if into else None
    if not stores or len(stores) > 1 or not own.body.holds(stores[0]):
        return []
    (store,) = stores
    asked = list(conditions(file, store, own.start))
    indices = [i for i in all_indices(store) if i and i.kind == "identifier"]
    begins = [f"{i.code} = {shown(v)}" for i in indices if (v := value_of(file, i.code, i.start))]
    if not asked or len(asked) > MOST or any(len(text) > LONGEST for text in (*asked, *begins)):
        return []
    return [Finding.of("only_store", store.line, array=name, tests=asked, index=begins[0] if begins else "")]


def conditions(file: CudaText, access: Piece, start: int) -> Iterator[str]:
    """`i < n`, of the `if` statements around an access and of those before it that return, nearest first."""
    inner = access
    while (outer := inner.outer) and inner.start > start:
        if outer.kind == "if_statement" and (condition := outer.part("condition")):
            if outer.part("consequence").holds(inner):
                yield shown(condition)
            elif not condition.holds(inner):
                yield f"not {shown(condition)}"
        if outer.kind == "compound_statement":
            for before in reversed(outer.parts):
                if before.end <= inner.start and before.kind == "if_statement" and returns(before):
                    yield f"line {before.line} has not returned ({shown(before.part('condition'))})"
        inner = outer


def returns(statement: Piece) -> bool:
    body = statement.part("consequence")
    last = body.parts[-1] if body and body.kind == "compound_statement" and body.parts else body
    return bool(last) and last.kind == "return_statement"
