// Every datatype with every reduction, against a scalar reference.
#include <algorithm>
#include <string>

#include "node.h"

using namespace simgpu_test;

namespace {

constexpr int kReduceRanks = 4;
constexpr size_t kCount = 37;

template <typename T>
struct TypeOf;
// clang-format off
#define TYPES(X)                                                                                      \
    X(int8_t, ncclInt8) X(uint8_t, ncclUint8) X(int32_t, ncclInt32) X(uint32_t, ncclUint32)           \
    X(int64_t, ncclInt64) X(uint64_t, ncclUint64) X(__half, ncclFloat16) X(__nv_bfloat16, ncclBfloat16) \
    X(float, ncclFloat32) X(double, ncclFloat64) X(__nv_fp8_e4m3, ncclFloat8e4m3) X(__nv_fp8_e5m2, ncclFloat8e5m2)
// clang-format on
#define ROW(type, value)                                \
    template <>                                         \
    struct TypeOf<type> {                               \
        static constexpr ncclDataType_t kValue = value; \
    };
TYPES(ROW)
#undef ROW

// Small numbers, exact in every type; so are their sums, products and means.
double input(int rank, size_t i) { return rank == 0 ? 2 : rank == 1 ? 1 : (i % 2 ? 2 : rank == 2 ? 1 : 4); }

double reference(ncclRedOp_t op, size_t i) {
    double value = input(0, i);
    for (int r = 1; r < kReduceRanks; ++r) {
        const double next = input(r, i);
        value = op == ncclProd  ? value * next
                : op == ncclMax ? std::max(value, next)
                : op == ncclMin ? std::min(value, next)
                                : value + next;
    }
    return op == ncclAvg ? value / kReduceRanks : value;
}

template <typename T>
T make(double value) {
    return static_cast<T>(static_cast<float>(value));
}

template <typename T>
double number(T value) {
    return static_cast<double>(static_cast<float>(value));
}

template <typename T>
void check_type(Node& node) {
    const ncclDataType_t type = TypeOf<T>::kValue;
    for (ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
        CAPTURE(type);
        CAPTURE(op);
        std::vector<std::vector<T>> in(kReduceRanks), out(kReduceRanks), scattered(kReduceRanks);
        for (int r = 0; r < kReduceRanks; ++r) {
            const auto at = static_cast<size_t>(r);
            for (size_t i = 0; i < kCount * kReduceRanks; ++i) {
                in[at].push_back(make<T>(input(r, i)));
            }
            out[at].resize(kCount);
            scattered[at].resize(kCount);
        }
        REQUIRE(node.all([&](int r, ncclComm_t comm, cudaStream_t stream) {
            const auto at = static_cast<size_t>(r);
            ncclAllReduce(in[at].data(), out[at].data(), kCount, type, op, comm, stream);
            return ncclReduceScatter(in[at].data(), scattered[at].data(), kCount, type, op, comm, stream);
        }) == ncclSuccess);
        node.sync();
        const bool integer = type < ncclFloat16;
        const bool fp8 = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
        int wrong = 0;
        for (size_t r = 0; r < kReduceRanks; ++r) {
            for (size_t i = 0; i < kCount; ++i) {
                for (auto [got, at] : {std::pair{out[r][i], i}, {scattered[r][i], r * kCount + i}}) {
                    double want = reference(op, at);
                    want = integer ? static_cast<double>(static_cast<int64_t>(want)) : want;
                    want = fp8 ? number(make<T>(want)) : want;
                    wrong += number(got) != want;
                }
            }
        }
        CHECK(wrong == 0);
    }
}

}  // namespace

TEST_CASE("reductions of every datatype with every operator") {
    Node node(kReduceRanks);
#define ROW(type, value) check_type<type>(node);
    TYPES(ROW)
#undef ROW
}

TEST_CASE("integers wrap around and signed averages round to zero") {
    Node node(2);
    std::vector<int8_t> in[2] = {{100, -7}, {100, 0}}, out[2] = {{0, 0}, {0, 0}};
    node.all([&](int r, ncclComm_t comm, cudaStream_t stream) {
        return ncclAllReduce(in[r].data(), out[r].data(), 2, ncclInt8, ncclSum, comm, stream);
    });
    node.sync();
    CHECK(out[1][0] == static_cast<int8_t>(200));
    node.all([&](int r, ncclComm_t comm, cudaStream_t stream) {
        return ncclAllReduce(in[r].data(), out[r].data(), 2, ncclInt8, ncclAvg, comm, stream);
    });
    node.sync();
    CHECK(out[0][1] == -3);
}

TEST_CASE("a sum with factors of the user's") {
    Node node(2);
    ncclRedOp_t ops[2];
    float factors[2] = {0.5f, 10.0f};
    for (int r = 0; r < 2; ++r) {
        REQUIRE(ncclRedOpCreatePreMulSum(&ops[r], &factors[r], ncclFloat32,
                                         r ? ncclScalarDevice : ncclScalarHostImmediate,
                                         node.comms[static_cast<size_t>(r)]) == ncclSuccess);
    }
    float in[2] = {4, 3}, out[2] = {};
    node.all([&](int r, ncclComm_t comm, cudaStream_t stream) {
        return ncclAllReduce(&in[r], &out[r], 1, ncclFloat32, ops[r], comm, stream);
    });
    node.sync();
    CHECK(out[0] == 32.0f);
    CHECK(out[1] == 32.0f);
    CHECK(ncclRedOpDestroy(ops[0], node.comms[0]) == ncclSuccess);
    CHECK(ncclRedOpDestroy(ops[0], node.comms[0]) == ncclInvalidArgument);
    CHECK(ncclAllReduce(&in[0], &out[0], 1, ncclFloat32, ops[0], node.comms[0], node.streams[0]) ==
          ncclInvalidArgument);
}

TEST_CASE("buffers of many chunks, odd sizes, in place") {
    Node node(3);
    const size_t count = (1 << 20) / 3 + 5;
    std::vector<std::vector<float>> data(3);
    for (size_t r = 0; r < 3; ++r) {
        data[r].assign(count, static_cast<float>(r + 1));
        data[r].push_back(-1);  // a guard behind the end
    }
    node.all([&](int r, ncclComm_t comm, cudaStream_t stream) {
        float* at = data[static_cast<size_t>(r)].data();
        return ncclAllReduce(at, at, count, ncclFloat32, ncclSum, comm, stream);
    });
    node.sync();
    for (const auto& one : data) {
        CHECK(std::count(one.begin(), one.end(), 6.0f) == static_cast<long>(count));
        CHECK(one.back() == -1);
    }
}
