/* A library that calls CUDA before the program does, as libc10_cuda does before libtorch_cuda launches kernels. Never
 * installed. */
#include <cuda_runtime_api.h>

/* Looks at the result: a call that ends with a jump would be the program's. */
int calls_cuda_first(void) { return cudaEventRecord(NULL, NULL) == cudaSuccess; }
