// Puzzle 23: coalescing, what a warp's read costs.
//
// What to do: the first kernel predicts. A warp reads 32 floats, lane number l
// the float at place start + l * stride of an array that begins with a sector;
// a thread finds out in how many sectors of 32 bytes they lie. The second is
// puzzle 03 again, with one warp per output, so that the lanes of a warp read
// neighbouring places. You will write about 20 lines.
//
// Check: backwarp grade 23    Stuck: backwarp hint 23    Start again: backwarp reset 23

extern "C" __global__ void predict_sectors(const int* start,   // [patterns]
                                           const int* stride,  // [patterns], 0 or more
                                           int* sectors,       // [patterns], yours to fill
                                           int patterns) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(1): leave if there is no pattern idx. Go through the 32 lanes and count
    //          every lane whose float lies in a different sector from the one before.
    // BEGIN SOLUTION
    if (idx >= patterns) return;
    int count = 0, last = -1;
    for (int lane = 0; lane < 32; lane++) {
        int sector = (start[idx] + lane * stride[idx]) / 8;
        if (sector != last) count++;
        last = sector;
    }
    sectors[idx] = count;
    // END SOLUTION
}

extern "C" __global__ void fc_forward(const float* input,    // [batch, n_in]
                                      const float* weights,  // [n_out, n_in]
                                      const float* bias,     // [n_out]
                                      float* output,         // [batch, n_out], yours to fill
                                      int batch, int n_in, int n_out) {
    int lane = threadIdx.x;  // blocks are 32 wide: their rows are warps
    // TODO(2): compute o, the number of this warp in all blocks, and b, the row of
    //          blocks. Leave the kernel if there is no such output.
    // BEGIN SOLUTION
    int o = blockIdx.x * blockDim.y + threadIdx.y;
    int b = blockIdx.y;
    if (o >= n_out) return;
    // END SOLUTION

    // TODO(3): add up every 32nd product of input and weight, beginning with number lane.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int i = lane; i < n_in; i += 32) {
        sum += input[b * n_in + i] * weights[o * n_in + i];
    }
    // END SOLUTION

    // TODO(4): add up the sums of the 32 lanes; one lane adds the bias and stores.
    // BEGIN SOLUTION
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, step);
    }
    if (lane == 0) output[b * n_out + o] = sum + bias[o];
    // END SOLUTION
}
