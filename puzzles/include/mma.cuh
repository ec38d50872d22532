// Tensor cores: the instructions of a warp that multiply whole matrices, with a name each.
//
// All 32 lanes of a warp call these functions together. A matrix is spread over the lanes; what a lane holds
// of it, in a few registers of 32 bits, is its fragment. In the drawings, L is a lane and r0, r1, ... are its
// registers: the place in the drawing is the place in the matrix. "r0: L0 L1 L2 L3": lane 0 has the element
// of the first column in register 0, lane 1 that of the next. Beside each drawing the same is given in formulas, with
// g = lane / 4 and t = lane % 4.
//
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k8", "... m16n8k16", "ldmatrix", "cvt".
#pragma once
#include <cuda_fp16.h>

// x with 10 bits after the point, as tensor cores take it, rounded to nearest (ties away from zero). What
// becomes of floats with more bits is undefined in PTX; today's tensor cores ignore the last 13.
__device__ inline unsigned to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// d += A B: A has 16 rows and 8 columns, B 8 rows and 8 columns, numbers in TF32; d are float.
//
//   A          k = 0  1  2  3   4  5  6  7      B          n = 0   1   2  ...  7
//   row 0      r0: L0 L1 L2 L3  r2: L0 .. L3    k = 0      r0: L0  L4  L8 ... L28
//   row 1          L4 L5 L6 L7      L4 .. L7        1          L1  L5  L9 ... L29
//   ...                                             2          L2  L6  L10 .. L30
//   row 7          L28  ..  L31     L28 .. L31      3          L3  L7  L11 .. L31
//   row 8      r1: L0 L1 L2 L3  r3: L0 .. L3        4      r1: L0  L4  L8 ... L28
//   ...                                             ...
//   row 15         L28  ..  L31     L28 .. L31      7          L3  L7  L11 .. L31
//
//   d          n = 0  1 | 2  3 | 4  5 | 6  7
//   row 0      r0 r1: L0   L1     L2     L3         A: row g (+ 8 in r1, r3), column t (+ 4 in r2, r3)
//   ...                                             B: row t (+ 4 in r1), column g
//   row 7             L28  L29    L30    L31        d: row g (+ 8 in r2, r3), column 2 t (+ 1 in r1, r3)
//   row 8      r2 r3: L0   L1     L2     L3
//   ...
//   row 15            L28  L29    L30    L31
__device__ inline void mma_m16n8k8_tf32(float* d, const unsigned* a, const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// d += A B: A has 16 rows and 16 columns, B 16 rows and 8 columns, of half; d are float. A register has two
// halves, the lower half of its bits first.
//
//   A          k = 0 1 | 2 3 | 4 5 | 6 7   8 9 |  ..  | 14 15      B          n = 0   1   2  ...  7
//   row 0      r0: L0    L1    L2    L3    r2: L0 ..    L3         k = 0, 1   r0: L0  L4  L8 ... L28
//   ...                                                                2, 3       L1  L5  L9 ... L29
//   row 7          L28   L29   L30   L31       L28 ..   L31            4, 5       L2  L6  L10 .. L30
//   row 8      r1: L0    L1    L2    L3    r3: L0 ..    L3             6, 7       L3  L7  L11 .. L31
//   ...                                                                8, 9   r1: L0  L4  L8 ... L28
//   row 15         L28   L29   L30   L31       L28 ..   L31            ...
//                                                                    14, 15       L3  L7  L11 .. L31
//
//   A: row g (+ 8 in r1, r3), columns 2 t and 2 t + 1 (+ 8 in r2, r3)
//   B: rows 2 t and 2 t + 1 (+ 8 in r1), column g
//   d: as above
__device__ inline void mma_m16n8k16_f16(float* d, const unsigned* a, const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four matrices of 8 x 8 halves from shared memory. Lane 8 i + j gives the address of row j of matrix i: 8
// halves, 16 bytes, aligned. Register i then holds this lane's part of matrix i. Each matrix takes one wavefront
// if its 8 rows lie in different banks.
//
//   matrix i   column 0 1 | 2 3 | 4 5 | 6 7
//   row 0      ri:    L0    L1    L2    L3          row g, columns 2 t and 2 t + 1: as A and d above,
//   ...                                             and as B where rows lie in memory that are columns of B
//   row 7             L28   L29   L30   L31
__device__ inline void ldmatrix_x4(unsigned* r, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

// Two matrices: lanes 0 to 15 give the addresses of their rows, those of the other lanes are not used.
__device__ inline void ldmatrix_x2(unsigned* r, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

// The same, each matrix transposed on its way to the lanes: for a B that is stored row by row.
//
//   matrix i   column 0   1   2  ...  7
//   rows 0, 1  ri:    L0  L4  L8 ... L28
//        2, 3         L1  L5  L9 ... L29            rows 2 t and 2 t + 1, column g: as B above
//        4, 5         L2  L6  L10 .. L30
//        6, 7         L3  L7  L11 .. L31
__device__ inline void ldmatrix_x4_trans(unsigned* r, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

__device__ inline void ldmatrix_x2_trans(unsigned* r, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

// Eight neighbours in a row of a matrix in global memory, from a column that is a multiple of 8; 0 where
// there is no element. One read of 16 bytes where every row begins at a multiple of 16.
__device__ inline uint4 load8(const __half* matrix, int rows, int columns, int row, int column) {
    uint4 found = make_uint4(0, 0, 0, 0);
    if (row >= rows || column >= columns) return found;
    const __half* p = matrix + row * columns + column;
    if (columns % 8 == 0) return *reinterpret_cast<const uint4*>(p);
#pragma unroll 1
    for (int i = 7; i >= 0; i--) {  // the last first: each pushes those after it up by a half
        unsigned bits = column + i < columns ? __half_as_ushort(p[i]) : 0;
        found.w = found.w << 16 | found.z >> 16;
        found.z = found.z << 16 | found.y >> 16;
        found.y = found.y << 16 | found.x >> 16;
        found.x = found.x << 16 | bits;
    }
    return found;
}
