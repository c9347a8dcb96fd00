// softmax's kernel: a short body over the row skeleton.
#pragma once

#include "kit/ptx/approximate.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/row_store.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

struct SoftmaxParams {
    kit::RowShape shape{};
    kit::RowInput in{};
    kit::RowOperand out{};
    float scale = 0;  // times log2(e): exponentials are powers of 2
};
// Of mixed kernels.
struct MixedSoftmax : SoftmaxParams {
    kit::RowPlaces places{};
};
template <class Form>
using SoftmaxOf = std::conditional_t<Form::kForm.uniform, SoftmaxParams, MixedSoftmax>;

// Logits seen so far: their maximum and the sum of 2^(logit - maximum). Where there is none the maximum is
// -inf and 0 takes its place as a reference, so that no -inf - -inf arises.
struct MaximumAndSum {
    float maximum, sum;

    __device__ __forceinline__ float reference() const { return maximum == -INFINITY ? 0.0f : maximum; }
};

struct Merge {
    static __device__ __forceinline__ MaximumAndSum identity() { return {-INFINITY, 0.0f}; }
    // The one with the maximum is multiplied by 2^0 = 1 exactly, so the order of a and b does not matter.
    __device__ __forceinline__ MaximumAndSum operator()(const MaximumAndSum& a,
                                                        const MaximumAndSum& b) const {
        MaximumAndSum both{fmaxf(a.maximum, b.maximum), 0.0f};
        both.sum = __fadd_rn(__fmul_rn(a.sum, kit::exp2_approximate(a.maximum - both.reference())),
                             __fmul_rn(b.sum, kit::exp2_approximate(b.maximum - both.reference())));
        return both;
    }
};

__device__ __forceinline__ float inverse_of(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }

template <class T, int N, int V, class Form>
__device__ __forceinline__ void softmax_uniform(const SoftmaxParams& p) {
    kit::Group<row_scope(V, Form::kForm)> group{p.shape.lanes, p.shape.cluster};
    kit::Row<T, N, V, Form> row(group, p.shape);
    row.load(p.in, [] {});
    group.begin();

    MaximumAndSum part{-INFINITY, 0.0f};
    row.each([&](int, int, const float (&x)[N]) {
#pragma unroll
        for (const float value : x) part.maximum = fmaxf(part.maximum, value * p.scale);
    });
    row.each([&](int, int, const float (&x)[N]) {
#pragma unroll
        for (const float value : x)
            part.sum += kit::exp2_approximate(fmaf(value, p.scale, -part.reference()));
    });
    const MaximumAndSum all = group.reduce(part, Merge{});
    const float inverse = inverse_of(all.sum);
    kit::with_wide_type(p.out.dtype, [&](auto* type) {
        kit::store_mapped<std::remove_pointer_t<decltype(type)>>(
            row, p.out, 1.0f, [&](int, int, float (&x)[N]) {
#pragma unroll
                for (float& value : x)
                    value = kit::exp2_approximate(fmaf(value, p.scale, -all.reference())) * inverse;
            });
    });
}

template <int N, int V, class Form>
__device__ __forceinline__ void softmax_any(const SoftmaxParams& p) {
    kit::Group<row_scope(V, Form::kForm)> group{p.shape.lanes, p.shape.cluster};
    kit::AnyRow<N, V, true> row(group, p.shape, nullptr);
    row.load(p.in, [] {});
    group.begin();

    MaximumAndSum part{-INFINITY, 0.0f};
    row.each_piece([&](int, const float (&x)[N]) {
#pragma unroll
        for (const float value : x) part.maximum = fmaxf(part.maximum, value * p.scale);
    });
    row.each_piece([&](int, const float (&x)[N]) {
#pragma unroll
        for (const float value : x)
            part.sum += kit::exp2_approximate(fmaf(value, p.scale, -part.reference()));
    });
    const MaximumAndSum all = group.reduce(part, Merge{});
    const float inverse = inverse_of(all.sum);
    row.values().change(
        [&](float x) { return kit::exp2_approximate(fmaf(x, p.scale, -all.reference())) * inverse; });
    kit::store_wide(row.part, p.out, row.part.offset(p.out), row.values());
}

// Maximum and sum in one pass: a row that is not held is read twice in all.
template <bool kRagged>
__device__ __forceinline__ void softmax_mixed(const MixedSoftmax& p) {
    kit::begin_memory();
    kit::Group<GroupScope::any> group{p.shape.lanes, p.shape.cluster};
    kit::MixedRow<kRagged> row(group, p.shape, p.places, p.in);
    row.load({}, 0.0f);
    group.begin();

    MaximumAndSum part{-INFINITY, 0.0f};
    row.each_chunk([&] {
        row.each([&](const kit::OctetPlace& place, const float (&x)[kOctet]) {
            float top = part.maximum;
#pragma unroll
            for (int i = 0; i < kOctet; ++i) {
                if (place.has(i)) top = fmaxf(top, x[i] * p.scale);
            }
            part = Merge{}(part, {top, 0.0f});
#pragma unroll
            for (int i = 0; i < kOctet; ++i) {
                const float power = kit::exp2_approximate(fmaf(x[i], p.scale, -part.reference()));
                if (place.has(i)) part.sum += power;
            }
        });
    });
    const MaximumAndSum all = group.reduce(part, Merge{});
    const float inverse = inverse_of(all.sum);
    kit::store_mixed(row, group, {.out = p.out}, nullptr, [&] {
        row.combine_next({}, 0.0f, [&](float x, float) {
            return kit::exp2_approximate(fmaf(x, p.scale, -all.reference())) * inverse;
        });
    });
}

// What    y = 2^(c·x - m) / sum(2^(c·x - m)), c = scale·log2(e), m = max(c·x); zeros where all c·x are -inf
// Mapping a row is shared by `lanes` threads of a block, times the blocks of a cluster; each thread holds V
//         vectors of N elements, neighbours side by side, in registers; of any rows V octets (kit/any_row.cuh); in a
//         mixed kernel kOctets
// Traffic x and out once (bound by memory); maximum and sum are reduced together, in one exchange
// Needs   blockDim.x = lanes · rows of a block, a multiple of 32. Uniform: lanes · cluster · V · N >= dim, a multiple of
//         N; every row aligned for vectors of N; out of 16 bits or fp32. Any: rows are whole pieces of N elements.
template <class T, int N, int V, class Form>
__global__ void __launch_bounds__(kit::row_bound(V, Form::kForm), kit::row_blocks(V, Form::kForm))
    softmax_kernel(const __grid_constant__ SoftmaxOf<Form> p) {
    if constexpr (Form::kForm.any) {
        softmax_any<N, V, Form>(p);
    } else if constexpr (Form::kForm.uniform) {
        softmax_uniform<T, N, V, Form>(p);
    } else {
        softmax_mixed<Form::kForm.ragged>(p);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
