"""Right kernels of unusual structure: (puzzle, what is unusual) -> their text."""

MATMUL = """extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {{
{}
}}
"""
OWN = """int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
if (row >= M || col >= N) return;
float sum = 0.0f;
{}
C[row * N + col] = sum;"""
TILES = """constexpr int TILE = 16;
{}
extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {{
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    {}
    if (row < M && col < N) C[row * N + col] = sum;
}}
"""
STRETCHES = """for (int start = 0; start < K; start += TILE) {{
        {}
        __syncthreads();
        {}
        __syncthreads();
    }}"""
FORWARD = """extern "C" __global__ void conv2d_forward(const float* input, const float* weights, const float* bias, float* output,
    int batch, int C_in, int H, int W, int C_out, int F) {{
    int H_out = H - F + 1, W_out = W - F + 1, idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_out * H_out * W_out) return;
    int q = idx % W_out, p = idx / W_out % H_out, k = idx / (W_out * H_out) % C_out, b = idx / (W_out * H_out * C_out);
    float sum = bias[k];
    {}
    output[idx] = sum;
}}
"""
TURN = """constexpr int TILE = 32, HEIGHT = 8;
extern "C" __global__ void transpose(const float* input, float* output, int rows, int columns) {{
    {}
}}
"""


def own(body: str, before: str = "") -> str:
    return before + MATMUL.format(OWN.format(body))


def tiles(
    fill: str, add: str, declared: str = "__shared__ float a[TILE][TILE], b[TILE][TILE];", before: str = ""
) -> str:
    return TILES.format(before, declared + "\n    " + STRETCHES.format(fill, add))


FILL_A = "a[y][x] = row < M && start + x < K ? A[row * K + start + x] : 0.0f;"
FILL_B = "b[y][x] = start + y < K && col < N ? B[(start + y) * N + col] : 0.0f;"
ADD = "for (int k = 0; k < TILE; k++) sum += a[y][k] * b[k][x];"

RIGHT = {
    ("02", "k goes down"): own("for (int k = K - 1; k >= 0; k--) sum += A[row * K + k] * B[k * N + col];"),
    ("02", "pointers go back"): own(
        "const float *a = A + row * K + K, *b = B + K * N + col;\n"
        "while (a != A + row * K) { --a; b -= N; sum += *a * *b; }"
    ),
    ("02", "strides as parameters"): own(
        "sum = dot(A + row * K, 1, B + col, N, K);",
        "__device__ float dot(const float* a, int by_a, const float* b, int by_b, int n) {\n"
        "    float sum = 0.0f;\n    for (int i = 0; i < n; i++) sum += a[i * by_a] * b[i * by_b];\n    return sum;\n}\n",
    ),
    ("02", "negative strides as parameters"): own(
        "sum = dot(A + row * K + K - 1, -1, B + (K - 1) * N + col, -N, K);",
        "__device__ float dot(const float* a, int by_a, const float* b, int by_b, int n) {\n"
        "    float sum = 0.0f;\n    for (; n--; a += by_a, b += by_b) sum += *a * *b;\n    return sum;\n}\n",
    ),
    ("02", "macro"): own(
        "for (int k = 0; k < K; k++) sum += AT(A, row, k, K) * AT(B, k, col, N);",
        "#define AT(matrix, r, c, width) (matrix)[(r) * (width) + (c)]\n",
    ),
    ("02", "lookup table"): own(
        "const int next[4] = {2, 0, 3, 1};\nfor (int k0 = 0; k0 < K; k0 += 4)\n"
        "    for (int i = 0; i < 4; i++) { int k = k0 + next[i]; if (k < K) sum += A[row * K + k] * B[k * N + col]; }"
    ),
    ("02", "even steps, then odd ones"): own(
        "for (int first = 0; first < 2; first++)\n"
        "    for (int k = first; k < K; k += 2) sum += A[row * K + k] * B[k * N + col];"
    ),
    ("02", "flat index taken apart"): own(
        "int i = row * N + col;\nfor (int j = 0; j < K; j++) sum += A[i / N * K + j] * B[j * N + i % N];"
    ),
    ("02", "object"): own(
        "Matrix a{A, K}, b{B, N};\nfor (int k = 0; k < K; k++) sum += a(row, k) * b(k, col);",
        "struct Matrix {\n    const float* p;\n    int width;\n"
        "    __device__ float operator()(int r, int c) const { return p[r * width + c]; }\n};\n",
    ),
    ("02", "template"): own(
        "sum = part<4>(A + row * K, B + col, N, K);",
        "template <int U> __device__ float part(const float* a, const float* b, int N, int K) {\n"
        "    float sum = 0.0f;\n    int k = 0;\n    for (; k + U <= K; k += U)\n"
        "        for (int u = 0; u < U; u++) sum += a[k + u] * b[(k + u) * N];\n"
        "    for (; k < K; k++) sum += a[k] * b[k * N];\n    return sum;\n}\n",
    ),
    ("02", "sum in the output"): MATMUL.format(
        "int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;\n"
        "if (row >= M || col >= N) return;\nC[row * N + col] = 0.0f;\n"
        "for (int k = 0; k < K; k++) C[row * N + col] += A[row * K + k] * B[k * N + col];"
    ),
    ("02", "column by column"): MATMUL.format(
        "int threads = gridDim.x * gridDim.y * blockDim.x * blockDim.y;\n"
        "int t = ((blockIdx.y * gridDim.x + blockIdx.x) * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n"
        "for (int i = t; i < M * N; i += threads) {\n    int row = i % M, col = i / M;\n    float sum = 0.0f;\n"
        "    for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * N + col];\n    C[row * N + col] = sum;\n}"
    ),
    ("02", "two columns a thread"): MATMUL.format(
        "int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;\n"
        "if (row >= M || col >= N || col % 2) return;\nfloat sum[2] = {};\n"
        "for (int k = 0; k < K; k++)\n    for (int j = 0; j < 2 && col + j < N; j++) sum[j] += A[row * K + k] * B[k * N + col + j];\n"
        "for (int j = 0; j < 2 && col + j < N; j++) C[row * N + col + j] = sum[j];"
    ),
    ("02", "unsigned and wide"): own(
        "unsigned long long a = (unsigned long long)row * K, b = col;\n"
        "for (unsigned k = K; k-- > 0u;) sum += A[a + k] * B[b + (size_t)k * N];"
    ),
    ("02", "pairs where they are aligned"): own(
        "int k = 0;\nif (K % 2 == 0)\n    for (; k < K; k += 2) {\n"
        "        float2 a = *reinterpret_cast<const float2*>(A + row * K + k);\n"
        "        sum += a.x * B[k * N + col] + a.y * B[(k + 1) * N + col];\n    }\n"
        "for (; k < K; k++) sum += A[row * K + k] * B[k * N + col];"
    ),
    ("26", "padded tiles"): tiles(
        FILL_A + FILL_B, ADD, "__shared__ float a[TILE][TILE + 1], b[TILE][TILE + 3];"
    ),
    ("26", "tile of A turned"): tiles(
        FILL_A.replace("a[y][x]", "a[x][y]") + FILL_B, ADD.replace("a[y][k]", "a[k][y]")
    ),
    ("26", "tile of B turned"): tiles(
        FILL_A + FILL_B.replace("b[y][x]", "b[x][y]"), ADD.replace("b[k][x]", "b[x][k]")
    ),
    ("26", "swizzled"): tiles(
        FILL_A.replace("a[y][x]", "a[y][x ^ y]") + FILL_B.replace("b[y][x]", "b[y][(x + y) % TILE]"),
        "for (int k = 0; k < TILE; k++) sum += a[y][k ^ y] * b[k][(x + k) % TILE];",
    ),
    ("26", "flat tiles"): tiles(
        FILL_A.replace("a[y][x]", "*(a + y * TILE + x)") + FILL_B.replace("b[y][x]", "b[y * TILE + x]"),
        "for (float *p = a + y * TILE, *q = b + x; q < b + TILE * TILE; q += TILE) sum += *p++ * *q;",
        "__shared__ float tiles[2 * TILE * TILE];\n    float *a = tiles, *b = tiles + TILE * TILE;",
    ),
    ("26", "two stretches at once"): TILES.format(
        "",
        "__shared__ float a[TILE][2 * TILE], b[2 * TILE][TILE];\n"
        "    for (int start = 0; start < K; start += 2 * TILE) {\n        for (int i = 0; i < 2; i++) {\n"
        "            int u = start + i * TILE + x, v = start + i * TILE + y;\n"
        "            a[y][i * TILE + x] = row < M && u < K ? A[row * K + u] : 0.0f;\n"
        "            b[i * TILE + y][x] = v < K && col < N ? B[v * N + col] : 0.0f;\n        }\n        __syncthreads();\n"
        "        for (int k = 2 * TILE - 1; k >= 0; k--) sum += a[y][k] * b[k][x];\n        __syncthreads();\n    }",
    ),
    ("26", "two buffers"): TILES.format(
        "",
        "__shared__ float a[2][TILE][TILE], b[2][TILE][TILE];\n    int now = 0;\n"
        "    for (int start = 0; start < K; start += TILE, now ^= 1) {\n"
        "        a[now][y][x] = row < M && start + x < K ? A[row * K + start + x] : 0.0f;\n"
        "        b[now][y][x] = start + y < K && col < N ? B[(start + y) * N + col] : 0.0f;\n        __syncthreads();\n"
        "        for (int k = 0; k < TILE; k++) sum += a[now][y][k] * b[now][k][x];\n    }",
    ),
    ("26", "threads fill each other's places"): tiles(
        "int u = y, v = x, m = row - y + v, n = col - x + u;\n"
        "        a[v][u] = m < M && start + u < K ? A[m * K + start + u] : 0.0f;\n"
        "        b[v][u] = start + v < K && n < N ? B[(start + v) * N + n] : 0.0f;",
        ADD,
    ),
    ("26", "first warp fills"): tiles(
        "for (int i = y * TILE + x; y * TILE < 32 && i < TILE * TILE; i += 32) {\n"
        "            int v = i / TILE, u = i % TILE, m = row - y + v, n = col - x + u;\n"
        "            a[v][u] = m < M && start + u < K ? A[m * K + start + u] : 0.0f;\n"
        "            b[v][u] = start + v < K && n < N ? B[(start + v) * N + n] : 0.0f;\n        }",
        ADD,
    ),
    ("26", "last stretch first"): TILES.format(
        "",
        "__shared__ float a[TILE][TILE], b[TILE][TILE];\n"
        "    for (int start = (K - 1) / TILE * TILE; start >= 0; start -= TILE) {\n        "
        + FILL_A
        + FILL_B
        + "\n        __syncthreads();\n        "
        + ADD
        + "\n        __syncthreads();\n    }",
    ),
    ("26", "helper fills"): tiles(
        "fill(a, A, M, K, row, start + x, x, y);\n        fill(b, B, K, N, start + y, col, x, y);",
        ADD,
        before="__device__ void fill(float (*tile)[TILE], const float* from, int rows, int columns, int r, int c, int x, int y) {\n"
        "    tile[y][x] = r < rows && c < columns ? from[r * columns + c] : 0.0f;\n}",
    ),
    ("26", "rows from a table"): tiles(
        "if (x == 0) at[y] = (start + y) * N;\n        __syncthreads();\n        "
        + FILL_A
        + "b[y][x] = start + y < K && col < N ? B[at[y] + col] : 0.0f;",
        ADD,
        "__shared__ float a[TILE][TILE], b[TILE][TILE];\n    __shared__ int at[TILE];",
    ),
    ("26", "only A through a tile"): tiles(
        FILL_A,
        "for (int k = 0; k < TILE && start + k < K && col < N; k++) sum += a[y][k] * B[(start + k) * N + col];",
        "__shared__ float a[TILE][TILE];",
    ),
    ("26", "tile of doubles"): tiles(
        FILL_A + FILL_B, ADD, "__shared__ double a[TILE][TILE];\n    __shared__ float b[TILE][TILE];"
    ),
    ("26", "tile scaled"): tiles(
        FILL_A.replace("A[row * K + start + x]", "2.0f * A[row * K + start + x]") + FILL_B,
        ADD.replace("sum +=", "sum += 0.5f *"),
    ),
    ("25", "swizzled"): TURN.format(
        "__shared__ float tile[TILE * TILE];\n    int x = threadIdx.x;\n"
        "    for (int i = threadIdx.y; i < TILE; i += HEIGHT) {\n"
        "        int r = blockIdx.y * TILE + i, c = blockIdx.x * TILE + x;\n"
        "        if (r < rows && c < columns) tile[i * TILE + (x ^ i)] = input[r * columns + c];\n    }\n    __syncthreads();\n"
        "    for (int i = threadIdx.y; i < TILE; i += HEIGHT) {\n"
        "        int r = blockIdx.x * TILE + i, c = blockIdx.y * TILE + x;\n"
        "        if (r < columns && c < rows) output[r * rows + c] = tile[x * TILE + (i ^ x)];\n    }"
    ),
    ("25", "no tile"): TURN.format(
        "int c = blockIdx.x * TILE + threadIdx.x;\n    for (int i = HEIGHT - 1 - threadIdx.y; i < TILE; i += HEIGHT) {\n"
        "        int r = blockIdx.y * TILE + i;\n        if (r < rows && c < columns) output[c * rows + r] = input[r * columns + c];\n    }"
    ),
    ("25", "pointers"): TURN.format(
        "int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y * TILE + threadIdx.y;\n"
        "    const float* from = input + r * columns + c;\n    float* to = output + c * rows + r;\n"
        "    for (; r < min(rows, (int)(blockIdx.y + 1) * TILE) && c < columns; r += HEIGHT, from += HEIGHT * columns, to += HEIGHT) *to = *from;"
    ),
    ("25", "blocks along diagonals"): TURN.format(
        "__shared__ float tile[TILE][TILE + 1];\n    int x = threadIdx.x, to = (blockIdx.x + blockIdx.y) % gridDim.x;\n"
        "    for (int i = threadIdx.y; i < TILE; i += HEIGHT) {\n        int r = blockIdx.y * TILE + i, c = to * TILE + x;\n"
        "        if (r < rows && c < columns) tile[x][i] = input[r * columns + c];\n    }\n    __syncthreads();\n"
        "    for (int i = threadIdx.y; i < TILE; i += HEIGHT) {\n        int r = to * TILE + i, c = blockIdx.y * TILE + x;\n"
        "        if (r < columns && c < rows) output[r * rows + c] = tile[i][x];\n    }"
    ),
    ("07", "taps outside"): FORWARD.format(
        "for (int r = F - 1; r >= 0; r--)\n        for (int s = 0; s < F; s++)\n            for (int c = C_in; c-- > 0;)\n"
        "                sum += weights[((k * C_in + c) * F + r) * F + s] * input[((b * C_in + c) * H + p + r) * W + q + s];"
    ),
    ("07", "one loop"): FORWARD.format(
        "for (int i = 0; i < C_in * F * F; i++) {\n        int s = i % F, r = i / F % F, c = i / (F * F);\n"
        "        sum += weights[k * C_in * F * F + i] * input[((b * C_in + c) * H + p + r) * W + q + s];\n    }"
    ),
    ("07", "pointers"): FORWARD.format(
        "const float *w = weights + k * C_in * F * F, *x = input + (b * C_in * H + p) * W + q;\n"
        "    for (int c = 0; c < C_in; c++, x += (H - F) * W)\n        for (int r = 0; r < F; r++, x += W)\n"
        "            for (int s = 0; s < F; s++) sum += *w++ * x[s];"
    ),
    ("07", "positions of the input"): FORWARD.format(
        "for (int c = 0; c < C_in; c++)\n        for (int h = p + F - 1; h >= p; h--)\n            for (int w = q; w < q + F; w++)\n"
        "                sum += weights[((k * C_in + c) * F + h - p) * F + w - q] * input[((b * C_in + c) * H + h) * W + w];"
    ),
    ("07", "clamped, and not counted"): FORWARD.format(
        "for (int c = 0; c < C_in; c++)\n        for (int r = 0; r < F; r++)\n            for (int s = -1; s < F; s++) {\n"
        "                int w = max(q + s, 0);\n                float x = input[((b * C_in + c) * H + p + r) * W + w];\n"
        "                if (s >= 0) sum += weights[((k * C_in + c) * F + r) * F + s] * x;\n            }"
    ),
}

#: changes to solutions that leave them right
CHANGED = {
    ("35", "places of the sum exchanged in both factors"): (
        ("for (int k = 0; k < 32; k += 8) {", "for (int k = 24; k >= 0; k -= 8) {"),
        ("[k + t + e / 2 * 4]", "[k + 2 * t + e / 2]"),
        ("[k + t + e * 4]", "[k + 2 * t + e]"),
    ),
}
