#include <cstdio>
#include <cstdlib>
#include <vector>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif

int main(int argc, char** argv) {
    char* few = (char*)malloc(37);  // overrun 0
    float* many = new float[1000];
    std::vector<int> grown(1000, 3);
    for (int i = 0; i < 1000; i++) grown.push_back(i);
    void* moved = realloc(malloc(100), 10000);
    volatile int i = argv[1][0] == '0' ? EITHER(37, 36) : 36, j = argv[1][0] == '1' ? EITHER(1000, 999) : 999;
    few[i] = 1;
    many[j] = 1;  // stopped 1
    printf("%d %g %zu\n", few[i], many[j], grown.size());
    free(few);
    free(moved);
    delete[] many;
}
