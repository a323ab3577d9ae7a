/* Programs that forbid the processor's time stamp counter (PR_SET_TSC), as simulators and replayers do: each reading
   becomes SIGSEGV, which the program's handler answers with a counter of its own. Before they use NCCL, or after. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <sys/stat.h>

static unsigned long long own_counter = 1000000;
static unsigned answered;

static void answer(int signal_number, siginfo_t* info, void* context) {
    (void)info;
    greg_t* const registers = ((ucontext_t*)context)->uc_mcontext.gregs;
    const unsigned char* const at = (const unsigned char*)registers[REG_RIP];
    const int plain = at[0] == 0x0f && at[1] == 0x31, with_id = at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xf9;
    if (!plain && !with_id) {
        signal(signal_number, SIG_DFL);
        return;
    }
    ++answered;
    own_counter += 1000;
    registers[REG_RAX] = (greg_t)(own_counter & 0xffffffff);
    registers[REG_RDX] = (greg_t)(own_counter >> 32);
    if (with_id) {
        registers[REG_RCX] = 0;
    }
    registers[REG_RIP] += plain ? 2 : 3;
}

static void forbid(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (sigaction(SIGSEGV, &action, NULL) != 0 || prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) {
        puts("not allowed");
        exit(77);
    }
    const unsigned long long first = __rdtsc();
    printf("own counter %s\n", __rdtsc() == first + 1000 ? "counts" : "does not count");
}

static void check(int good, const char* what) {
    if (!good) {
        printf("%s failed\n", what);
        exit(1);
    }
}

int main(int argc, char** argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int before = argc > 1 && strcmp(argv[1], "before") == 0;
    ncclUniqueId id;
    if (before) {  // no thread but this one has a part in it
        forbid();
        for (int i = 0; i < 20; ++i) {
            check(
                ncclGetUniqueId(&id) == ncclSuccess && ncclGroupStart() == ncclSuccess && ncclGroupEnd() == ncclSuccess,
                "NCCL");
            usleep(20000);
        }
        puts("finished");
        return 0;
    }
    ncclComm_t comm;
    cudaStream_t stream;
    void* buffer;
    check(cudaStreamCreate(&stream) == cudaSuccess && cudaMalloc(&buffer, 1024) == cudaSuccess, "CUDA");
    check(ncclGetUniqueId(&id) == ncclSuccess && ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess, "NCCL");
    check(ncclAllReduce(buffer, buffer, 16, ncclFloat32, ncclSum, comm, stream) == ncclSuccess, "all_reduce");
    check(cudaStreamSynchronize(stream) == cudaSuccess, "sync");
    puts("used once");
    forbid();
    check(ncclAllReduce(buffer, buffer, 16, ncclFloat32, ncclSum, comm, stream) == ncclSuccess, "all_reduce");
    check(cudaStreamSynchronize(stream) == cudaSuccess, "sync");
    puts("ready");
    char go[4096];
    snprintf(go, sizeof go, "%s/go", getenv("E2E_MEET"));
    struct stat status;
    while (stat(go, &status) != 0) {
        usleep(5000);
    }
    check(ncclCommDestroy(comm) == ncclSuccess, "destroy");
    puts("finished");
    return 0;
}
