"""Which access of a line a fault is about, whatever the file calls the array: by the array's name, through a local
pointer into it, or through a parameter of a helper that is called with one."""

from __future__ import annotations

from ...course.cuda_pieces import Piece, remembered
from ...course.cuda_text import CudaText, read
from ...course.declare import Kernel
from .array_steps import by_name
from .collectives import test_names
from .noting import begins_in, index_of, named, pointer_values
from .stores import is_stored

DEEP = 3  # helpers that pass a pointer on


def name_in_file(array: str, kernel: Kernel, source: str) -> str:
    """What the file calls an array of the kernel: its parameters are told apart by their positions."""
    own = read(source).function(kernel.name)
    return (
        next((name for name, a in by_name(kernel, own).items() if a.name == array), array) if own else array
    )


def access_at(file: CudaText, line: int, array: str, how: str = "") -> Piece | None:
    """The only access on a line that can be of an array; None if there are several. array: its name in the file;
    how: "read" or "write", if known."""
    function, found = file.function_at(line), accesses_on(file, line)
    fit = [
        a
        for a in found
        if is_stored(a) and (how == "write" or a.is_updated) or how == "read" and not is_stored(a)
    ]
    found = fit or found
    into = [a for a in found if (reaches(a, array) if function else named(a) == array)]
    chosen = into or [a for a in found if not is_elsewhere(file, a)]
    return chosen[0] if len(chosen) == 1 else None


def accesses_on(file: CudaText, line: int) -> list[Piece]:
    """`a[i][j]` and `*p` on a line; of `a[i][j]`, not `a[i]` as well."""
    found = [
        a
        for a in file.whole.all("subscript_expression", "pointer_expression")
        if a.line == line and index_of(a)
    ]
    return [a for a in found if not (a.outer.kind == "subscript_expression" and a.outer.parts[0] == a)]


@remembered
def reaches(access: Piece, array: str, deep: int = DEEP) -> bool:
    """Whether an access, or a pointer that a helper is called with, leads into an array of the kernel."""
    file = access.file
    if not (function := file.function_at(access.line)):
        return False
    mine = [v.name for v in function.parameters]
    if function.is_kernel or array not in mine:  # a helper may call another array by this name
        if begins_in(file, access, array):
            return True
    if function.is_kernel or not deep:
        return False
    name = named(access)
    names = {
        name,
        *(p.code for value in pointer_values(file, name, access.start) for p in value.all("identifier")),
    }
    for i in (i for i, own in enumerate(mine) if own in names and function.parameters[i].pointer):
        for called, call in file.whole.calls():
            given = call.part("arguments").parts if called == function.name else ()
            within = file.function_at(call.line)
            if i < len(given) and within and within.name != function.name:
                if reaches(given[i], array, deep - 1):
                    return True
    return False


def is_elsewhere(file: CudaText, access: Piece) -> bool:
    """Whether an access is of an array that is declared in the function: shared or a thread's own."""
    known = file.variable_at(named(access), access.start)
    return bool(known and known.extents)


def is_divided(array: str, source: str) -> bool:
    """Whether an array is the dynamic shared memory, with other pointers of the file derived from it."""
    file = read(source)
    dynamic = {"extern", "__shared__"}
    if not any(v.name == array and dynamic <= set(v.words) for v in file.variables):
        return False
    values = [v.value for v in file.variables if v.pointer]
    values += [e.part("right") for e in file.whole.all("assignment_expression")]
    return any(
        value and starts_from(array, value) and "threadIdx" not in test_names(value) for value in values
    )


def starts_from(array: str, value: Piece) -> bool:
    """Whether an expression is `array + ...` or `&array[...]`, in a cast or not."""
    while value.kind in ("cast_expression", "parenthesized_expression"):
        value = value.parts[-1]
    if value.kind == "pointer_expression":
        value = value.parts[0]
        return value.kind == "subscript_expression" and value.parts[0].code == array
    first = value
    while first.kind == "binary_expression" and first.part("operator").code == "+":
        first = first.part("left")
    return first is not value and first.code == array
