// Puzzle 31: the gradient of the input as dense matrix products, none of them stored.
//
// What to do: rows of the image that leave the same remainder when divided by the stride meet the
// same taps. So the image splits into stride_h * stride_w classes, and each is a dense product of its
// own. A block takes a tile of one class: TILE channels of TILE elements, walking over the channels k
// and the taps of the class, as in puzzle 26. Then the same for sound, images and videos, with one mapping for all
// of them. You will write about 73 lines.
//
// Check: backwarp grade 31    Stuck: backwarp hint 31    Start again: backwarp reset 31

constexpr int TILE = 16;  // a block has TILE x TILE threads and computes TILE x TILE sums

extern "C" __global__ void conv2d_backward_input(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    const float* weights,      // [C_out, C_in, R, S]
    float* grad_input,         // [batch, C_in, H, W], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w) {
    int H_out = (H + 2 * pad_h - R) / stride_h + 1;
    int W_out = (W + 2 * pad_w - S) / stride_w + 1;
    int x = threadIdx.x, y = threadIdx.y;
    int class_h = blockIdx.y / stride_w, class_w = blockIdx.y % stride_w;  // remainders of h and w
    // TODO(1): find how many rows and columns of the image are in this class, and which taps meet them.
    // BEGIN SOLUTION
    int rows = (H - class_h + stride_h - 1) / stride_h;
    int cols = (W - class_w + stride_w - 1) / stride_w;
    int first_r = (class_h + pad_h) % stride_h, first_s = (class_w + pad_w) % stride_w;
    int taps_r = (R - first_r + stride_h - 1) / stride_h;
    int taps_s = (S - first_s + stride_w - 1) / stride_w;
    // END SOLUTION

    // TODO(2): in tile blockIdx.x, find this thread's channel c and element n, and n's image, row and
    //          column within the class; let the block leave if its class has no such tile.
    // BEGIN SOLUTION
    int down = (C_in + TILE - 1) / TILE;
    int elements = batch * rows * cols;
    int n = blockIdx.x / down * TILE + x;
    if (n - x >= elements) return;
    int c = blockIdx.x % down * TILE + y;
    int column = n % cols, row = n / cols % rows, b = n / (cols * rows);
    // END SOLUTION

    // TODO(3): for every stretch of TILE products, fill a tile of weights and one of grad_output, with 0
    //          for what does not exist; wait; add up; wait. Store the sum, if there is such an element.
    // BEGIN SOLUTION
    __shared__ float filters[TILE][TILE], grads[TILE][TILE];
    int depth = C_out * taps_r * taps_s;
    float sum = 0.0f;
    for (int start = 0; start < depth; start += TILE) {
        int i = start + x;  // the product of this thread in the tile of weights
        int s = first_s + i % taps_s * stride_w;
        int r = first_r + i / taps_s % taps_r * stride_h;
        int k = i / (taps_s * taps_r);
        filters[y][x] = i < depth && c < C_in ? weights[((k * C_in + c) * R + r) * S + s] : 0.0f;
        i = start + y;  // and in the tile of grad_output
        int q = column + (class_w + pad_w) / stride_w - i % taps_s;
        int p = row + (class_h + pad_h) / stride_h - i / taps_s % taps_r;
        k = i / (taps_s * taps_r);
        bool inside = n < elements && p >= 0 && p < H_out && q >= 0 && q < W_out;
        grads[y][x] = i < depth && inside ? grad_output[((b * C_out + k) * H_out + p) * W_out + q] : 0.0f;
        __syncthreads();  // both tiles are full
        for (int j = 0; j < TILE; j++) {
            sum += filters[y][j] * grads[j][x];
        }
        __syncthreads();  // nobody needs them any more
    }
    int h = class_h + row * stride_h, w = class_w + column * stride_w;
    if (c < C_in && n < elements) grad_input[((b * C_in + c) * H + h) * W + w] = sum;
    // END SOLUTION
}

// One direction of a class: the number of its elements, its first tap and the number of its taps, and the position of
// element 0 under the first tap.
struct Axis { int count, first, taps, ahead; };

// at: the remainder that the class has in this direction. size: of the image; filter: taps of the whole filter.
__device__ Axis axis(int at, int size, int filter, int stride, int pad) {
    // TODO(4): the same in each direction.
    // BEGIN STUB
    // return {};
    // END STUB
    // BEGIN SOLUTION
    int first = (at + pad) % stride;
    return {(size - at + stride - 1) / stride, first, (filter - first + stride - 1) / stride, (at + pad) / stride};
    // END SOLUTION
}

extern "C" __global__ void conv_nd_backward_input(
    const float* grad_output,  // [batch, C_out, D_out, H_out, W_out]
    const float* weights,      // [C_out, C_in, T, R, S]
    float* grad_input,         // [batch, C_in, D, H, W], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w) {
    int D_out = (D + 2 * pad_d - T) / stride_d + 1;
    int H_out = (H + 2 * pad_h - R) / stride_h + 1;
    int W_out = (W + 2 * pad_w - S) / stride_w + 1;
    int x = threadIdx.x, y = threadIdx.y, down = (C_in + TILE - 1) / TILE;
    int n = blockIdx.x / down * TILE + x, c = blockIdx.x % down * TILE + y;  // this thread's element and channel
    // TODO(5): blockIdx.y counts the classes of d, h and w, those of w fastest. Find its three directions, and let the
    //          block leave if its class has no such tile. Find n's image, and its place within the class.
    // BEGIN SOLUTION
    int class_d = blockIdx.y / (stride_w * stride_h), class_h = blockIdx.y / stride_w % stride_h;
    int class_w = blockIdx.y % stride_w;
    Axis of_d = axis(class_d, D, T, stride_d, pad_d);
    Axis of_h = axis(class_h, H, R, stride_h, pad_h), of_w = axis(class_w, W, S, stride_w, pad_w);
    int plane = of_h.count * of_w.count, elements = batch * of_d.count * plane;
    if (n - x >= elements) return;
    int column = n % of_w.count, row = n / of_w.count % of_h.count;
    int slice = n / plane % of_d.count, b = n / (plane * of_d.count);
    // END SOLUTION

    // TODO(6): the walk of TODO(3), with a third direction.
    // BEGIN SOLUTION
    __shared__ float filters[TILE][TILE], grads[TILE][TILE];
    int apart = of_h.taps * of_w.taps, depth = C_out * of_d.taps * apart;
    float sum = 0.0f;
    for (int start = 0; start < depth; start += TILE) {
        int i = start + x;
        int s = of_w.first + i % of_w.taps * stride_w;
        int r = of_h.first + i / of_w.taps % of_h.taps * stride_h;
        int t = of_d.first + i / apart % of_d.taps * stride_d;
        int k = i / (apart * of_d.taps);
        bool exists = i < depth && c < C_in;
        filters[y][x] = exists ? weights[(((k * C_in + c) * T + t) * R + r) * S + s] : 0.0f;
        i = start + y;
        int q = column + of_w.ahead - i % of_w.taps;
        int p = row + of_h.ahead - i / of_w.taps % of_h.taps;
        int o = slice + of_d.ahead - i / apart % of_d.taps;
        k = i / (apart * of_d.taps);
        exists = i < depth && n < elements && o >= 0 && o < D_out && p >= 0 && p < H_out && q >= 0 && q < W_out;
        grads[y][x] = exists ? grad_output[(((b * C_out + k) * D_out + o) * H_out + p) * W_out + q] : 0.0f;
        __syncthreads();
        for (int j = 0; j < TILE; j++) sum += filters[y][j] * grads[j][x];
        __syncthreads();
    }
    int d = class_d + slice * stride_d, h = class_h + row * stride_h, w = class_w + column * stride_w;
    if (c < C_in && n < elements) grad_input[(((b * C_in + c) * D + d) * H + h) * W + w] = sum;
    // END SOLUTION
}
