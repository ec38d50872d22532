extern "C" __global__ void none() {}
