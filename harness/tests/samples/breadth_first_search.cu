// Distances from a vertex in one cooperative launch: levels are separated by grid-wide barriers.

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void breadth_first_search(const int* starts, const int* neighbours, int* distance, int* frontier, int* next,
                                                int* sizes, int vertices) {
    cg::grid_group grid = cg::this_grid();
    int threads = grid.size(), t = grid.thread_rank();
    for (int v = t; v < vertices; v += threads) distance[v] = v == 0 ? 0 : -1;
    if (t == 0) {
        frontier[0] = 0;
        sizes[0] = 1;
        sizes[1] = 0;
    }
    grid.sync();
    for (int level = 1, from = 0; sizes[from] > 0; level++, from ^= 1) {
        int count = sizes[from];
        for (int i = t; i < count; i += threads) {
            int v = frontier[i];
            for (int e = starts[v]; e < starts[v + 1]; e++)
                if (atomicCAS(&distance[neighbours[e]], -1, level) == -1) next[atomicAdd(&sizes[from ^ 1], 1)] = neighbours[e];
        }
        grid.sync();
        if (t == 0) sizes[from] = 0;
        int* swap = frontier;
        frontier = next;
        next = swap;
        grid.sync();
    }
}
