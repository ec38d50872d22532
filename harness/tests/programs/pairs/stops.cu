#include <cstdio>
#include <cstdlib>
#include <vector>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif

struct Node { int value; Node* next; };
static int deep(int n) { volatile char room[4096]; room[0] = n; return n ? deep(n - 1) + room[0] : 0; }  // stopped 5
template <typename T> T at(const std::vector<T>& v, size_t i) { return v[i]; }                          // index 2

int main(int argc, char** argv) {
    int which = atoi(argv[1]), size = 10;
    float* d;
    cudaMalloc(&d, 400);
    std::vector<float> h(size);
    int local[4] = {1, 2, 3, 4};
    Node node{1, nullptr};
    switch (which) {
    case 0: { int* p = EITHER(nullptr, &size); *p = 10; break; }              // stopped 0
    case 1: if (EITHER(1, 0)) d[3] = 1; break;                                // on-device 1
    case 2: printf("%g\n", at(h, EITHER(size, 9))); break;
    case 3: printf("%d\n", local[EITHER(which + 1, which)]); break;           // stopped 3
    case 4: printf("%d\n", size / EITHER((argc - 2), argc)); break;             // stopped 4
    case 5: printf("%d\n", deep(EITHER(1 << 24, 10))); break;
    case 6: printf("%d\n", EITHER(node.next, (&node))->value); break;         // stopped 6
    case 7: { char* volatile far = (char*)&size + EITHER((1l << 45), 0); *far = 10; break; }  // stopped 7
    case 8: { auto use = [&](float* p) { return p[1]; }; printf("%g\n", use(EITHER(d, h.data()))); break; }  // on-device 8
    }
    cudaFree(d);
}
