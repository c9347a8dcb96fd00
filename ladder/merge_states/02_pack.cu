// Two partial results of attention as one, 16 bytes a thread.
//
// Idea        A vector of 16 bytes lies within one head where heads are whole vectors: one pair of shares for four or
//             eight elements. fp32, fp16 and bf16 differ in how many a vector holds.
// Change      Vectors; heads that are not whole vectors are 01's.
// Prediction  The card's bandwidth, and an eighth of the exponentials.
#include "ladder/merge_states/states.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T>
constexpr int kWidth = 16 / sizeof(T);

template <class T>
__global__ void merge(MergeParams<T> p) {
    using Vector = Pack<T, kWidth<T>>;
    const std::int64_t i = kWidth<T> * thread_in_grid();
    if (i >= p.elements) return;
    const Shares s = shares_of(p, i, i % p.head_dim == 0);
    Vector a = *reinterpret_cast<const Vector*>(p.a + i);
    const Vector b = *reinterpret_cast<const Vector*>(p.b + i);
#pragma unroll
    for (int k = 0; k < kWidth<T>; ++k)
        a.at[k] = static_cast<T>(mixed(s, static_cast<float>(a.at[k]), static_cast<float>(b.at[k])));
    *reinterpret_cast<Vector*>(p.out + i) = a;
}

template <class T>
void launch(const char* name, const MergeAttentionStates& op, Context& context) {
    launch_merge(name, merge<T>, kWidth<T>, op, context);
}

const RegisterRung<MergeAttentionStates> kRung{
    +[](const MergeAttentionStates& op, const DeviceInfo&) {
        return decline_merge(op, op.a.dtype, 128 / bits(op.a.dtype));
    },
    +[](const MergeAttentionStates& op, Context& context) {
        switch (op.a.dtype) {
            case DType::fp16: return launch<__half>(kRung.name(), op, context);
            case DType::bf16: return launch<__nv_bfloat16>(kRung.name(), op, context);
            default: return launch<float>(kRung.name(), op, context);
        }
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
