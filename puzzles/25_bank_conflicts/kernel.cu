// Puzzle 25: bank conflicts, a matrix transposed through a tile.
//
// What to do: output[c, r] = input[r, c]. A block reads a tile of TILE x TILE
// elements row by row into shared memory, and writes it row by row of the
// output, which are columns of the tile. Both sides of global memory are then
// coalesced, and the columns have to be read without bank conflicts.
// You will write about 15 lines.
//
// Check: backwarp grade 25    Stuck: backwarp hint 25    Start again: backwarp reset 25

constexpr int TILE = 32;   // the side of a tile: a row of it is a warp
constexpr int HEIGHT = 8;  // a block has TILE x HEIGHT threads, so each thread moves TILE / HEIGHT elements

extern "C" __global__ void transpose(const float* input,  // [rows, columns]
                                     float* output,       // [columns, rows], yours to fill
                                     int rows, int columns) {
    // TODO(1): declare the tile, in shared memory.

    // TODO(2): fill the tile: threads next to each other read elements next to each
    //          other. Leave out what lies outside the input. Then wait for the block.

    // TODO(3): write the tile's columns as rows of the output, threads next to each
    //          other to elements next to each other.
}
