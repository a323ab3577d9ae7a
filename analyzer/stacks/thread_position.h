// Positions of a process's threads, from the stacks in its dump, for rank states, findings and digests.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "formats/ring/ring_image.h"
#include "named_stacks.h"
#include "run.h"

namespace titan::analyzer {

// Fills Process::positions; its threads must be there. An image that cannot be read leaves it empty.
void decode_positions(std::span<const std::byte> image, Symbols& symbols, Process& process);

// Takes thread positions from an earlier dump of the same process, if the threads have not moved since.
void keep_positions(const Process& dumped, Process& later);

// The position of the thread that does the program's work; null where the dump has no stack of it.
const ThreadPosition* working_position(const Process& process);

// Does the thread wait in a lock, a queue or a join of Python's, and so for another thread of its process?
bool waits_for_a_thread(const Process& process, const ThreadPosition& position);

// "train_step at train.py:40, in next_batch at data.py:88, inside epoll_wait_loop (libio.so)": the program's own line
// first; empty: nothing is known.
std::string place_text(const Process& process, const ThreadPosition& position);
// The same without the native function inside of Python's.
std::string place_in_program(const Process& process, const ThreadPosition& position);

// --- Waits for other ranks that do not go through NCCL: Gloo, c10d's store, MPI. No call of them is recorded; stacks
// show them.

// "Gloo", "the store", "MPI": what the thread waits in; empty where its stack shows no such wait.
std::string_view wait_outside_nccl(const Process& process, const ThreadPosition& position);

// The thread waits for another process: in one of those waits, or for what comes over a socket.
bool waits_for_an_answer(const Process& process, const ThreadPosition& position);

// --- Samples of stacks in a ring, for stragglers, flame graphs and digests.

// Fills Process::stack_samples. An image that cannot be read leaves it empty.
void decode_samples(const format::RingImage& ring, Symbols& symbols, Process& process);

}  // namespace titan::analyzer
