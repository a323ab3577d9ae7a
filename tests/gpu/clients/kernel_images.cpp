#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "kernels.h"
#include "simgpu.h"

namespace gpu_check {

// sm_70 and PTX 6.4: old enough for every driver from CUDA 11.8 on, new enough for loads of system scope.
const char* const kPtx = R"(
.version 6.4
.target sm_70
.address_size 64

.visible .entry gpu_check_hold(.param .u64 flag, .param .u64 bound_ns)
{
    .reg .pred %p<3>;
    .reg .b32 %r<2>;
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [flag];
    ld.param.u64 %d2, [bound_ns];
    cvta.to.global.u64 %d1, %d1;
    mov.u64 %d3, %globaltimer;
again:
    ld.relaxed.sys.global.u32 %r1, [%d1];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra done;
    mov.u64 %d4, %globaltimer;
    sub.u64 %d5, %d4, %d3;
    setp.lt.u64 %p2, %d5, %d2;
    @%p2 bra again;
done:
    ret;
}

.visible .entry gpu_check_busy(.param .u64 duration_ns)
{
    .reg .pred %p<2>;
    .reg .b64 %d<5>;
    ld.param.u64 %d1, [duration_ns];
    mov.u64 %d2, %globaltimer;
again:
    mov.u64 %d3, %globaltimer;
    sub.u64 %d4, %d3, %d2;
    setp.lt.u64 %p1, %d4, %d1;
    @%p1 bra again;
    ret;
}

.visible .entry gpu_check_add(.param .u64 data, .param .u32 count, .param .f32 value)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [data];
    ld.param.u32 %r1, [count];
    ld.param.f32 %f1, [value];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra done;
    cvta.to.global.u64 %d1, %d1;
    mul.wide.u32 %d2, %r5, 4;
    add.u64 %d3, %d1, %d2;
    ld.global.f32 %f2, [%d3];
    add.f32 %f3, %f2, %f1;
    st.global.f32 [%d3], %f3;
done:
    ret;
}
)";

namespace {

using Clock = std::chrono::steady_clock;

template <typename T>
T argument(void** args, int index) {
    T value;
    std::memcpy(&value, args[index], sizeof(value));
    return value;
}

// Sleeps between looks: a GPU's work costs the host nothing, and here many share few cores.
template <typename Goes>
void wait_while(void** args, int arg_count, uint64_t bound_ns, Goes goes) {
    const auto end = Clock::now() + std::chrono::nanoseconds(bound_ns);
    std::atomic_ref<int32_t> cancelled(*static_cast<int32_t*>(args[arg_count]));
    while (goes() && cancelled.load() == 0 && Clock::now() < end) {
        std::this_thread::sleep_for(std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(2)));
    }
}

void hold_body(void** args) {
    std::atomic_ref<uint32_t> flag(*argument<uint32_t*>(args, 0));
    wait_while(args, 2, argument<uint64_t>(args, 1), [&] { return flag.load() == 0; });
}

void busy_body(void** args) {
    wait_while(args, 1, argument<uint64_t>(args, 0), [] { return true; });
}

void add_body(void** args) {
    float* const data = argument<float*>(args, 0);
    for (uint32_t i = 0; i < argument<uint32_t>(args, 1); ++i) {
        data[i] += argument<float>(args, 2);
    }
}

constexpr SimgpuKernel kSimulated[] = {{"gpu_check_hold", hold_body, 2, {8, 8}},
                                       {"gpu_check_busy", busy_body, 1, {8}},
                                       {"gpu_check_add", add_body, 3, {8, 4, 4}}};

}  // namespace

const void* simulated_kernels() {
    static const SimgpuFatBinary binary = {SIMGPU_FATBIN_MAGIC, 3, kSimulated};
    return &binary;
}

}  // namespace gpu_check
