// Graphs, recorded and built: exits with the number of the first thing that is not as it should be.
#include <cstdlib>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif

__global__ void add(int* a, int n, int v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += v;
}
void count(void* calls) { ++*(int*)calls; }
void expect(int number, bool right) { if (!right) exit(number); }

int main() {
    const int n = 1000, bytes = n * sizeof(int);
    int *d, *h, *back, calls = 0, v = 3, size = n;
    cudaMalloc(&d, bytes); cudaMallocHost(&h, bytes); cudaMallocHost(&back, bytes);
    for (int i = 0; i < n; i++) h[i] = i;
    cudaStream_t s, t;
    cudaStreamCreate(&s); cudaStreamCreate(&t);
    cudaEvent_t forked, joined;
    cudaEventCreate(&forked); cudaEventCreate(&joined);

    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaMemcpyAsync(d, h, bytes, cudaMemcpyHostToDevice, s);
    cudaEventRecord(forked, s);
    cudaStreamWaitEvent(t, forked, 0);
    add<<<4, 256, 0, t>>>(d, n, 10);
    cudaEventRecord(joined, t);
    cudaStreamWaitEvent(s, joined, 0);
    cudaLaunchHostFunc(s, count, &calls);
    cudaMemcpyAsync(back, d, bytes, cudaMemcpyDeviceToHost, s);
    EITHER(cudaDeviceSynchronize(), (void)0);  // recording
    expect(EITHER(0, 1), cudaStreamEndCapture(s, &graph) == cudaSuccess);
    size_t nodes;
    cudaGraphGetNodes(graph, nullptr, &nodes);
    expect(2, nodes == 4 && calls == 0);
    cudaGraphInstantiate(&run, graph, nullptr, nullptr, 0);
    cudaGraphDestroy(graph);
    for (int i = 0; i < 2; i++) cudaGraphLaunch(run, s);
    cudaStreamSynchronize(s);
    expect(3, calls == 2 && back[7] == 17);
    cudaGraphExecDestroy(run);
    expect(4, cudaGraphExecDestroy(run) == cudaErrorInvalidResourceHandle);

    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);  // a stream that never comes back
    cudaEventRecord(forked, s);
    cudaStreamWaitEvent(t, forked, 0);
    add<<<4, 256, 0, t>>>(d, n, 10);
    expect(5, cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureUnjoined && !graph);

    cudaGraphNode_t filled, added, copied;
    cudaGraphCreate(&graph, 0);
    cudaMemsetParams fill = {};
    fill.dst = d; fill.elementSize = 4; fill.value = 70000; fill.width = n; fill.height = 1;
    void* arguments[] = {&d, &size, &v};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void*)add; kernel.gridDim = dim3(4); kernel.blockDim = dim3(256); kernel.kernelParams = arguments;
    cudaGraphAddMemcpyNode1D(&copied, graph, nullptr, 0, back, d, bytes, cudaMemcpyDeviceToHost);
    cudaGraphAddKernelNode(&added, graph, nullptr, 0, &kernel);
    cudaGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill);
    cudaGraphAddDependencies(graph, &filled, &added, 1);
    cudaGraphAddDependencies(graph, &added, &copied, 1);
    cudaGraphInstantiate(&run, graph, 0);
    cudaGraphLaunch(run, 0);
    cudaDeviceSynchronize();
    expect(6, back[9] == 70003);
    v = 30;
    cudaGraphExecKernelNodeSetParams(run, added, &kernel);
    cudaGraphLaunch(run, 0);
    cudaDeviceSynchronize();
    expect(7, back[9] == 70030);
    cudaGraphAddDependencies(graph, &copied, &filled, 1);
    expect(8, cudaGraphInstantiate(&run, graph, 0) == cudaErrorInvalidValue);  // a circle
    cudaGraphDestroy(graph);
    cudaFree(d); cudaFreeHost(h); cudaFreeHost(back);
}
