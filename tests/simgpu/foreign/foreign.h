// The kernels of real programs that are computed on the host after all: those of PyTorch whose results decide what a
// program does next (fills, copies, comparisons, sums, a maximum, a concatenation), so that a flag that is read back
// and an object that is sent as bytes are right. Everything else that nvcc compiled computes nothing.
//
// A kernel is known by its mangled name. Its arguments have no description on the host, so each file here repeats the
// layout that PyTorch's headers give them.
#pragma once

#include <string>

#include "names.h"
#include "simgpu.h"

namespace simgpu::foreign {

// With no body where the kernel is not known. The name stays the caller's.
SimgpuKernel find(const char* mangled);

// By kind of kernel: false where `name` is none that the file knows.
bool find_elementwise(const TemplateName& name, SimgpuKernel* kernel);
bool find_reduction(const TemplateName& name, SimgpuKernel* kernel);
bool find_concatenation(const TemplateName& name, SimgpuKernel* kernel);

}  // namespace simgpu::foreign
