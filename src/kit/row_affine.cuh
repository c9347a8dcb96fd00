// Affine maps of a row: their operands, and how a kernel that knows their dtype has them.
#pragma once

#include "kit/row_operand.cuh"

namespace weft::inline WEFT_TARGET::kit {

// y · (scale + offset) + shift; absent operands change nothing.
struct RowAffine {
    RowOperand scale{}, shift{};
    float offset = 0;
    bool tanh = false;  // of scale

    // What stands for an absent scale: 1 with the offset.
    __device__ __forceinline__ float no_scale() const { return 1.0f - offset; }
};

// A vector of each operand of an affine map, as they lie in memory.
template <class W, int N>
struct MapVector {
    Words<W, N> scale, shift;
};
// Where a thread finds those operands, which are stored as W.
template <class W, int N>
class MapOperands {
   public:
    template <class Part>
    __device__ __forceinline__ MapOperands(const Part& part, const RowAffine& map)
        : scale_(find(part, map.scale)),
          shift_(find(part, map.shift)),
          has_scale_(map.scale.data != nullptr),
          has_shift_(map.shift.data != nullptr),
          offset_(map.offset) {}

    // Of slot `index`: all are asked for before the first is needed. What is absent stays unknown.
    __device__ __forceinline__ void load(int index, MapVector<W, N>& vector) const {
        if (has_scale_) vector.scale = load_words<N>(scale_ + index);
        if (has_shift_) vector.shift = load_words<N>(shift_ + index);
    }
    // Tells L2 of it.
    __device__ __forceinline__ void announce(int index) const {
        if (has_scale_) prefetch_l2(scale_ + index);
        if (has_shift_) prefetch_l2(shift_ + index);
    }
    // y · (scale + offset) + shift.
    __device__ __forceinline__ void apply(const MapVector<W, N>& vector, float (&y)[N]) const {
        float of[N];
        if (has_scale_) {
            to_floats(as_vector<W, N>(vector.scale), of);
#pragma unroll
            for (int i = 0; i < N; ++i) y[i] *= of[i] + offset_;
        }
        if (has_shift_) {
            to_floats(as_vector<W, N>(vector.shift), of);
#pragma unroll
            for (int i = 0; i < N; ++i) y[i] += of[i];
        }
    }

   private:
    template <class Part>
    __device__ __forceinline__ static const W* find(const Part& part, const RowOperand& operand) {
        return operand.data == nullptr ? nullptr : part.template origin<N, const W>(operand);
    }

    const W *scale_, *shift_;
    const bool has_scale_, has_shift_;
    const float offset_;
};

}  // namespace weft::inline WEFT_TARGET::kit
