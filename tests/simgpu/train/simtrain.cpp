#include "simtrain.h"

#include <cstring>

#include "check.h"
#include "trainer.h"

using simgpu::Trainer;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

Trainer& self(void* trainer) { return *static_cast<Trainer*>(trainer); }

const std::string& name_of(int index) { return Trainer::comm_names()[static_cast<size_t>(index)]; }

}  // namespace

EXPORT void* simtrain_create(int rank, int device, int dp, int tp, int pp, uint64_t bytes, double step_ms) {
    simgpu::TrainOptions options;
    options.layout = {dp, tp, pp};
    options.bytes = bytes;
    options.step_ms = step_ms;
    return new Trainer(options, rank, device);
}

EXPORT int simtrain_comm_count(void) { return static_cast<int>(Trainer::comm_names().size()); }
EXPORT const char* simtrain_comm_name(int index) { return name_of(index).c_str(); }

EXPORT void simtrain_membership(void* trainer, int index, int* color, int* rank, int* size) {
    const simgpu::Membership group = self(trainer).member_of(name_of(index));
    *color = group.color;
    *rank = group.rank;
    *size = group.size;
}

EXPORT void simtrain_new_id(void*, unsigned char* bytes) {
    ncclUniqueId id;
    NCCL_CHECK(ncclGetUniqueId(&id));
    std::memcpy(bytes, id.internal, sizeof(id.internal));
}

EXPORT void simtrain_init_comm(void* trainer, int index, const unsigned char* bytes) {
    self(trainer).init_comm(name_of(index), [bytes] {
        ncclUniqueId id;
        std::memcpy(id.internal, bytes, sizeof(id.internal));
        return id;
    });
}

EXPORT int simtrain_begin_step(void* trainer, int64_t step, int64_t* parameter) {
    using simgpu::FaultAction;
    Trainer& one = self(trainer);
    one.begin_step(step, /*act_faults=*/false);
    int answer = kSimtrainNothing;
    // Being stuck, slow or gone are things of the caller's language: its stack shall show them.
    for (const simgpu::Fault* fault :
         one.state().faults.at({simgpu::FaultPlace::kAnywhere, one.state().rank, "", step, 0, 0})) {
        switch (fault->action) {
            case FaultAction::kSpin: answer = kSimtrainSpin; break;
            case FaultAction::kSleep:
                answer = kSimtrainSleep;
                *parameter = fault->ms;
                break;
            case FaultAction::kExit:
                answer = kSimtrainExit;
                *parameter = fault->code;
                break;
            default: one.state().act(*fault); continue;
        }
        simgpu::say("fault: %s", fault->text.c_str());
    }
    return answer;
}

EXPORT void simtrain_use_graphs(void* trainer) { self(trainer).use_graphs(); }
EXPORT void simtrain_work(void* trainer) { self(trainer).work(); }
EXPORT void simtrain_forward(void* trainer) { self(trainer).forward(); }
EXPORT void simtrain_backward(void* trainer) { self(trainer).backward(); }
EXPORT void simtrain_optimizer(void* trainer) { self(trainer).optimizer(); }
EXPORT void simtrain_checkpoint(void* trainer) { self(trainer).checkpoint(); }
EXPORT void simtrain_finish_step(void* trainer) { self(trainer).finish_step(); }
EXPORT void simtrain_destroy(void* trainer) { self(trainer).destroy_comms(); }
