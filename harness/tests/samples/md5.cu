// MD5 of messages of up to 55 bytes, one per thread, in rows of `width` bytes.

__constant__ unsigned char SHIFT[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

extern "C" __global__ void md5(const unsigned char* messages, const int* lengths, uint4* digests, const unsigned* sines, int count, int width) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count) return;
    unsigned word[16] = {0};
    unsigned char* bytes = reinterpret_cast<unsigned char*>(word);
    int length = lengths[t];
    for (int i = 0; i < length; i++) bytes[i] = messages[t * width + i];
    bytes[length] = 0x80;
    word[14] = length * 8;
    unsigned a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
    const uint4 start = make_uint4(a, b, c, d);
    for (int i = 0; i < 64; i++) {
        unsigned f;
        int g;
        switch (i / 16) {
            case 0: f = (b & c) | (~b & d); g = i; break;
            case 1: f = (d & b) | (~d & c); g = (5 * i + 1) % 16; break;
            case 2: f = b ^ c ^ d; g = (3 * i + 5) % 16; break;
            default: f = c ^ (b | ~d); g = 7 * i % 16;
        }
        unsigned sum = a + f + sines[i] + word[g];
        int s = SHIFT[i / 16][i % 4];
        a = d; d = c; c = b;
        b += sum << s | sum >> (32 - s);
    }
    digests[t] = make_uint4(start.x + a, start.y + b, start.z + c, start.w + d);
}
