// The skeleton of the norms of rows over kit/row.cuh. A norm is its statistics: all else is here.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "kit/row_affine.cuh"
#include "kit/row_store.cuh"

namespace weft::inline WEFT_TARGET::kit {

// In the order in which a kernel needs them: parameters come from memory a line at a time.
struct RowNorm {
    RowShape shape{};
    RowInput in{};
    float eps = 0, inverse_dim = 0;
    RowAffine weight{};  // weight, bias and the weight's offset
    RowOutput to{}, second{};
};

// What uniform kernels do not know of: a small kernel waits for every line of its parameters.
struct ModulatedNorm : RowNorm {
    int outputs = 1;
    bool modulated = false;  // some output, by something that is not in the weight's place
    RowAffine maps[3] = {};  // the weight, and a modulation of each output that follows it
};
// What only kernels of rows in any places and of codes know of.
struct MixedNorm : ModulatedNorm {
    GroupScales groups{};  // of the first output
    RowPlaces places{};
};
template <class Form>
using NormOf = std::conditional_t<
    Form::kForm.bare, ModulatedNorm,
    std::conditional_t<Form::kForm.uniform && !Form::kForm.beside && !Form::kForm.modulated, RowNorm,
                       MixedNorm>>;

// What a norm subtracts from a row's elements, and what it multiplies the difference by.
struct Moments {
    float shift, scale;
};

// Where all operands are stored as the row is, or weight and bias as fp32: one affine map, which a second output has too.
template <class T, int N, int V, class Form, class Statistics>
__device__ __forceinline__ void normalise_uniform(const RowNorm& p, Statistics statistics) {
    using W = std::conditional_t<Form::kForm.wide, float, T>;
    constexpr bool kBias = Form::kForm.bias, kFull = fills_registers(V) || (Form::kForm.wide && V == 4);
    // Of eight vectors two share what one has else. Of fp32 none is held beside four: more rows in flight are worth more.
    constexpr int kHeld = !kFull ? V : Form::kForm.wide ? 0 : V >> int{kBias};
    Group<row_scope(V, Form::kForm)> group{p.shape.lanes, p.shape.cluster};
    Row<T, N, V, Form> row(group, p.shape);
    RowSlice<W, N, V, kHeld> weight, bias;
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
    store_row<T>(row, group, p.to, p.second.out, scale, [&](int v, int, float (&x)[N]) {
        float w[N];
        weight.get(row.part, v, w);
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = (x[i] - m.shift) * m.scale * (w[i] + p.weight.offset);
        if constexpr (kBias) {
            float b[N];
            bias.get(row.part, v, b);
#pragma unroll
            for (int i = 0; i < N; ++i) x[i] += b[i];
        }
        if constexpr (kHeld > 0 && kHeld < V) {
            const bool again = p.to.token_scale != nullptr;
            bias.pass(row.part, v, again);
            weight.pass(row.part, v, again);
        }
    });
}

// Rows of 16 bits, outputs too, with a weight and modulations that are stored alike. A thread with one vector asks for all
// before the statistics; one with more for what a vector needs once it comes to it, mostly from L1.
template <class T, int N, int V, class Form, class Statistics>
__device__ __forceinline__ void normalise_modulated(const MixedNorm& p, Statistics statistics) {
    using W = std::conditional_t<Form::kForm.wide, float, T>;
    constexpr bool kEarly = V == 1 && sizeof(W) == 2;
    Group<row_scope(V, Form::kForm)> group{p.shape.lanes, p.shape.cluster};
    Row<T, N, V, Form> row(group, p.shape, &p.places);
    const bool two = p.second.out.data != nullptr;
    MapVector<W, N> asked[3];
    row.load(p.in, [&] {
        if constexpr (kEarly) {
            row.part.template each<N, 1>([&](int, int index) {
#pragma unroll
                for (int i = 0; i < 3; ++i) MapOperands<W, N>(row.part, p.maps[i]).load(index, asked[i]);
            });
        } else {
            // Where rows are many, L2 has what they share after the first of them.
#pragma unroll
            for (const RowAffine& map : p.maps) {
                if (V > 2 && map.scale.stride == 0 && map.shift.stride == 0) continue;
                const MapOperands<W, N> later(row.part, map);
                row.part.template each<N, V>([&](int, int index) { later.announce(index); });
            }
        }
    });
    group.begin();
    const Moments m = statistics(row, group, [] {});
    const MapOperands<W, N> weight(row.part, p.maps[0]), first(row.part, p.maps[1]),
        second(row.part, p.maps[2]);
    T* const to = row.part.template origin<N, T>(p.to.out);
    T* const also = two ? row.part.template origin<N, T>(p.second.out) : nullptr;
    row.each([&](int, int index, float (&y)[N]) {
        if constexpr (!kEarly) {
            weight.load(index, asked[0]);
            first.load(index, asked[1]);
            second.load(index, asked[2]);
        }
#pragma unroll
        for (float& value : y) value = (value - m.shift) * m.scale;
        weight.apply(asked[0], y);
        if (two) {
            float z[N];
            memcpy(z, y, sizeof(z));
            second.apply(asked[2], z);
            store_aligned(also + index, from_floats<T>(z));
        }
        first.apply(asked[1], y);
        store_aligned(to + index, from_floats<T>(y));
    });
}

// What a modulation makes of `y`, for each output that there is, by one copy of the code for all that modulates. `z` and
// `held` are free, or `ahead` says that `held` is asked for the last output's scale.
template <class Side, class Part>
__device__ __forceinline__ void store_modulated(const Part& part, const ModulatedNorm& p, const Side& y,
                                                Side& z, Side& held, bool ahead) {
    // The second first, whose operands out may be the memory of.
#pragma unroll 1
    for (int output = p.outputs - 1; output >= 0; --output) {
        const RowAffine& map = p.maps[output + 1];
        const RowOperand& to = output == 0 ? p.to.out : p.second.out;
        z = y;
#pragma unroll 1
        for (int step = 0; step < 2; ++step) {
            const RowOperand& operand = step == 0 ? map.scale : map.shift;
            if (operand.data == nullptr) continue;
            if (!ahead) held.load_or(0.0f, part, operand);
            ahead = false;
            held.widen(operand);
            if (step == 0) {
                z.combine(held, [&](float a, float s) { return a * (s + map.offset); });
            } else {
                z.combine(held, [](float a, float b) { return a + b; });
            }
        }
        store_wide(part, to, part.offset(to), z);
    }
}

// Of any rows without a gate, outputs of 16 bits or fp32. A modulation takes the registers that weight and bias had.
template <int N, int V, class Form, class Statistics>
__device__ __forceinline__ void normalise_bare(const ModulatedNorm& p, Statistics statistics) {
    Group<row_scope(V, Form::kForm)> group{p.shape.lanes, p.shape.cluster};
    const bool biased = p.weight.shift.data != nullptr;
    // While the threads wait for each other, what comes after the weight is on its way.
    const RowOperand& next = biased || !p.modulated ? p.weight.shift : p.maps[p.outputs].scale;
    const bool asked = next.data != nullptr;
    SideSlice<V, N> weight, held;
    AnyRow<N, V, true> row(group, p.shape, nullptr);
    row.load(p.in, [&] { weight.load_or(p.weight.no_scale(), row.part, p.weight.scale); });
    group.begin();
    const Moments m = statistics(row, group, [&] {
        if (asked) held.load_or(-0.0f, row.part, next);
    });
    auto& y = row.values();
    weight.widen(p.weight.scale);
    if (p.weight.offset != 0.0f) weight.change([&](float w) { return w + p.weight.offset; });
    y.combine(weight, [&](float x, float w) { return (x - m.shift) * m.scale * w; });
    if (biased) y.combine(held.widen(p.weight.shift), [](float a, float b) { return a + b; });
    if (p.modulated) return store_modulated(row.part, p, y, weight, held, asked && !biased);
    if (p.second.out.data != nullptr) store_wide(row.part, p.second.out, row.part.offset(p.second.out), y);
    store_wide(row.part, p.to.out, row.part.offset(p.to.out), y);
}

// The map of a mixed row's chunk: (x − shift) · scale, and then affine maps whose operands come one after the other.
template <bool kRagged>
__device__ __forceinline__ void map_chunk(MixedRow<kRagged>& row, const MixedNorm& p, const Moments& m,
                                          int output) {
    const RowAffine& first = p.maps[0];
    row.combine_next(first.scale, first.no_scale(),
                     [&](float x, float s) { return (x - m.shift) * m.scale * (s + first.offset); });
    // Two steps each of the first map and, where there is one, of the output's modulation; the first is done.
#pragma unroll 1
    for (int step = 1; step < (p.modulated ? 4 : 2); ++step) {
        const RowAffine& map = p.maps[step < 2 ? 0 : output + 1];
        const bool adds = step % 2 != 0;
        const RowOperand& operand = adds ? map.shift : map.scale;
        if (operand.data == nullptr) continue;
        const OctetRow from = row.row_of(operand);
        if (map.tanh && !adds) {
            row.combine_tanh(from, [&](float y, float s) { return y * (s + map.offset); });
            continue;
        }
        row.each_octet_of(from, [&](int v, const float (&s)[kOctet]) {
#pragma unroll
            for (int i = 0; i < kOctet; ++i) {
                float& y = row.beside().at[v][i];
                y = adds ? y + s[i] : y * (s[i] + map.offset);
            }
        });
    }
}

// Tells L2 of a modulation.
template <class Side, class Part>
__device__ __forceinline__ void announce_side(const Part& part, const RowAffine& map) {
    Side::announce(part, map.scale);
    Side::announce(part, map.shift);
}
// use(value), where value(v, i) is what a thread has of an operand beside the row, or its tanh: of `held`, which has been
// `asked` for it or is now, or the one that stands for all.
template <class Side, class Part, class Use>
__device__ __forceinline__ void with_side(Side& held, bool asked, float absent, const Part& part,
                                          const RowOperand& operand, bool tanh, Use use) {
    if (operand.single) {
        const float one = Side::one(absent, part, operand), value = tanh ? tanhf(one) : one;
        return use([value](int, int) { return value; });
    }
    if (!asked) held.load_or(absent, part, operand);
    held.widen(operand);
    if (tanh) [[unlikely]] {
        in_turn(held.at, [](int, float (&octet)[kOctet]) {
#pragma unroll
            for (float& value : octet) value = tanhf(value);
        });
    }
    use([&held](int v, int i) { return held.at[v][i]; });
}
// y · (scale + offset) + shift of what a thread holds beside the row; one operand after the other, in `held`, which may
// have been `asked` for the scale.
template <class Side, class Part>
__device__ __forceinline__ void modulate_side(Side& y, Side& held, bool asked, const Part& part,
                                              const RowAffine& map) {
    const auto combine = [&](auto value, auto f) {
#pragma unroll
        for (int v = 0; v < Side::kOctets; ++v) {
#pragma unroll
            for (int i = 0; i < kOctet; ++i) y.at[v][i] = f(y.at[v][i], value(v, i));
        }
    };
    if (map.scale.data != nullptr) {
        with_side(held, asked, 0.0f, part, map.scale, map.tanh, [&](auto value) {
            combine(value, [&](float a, float b) { return a * (b + map.offset); });
        });
    }
    if (map.shift.data != nullptr) {
        with_side(held, false, -0.0f, part, map.shift, false,
                  [&](auto value) { combine(value, [](float a, float b) { return a + b; }); });
    }
}

// Where operands beside the row are stored in dtypes of their own or lie in places of their own, or a modulation follows
// the weight, or out is stored otherwise than the row, or there are two. Which operands are there is found out here, once
// for all that a thread holds of each.
template <class T, int N, int V, class Form, class Statistics>
__device__ __forceinline__ void normalise_beside(const MixedNorm& p, Statistics statistics) {
    Group<row_scope(V, Form::kForm)> group{p.shape.lanes, p.shape.cluster};
    RowOf<T, N, V, Form> row(group, p.shape, &p.places);
    using Side = SideSlice<V, decltype(row)::kPiece>;
    const RowAffine& map = p.weight;
    const bool two = weft::detail::beside_outputs(V) > 1 && p.outputs > 1;
    Side y, held;  // y: the weight first
    float scale = 1.0f;
    row.load(p.in, [&] {
        y.load_or(map.no_scale(), row.part, map.scale);
        Side::announce(row.part, map.shift);
        if (p.modulated) {
            announce_side<Side>(row.part, p.maps[1]);
            if (two) announce_side<Side>(row.part, p.maps[2]);
        }
        scale = static_scale(p.to);
    });
    group.begin();
    // While the threads wait for each other, what comes after the weight is on its way.
    const bool ahead = p.modulated && map.shift.single;
    const RowOperand& next = ahead ? p.maps[two ? 2 : 1].scale : map.shift;
    const Moments m = statistics(row, group, [&] {
        if (!next.single) held.load_or(-0.0f, row.part, next);
    });
    y.widen(map.scale);
    with_side(held, !ahead, -0.0f, row.part, map.shift, false, [&](auto add) {
        row.each([&](int v, int, const float (&x)[kOctet]) {
#pragma unroll
            for (int i = 0; i < kOctet; ++i)
                y.at[v][i] = (x[i] - m.shift) * m.scale * (y.at[v][i] + map.offset) + add(v, i);
        });
    });
    if (two) [[unlikely]] {
        Side second = y;
        if (p.modulated) modulate_side(second, held, ahead, row.part, p.maps[2]);
        store_wide(row.part, p.second.out, row.part.offset(p.second.out), second);
    }
    if (p.modulated) modulate_side(y, held, ahead && !two, row.part, p.maps[1]);
    if constexpr (!Form::kForm.any) {
        if (p.groups.data != nullptr) [[unlikely]]
            return store_beside_groups(row, p.to, p.groups, scale, y);
    }
    store_beside(row, group, p.to, scale, y);
}

// All else: codes with scales of groups where x is stored otherwise than the residual; 2^31 rows and more; and rows that no
// registers hold.
template <bool kRagged, class Statistics>
__device__ __forceinline__ void normalise_mixed(const MixedNorm& p, Statistics statistics) {
    begin_memory();
    Group<GroupScope::any> group{p.shape.lanes, p.shape.cluster};
    MixedRow<kRagged> row(group, p.shape, p.places, p.in);
    if (p.modulated) {
#pragma unroll 1
        for (int i = 1; i <= p.outputs; ++i) {
            row.announce(p.maps[i].scale);
            row.announce(p.maps[i].shift);
        }
    }
    row.load(p.maps[0].scale, p.maps[0].no_scale());
    group.begin();
    const Moments m = statistics(row, group, [] {});
    // The second first: out may be the memory of x, which a row in chunks reads again for each output.
#pragma unroll 1
    for (int output = p.outputs - 1; output >= 0; --output) {
        const GroupScales* groups = output == 0 && p.groups.data != nullptr ? &p.groups : nullptr;
        store_mixed(row, group, output == 0 ? p.to : p.second, groups, [&] { map_chunk(row, p, m, output); });
    }
}

// What    r = round(residual + gate · x); n = (r − shift) · scale · (weight + offset) + bias, where
//         `statistics(row, group, summed)` gives shift and scale; it calls summed() once, between the thread's own part
//         of the last sum and the wait for the others': what found no register before is asked for there.
//         Of each output y = n · (modulation's scale + its offset) + its shift
// Mapping a row is shared by `lanes` threads of a block, times the blocks of a cluster; each thread holds V
//         vectors of N elements, neighbours side by side, in registers; of any rows V octets (kit/any_row.cuh); in a
//         mixed kernel kOctets
// Traffic every operand once (bound by memory); operands that rows share come from the caches after the first rows
// Needs   blockDim.x = lanes · rows of a block, a multiple of 32. Uniform: lanes · cluster · V · N >= dim, a multiple of
//         N; every row aligned for vectors of N; every operand but the outputs is stored as T, no rows are scattered,
//         one output of T or e4m3; rms norms without bias if Form has none. Modulated: outputs of T, weight, bias and
//         modulations of T or all of fp32, rows of two strides or that an index picks. Beside: the same, but that weight, bias,
//         modulation and gate are of any dtype of 16 or 32 bits, one element or rows that an index picks, and out is of 16
//         bits, fp32 or codes of eight bits. Any: the same for x and residual, rows are whole pieces of N elements and
//         may be scattered; bare: no gate, no tanh of a modulation, outputs of 16 bits or fp32, rows have two strides.
//         Mixed: scales of groups: no row is ragged
template <class T, int N, int V, class Form, class Statistics>
__device__ __forceinline__ void normalise_rows(const NormOf<Form>& p, Statistics statistics) {
    if constexpr (Form::kForm.bare) {
        normalise_bare<N, V, Form>(p, statistics);
    } else if constexpr (Form::kForm.beside) {
        normalise_beside<T, N, V, Form>(p, statistics);
    } else if constexpr (Form::kForm.modulated) {
        normalise_modulated<T, N, V, Form>(p, statistics);
    } else if constexpr (Form::kForm.uniform) {
        normalise_uniform<T, N, V, Form>(p, statistics);
    } else {
        normalise_mixed<Form::kForm.ragged>(p, statistics);
    }
}

}  // namespace weft::inline WEFT_TARGET::kit
