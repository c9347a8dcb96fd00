// The skeleton of the norms of rows over kit/row.cuh. A norm is its statistics: all else is here.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "kit/row_store.cuh"

namespace weft::inline WEFT_TARGET::kit {

// y · (scale + offset) + shift; absent operands change nothing.
struct RowAffine {
    RowOperand scale{}, shift{};
    float offset = 0;
    bool tanh = false;  // of scale

    // What stands for an absent scale: 1 with the offset.
    __device__ __forceinline__ float no_scale() const { return 1.0f - offset; }
};

struct RowNorm {
    RowShape shape{};
    float eps = 0, inverse_dim = 0;
    RowInput in{};
    RowAffine weight{};  // weight, bias and the weight's offset
    RowOutput to{};
};

// What only mixed kernels know of: a small kernel waits for every line of its parameters.
struct MixedNorm : RowNorm {
    int outputs = 1;
    bool modulated = false;  // by something that is not in the weight's place
    RowOutput second{};
    RowAffine modulation[2] = {};  // of each output, after the weight
    GroupScales groups{};          // of the first output
    RowPlaces places{};
};
template <class Form>
using NormOf = std::conditional_t<Form::kForm.uniform, RowNorm, MixedNorm>;

// What a norm subtracts from a row's elements, and what it multiplies the difference by.
struct Moments {
    float shift, scale;
};

// Where all operands are stored as the row is: one affine map of one output.
template <class T, int N, int V, class Form, class Statistics>
__device__ __forceinline__ void normalise_uniform(const RowNorm& p, Statistics statistics) {
    constexpr bool kBias = Form::kForm.bias, kFull = fills_registers(V);
    constexpr int kHeld = kFull && kBias ? V / 2 : V;  // two share what one has else
    Group<row_scope(V, Form::kForm)> group{p.shape.lanes, p.shape.cluster};
    Row<T, N, V, Form> row(group, p.shape, nullptr);
    RowSlice<T, N, V, kHeld> weight, bias;
    const auto load_weight = [&] { weight.load_or(p.weight.no_scale(), row.part, p.weight.scale); };
    const auto load_bias = [&] { bias.load_or(-0.0f, row.part, p.weight.shift); };
    float scale = 1.0f;
    row.load(p.in, [&] {
        if constexpr (!kFull) load_weight();
        if constexpr (Form::kForm.fp8) scale = static_scale(p.to);
    });
    group.begin();
    const Moments m = statistics(row, group, [&] {
        if constexpr (kFull) load_weight();
        if constexpr (kFull && kBias) load_bias();
    });
    if constexpr (!kFull && kBias) load_bias();  // late: registers are rows in flight
    store_row<T>(row, group, p.to, scale, [&](int v, std::int64_t, float (&x)[N]) {
        float w[N];
        weight.get(v, w);
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = (x[i] - m.shift) * m.scale * (w[i] + p.weight.offset);
        if constexpr (kBias) {
            float b[N];
            bias.get(v, b);
#pragma unroll
            for (int i = 0; i < N; ++i) x[i] += b[i];
        }
        if constexpr (kHeld < V) {
            const bool again = p.to.token_scale != nullptr;
            bias.pass(row.part, v, again);
            weight.pass(row.part, v, again);
        }
    });
}

// An affine map whose operands are of any dtype and row.
template <int N, int kRun>
struct LateAffine {
    LateOperand<N, kRun> scale, shift;
    float offset;
    bool tanh;

    __device__ __forceinline__ LateAffine(const RowPart& part, const RowAffine& from)
        : scale(part, from.scale, from.no_scale()),
          shift(part, from.shift, -0.0f),
          offset(from.offset),
          tanh(from.tanh && from.scale.data != nullptr) {}

    __device__ __forceinline__ void fetch(const RowPart& part, std::int64_t index) {
        scale.fetch(part, index);
        shift.fetch(part, index);
    }
    __device__ __forceinline__ void apply(int k, float (&x)[N]) const {
        float s[N], t[N];
        scale.get(k, s);
        shift.get(k, t);
        if (tanh) {
#pragma unroll
            for (float& one : s) one = tanhf(one);
        }
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = x[i] * (s[i] + offset) + t[i];
    }
};

// A mapped row of which each run of vectors is announced (Row::each).
template <class Before, class Map>
struct AnnouncedMap {
    Before before;
    Map map;

    template <int N>
    __device__ __forceinline__ void operator()(int v, std::int64_t index, float (&x)[N]) const {
        map(v, index, x);
    }
};
template <class Before, class Map>
AnnouncedMap(Before, Map) -> AnnouncedMap<Before, Map>;

// The weight and the bias of a mixed kernel: held, or of rows that are not held read where they are used.
template <int N, int V>
struct MixedAffine {
    AnySlice<N, V> scale, shift;
    float offset;

    __device__ __forceinline__ MixedAffine(const RowPart& part, const RowAffine& from) : offset(from.offset) {
        scale.load_or(from.no_scale(), part, from.scale);
        shift.load_or(-0.0f, part, from.shift);
    }
    __device__ __forceinline__ void widen() { scale.widen(), shift.widen(); }
    __device__ __forceinline__ void apply(const RowPart&, int v, std::int64_t, float (&x)[N]) {
        float s[N], t[N];
        scale.get(v, s);
        shift.get(v, t);
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = x[i] * (s[i] + offset) + t[i];
    }
};
template <int N>
struct MixedAffine<N, kStreamedRow> {
    LateAffine<N, 1> late;

    __device__ __forceinline__ MixedAffine(const RowPart& part, const RowAffine& from) : late(part, from) {}
    __device__ __forceinline__ void widen() {}
    __device__ __forceinline__ void apply(const RowPart& part, int, std::int64_t index, float (&x)[N]) {
        late.fetch(part, index);
        late.apply(0, x);
    }
};

// All else: a weight beside modulations, operands of other dtypes or of scattered rows, single elements, two outputs.
template <class T, int N, int V, class Form, class Statistics>
__device__ __forceinline__ void normalise_mixed(const MixedNorm& p, Statistics statistics) {
    Group<row_scope(V, Form::kForm)> group{p.shape.lanes, p.shape.cluster};
    using MappedRow = Row<T, N, V, Form>;
    MappedRow row(group, p.shape, &p.places);
    row.load(p.in, [] {});
    MixedAffine<N, V> weight(row.part, p.weight);
    group.begin();
    const Moments m = statistics(row, group, [] {});
    weight.widen();
    const auto normalise = [&](int v, std::int64_t index, float (&x)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = (x[i] - m.shift) * m.scale;
        weight.apply(row.part, v, index, x);
    };
    // Where the first output has scales of groups.
    const auto store = [&](const RowOutput& to, const auto& map) {
        const float scale = static_scale(to);
        if constexpr (N > 1) {
            if (&to == &p.to && p.groups.data != nullptr) return store_grouped(row, to, p.groups, scale, map);
        }
        store_row<T>(row, group, to, scale, map);
    };
    if (!p.modulated) return store(p.to, normalise);
#pragma unroll 1
    for (int output = 0; output < p.outputs; ++output) {
        LateAffine<N, MappedRow::kRun> modulation(row.part, p.modulation[output]);
        const auto fetch = [&](std::int64_t index) { modulation.fetch(row.part, index); };
        const auto map = [&](int v, std::int64_t index, float (&x)[N]) {
            normalise(v, index, x);
            modulation.apply(v % MappedRow::kRun, x);
        };
        store(output == 0 ? p.to : p.second, AnnouncedMap{fetch, map});
    }
}

// What    r = round(residual + gate · x); n = (r − shift) · scale · (weight + offset) + bias, where
//         `statistics(row, group, summed)` gives shift and scale; it calls summed() once, between the thread's own part
//         of the last sum and the wait for the others': what found no register before is asked for there.
//         Of each output y = n · (modulation's scale + its offset) + its shift
// Mapping a row is shared by `lanes` threads of a block, times the blocks of a cluster; each thread holds V
//         vectors of N elements, neighbours side by side, in registers (or it reads the row again)
// Traffic every operand once (bound by memory); operands that rows share come from the caches after the first rows
// Needs   blockDim.x = lanes · rows of a block, a multiple of 32; V > 0: lanes · cluster · V · N >= dim;
//         N = 1, or dim a multiple of N and every row aligned for vectors of N. Uniform: every operand but the outputs
//         is stored as T, no rows are scattered, one output of T or e4m3; rms norms without bias if Form has none
template <class T, int N, int V, class Form, class Statistics>
__device__ __forceinline__ void normalise_rows(const NormOf<Form>& p, Statistics statistics) {
    dependency_wait();
    dependents_launch();
    if constexpr (Form::kForm.uniform) {
        normalise_uniform<T, N, V, Form>(p, statistics);
    } else {
        normalise_mixed<T, N, V, Form>(p, statistics);
    }
}

}  // namespace weft::inline WEFT_TARGET::kit
