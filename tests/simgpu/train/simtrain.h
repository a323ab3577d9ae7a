/* The training loop of titan-sim for a program in another language: what train.py loads with ctypes, RTLD_LOCAL, as
 * PyTorch loads its libraries. Links libnccl.so.2 and libcudart. Errors end the process with titan-sim's exit codes. */
#ifndef SIMTRAIN_H
#define SIMTRAIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kSimtrainIdBytes = 128 };

/* What the caller shall do in its own code at the start of a step. */
enum { kSimtrainNothing = 0, kSimtrainSpin = 1, kSimtrainSleep = 2, kSimtrainExit = 3 };

void* simtrain_create(int rank, int device, int dp, int tp, int pp, uint64_t bytes, double step_ms);
/* Number of communicators, and the caller's place in the group of each. */
int simtrain_comm_count(void);
const char* simtrain_comm_name(int index);
void simtrain_membership(void* trainer, int index, int* color, int* rank, int* size);
void simtrain_new_id(void* trainer, unsigned char id[kSimtrainIdBytes]);
void simtrain_init_comm(void* trainer, int index, const unsigned char id[kSimtrainIdBytes]);

/* Returns kSimtrain...; `parameter` is milliseconds (sleep) or the exit status. */
int simtrain_begin_step(void* trainer, int64_t step, int64_t* parameter);
/* A step's work as a CUDA graph, from the second step on: instead of the three calls after it. */
void simtrain_use_graphs(void* trainer);
void simtrain_work(void* trainer);
void simtrain_forward(void* trainer);
void simtrain_backward(void* trainer);
void simtrain_optimizer(void* trainer);
void simtrain_checkpoint(void* trainer);
void simtrain_finish_step(void* trainer);
void simtrain_destroy(void* trainer);

#ifdef __cplusplus
}
#endif
#endif
