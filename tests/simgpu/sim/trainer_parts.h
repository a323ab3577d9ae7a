// What a trainer is made of, for its own files alone.
#pragma once

#include "check.h"
#include "trainer.h"

namespace simgpu {

// Device memory of a rank, all of it float32.
struct Trainer::Buffers {
    float *activation, *gathered, *activation_in, *gradient, *gradient_in, *bucket, *shard, *parameters, *norm,
        *weights, *small, *scratch;

    Buffers(size_t count, const Layout& layout, size_t scratch_size) {
        const auto dp = static_cast<size_t>(layout.dp), tp = static_cast<size_t>(layout.tp);
        for (auto [to, size] : {std::pair{&activation, count},
                                {&gathered, count * tp},
                                {&activation_in, count},
                                {&gradient, count},
                                {&gradient_in, count},
                                {&bucket, count * dp},
                                {&shard, count},
                                {&parameters, count * dp},
                                {&norm, size_t{1}},
                                {&weights, count},
                                {&small, size_t{1}},
                                {&scratch, scratch_size / sizeof(float)}}) {
            CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(to), size * sizeof(float)));
            CUDA_CHECK(cudaMemset(*to, 0, size * sizeof(float)));
        }
        CUDA_CHECK(cudaDeviceSynchronize());  // the streams of the steps do not wait for the default one
    }
};

}  // namespace simgpu
