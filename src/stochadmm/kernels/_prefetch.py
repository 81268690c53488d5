"""Ask the processor for rows before they are needed.

Runs of rows are drawn at random, so the hardware cannot guess the next one; asking for it while
the present one is being worked on hides the latency of memory.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

READ, KEEP_IN_SECOND_LEVEL, DATA = 0, 2, 1


@intrinsic
def prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]
    """Bring the cache line that holds ``array[index]`` of a flat array nearer; never faults."""
    signature = types.void(array, index)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = signature.args[0]
        struct = context.make_array(kind)(context, builder, arguments[0])
        pointer = builder.gep(struct.data, [arguments[1]])
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, number, number, number]),
            "llvm.prefetch.p0",
        )
        flags = [ir.Constant(number, f) for f in (READ, KEEP_IN_SECOND_LEVEL, DATA)]
        builder.call(function, [builder.bitcast(pointer, byte), *flags])
        return context.get_dummy_value()

    return signature, generate
