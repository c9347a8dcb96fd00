// Tensor maps: what the copy engine (TMA) knows of a tensor in global memory. Made on the host, given to the
// kernel by value as `const __grid_constant__ TensorMap`.
#pragma once

#if !defined(WEFT_EMULATOR)
#include <cuda.h>
#endif

#include <cstdint>
#include <string>

#include "kit/target.h"
#include "weft/error.h"

namespace weft::inline WEFT_TARGET::kit {

// How the 16-byte chunks of a box's rows are exchanged in shared memory: chunk bits of the address are xored
// with those above bit 7. The inner side of a box has at most as many bytes.
enum class Swizzle { none = 16, bytes32 = 32, bytes64 = 64, bytes128 = 128 };

// The place in shared memory, relative to a multiple of 1024, of what lies at `offset` without a swizzle.
constexpr unsigned swizzled(Swizzle swizzle, unsigned offset) {
    const unsigned chunks = static_cast<unsigned>(swizzle) / 16;
    return offset ^ (offset >> 7 & (chunks - 1)) << 4;
}

// What a miss brings into the L2 cache. The memory gives more where that is 128 bytes; of 256 the second half is there already for
// another block that asks for it.
enum class Fetch { bytes128, bytes256 };

// Of what so many blocks read.
constexpr Fetch fetch_for(std::int64_t readers) { return readers == 1 ? Fetch::bytes128 : Fetch::bytes256; }

// Axis 0 is the innermost, dense. Sizes and boxes in elements; what is outside of the tensor reads as zero
// and is not written.
struct TensorLayout {
    static constexpr int kMostAxes = 5;
    void* data = nullptr;   // 16-byte aligned
    int element_bytes = 2;  // 1, 2 or 4
    int axes = 0;           // 2 to 5
    uint64_t size[kMostAxes] = {};
    uint64_t stride[kMostAxes] = {};  // bytes, multiples of 16; that of axis 0 is the element's
    uint32_t box[kMostAxes] = {};     // at most 256 each; the inner side in whole 16 bytes
    Swizzle swizzle = Swizzle::none;
    Fetch fetch = Fetch::bytes256;

    unsigned box_bytes() const {
        unsigned bytes = static_cast<unsigned>(element_bytes);
        for (int axis = 0; axis < axes; ++axis) bytes *= box[axis];
        return bytes;
    }
};

// Why the copy engine cannot take this layout, or null.
inline const char* unfit(const TensorLayout& t) {
    if (t.axes < 2 || t.axes > TensorLayout::kMostAxes) return "a tensor map has 2 to 5 axes";
    if (reinterpret_cast<uintptr_t>(t.data) % 16 != 0)
        return "the tensor's address is not a multiple of 16 bytes";
    const unsigned inner = t.box[0] * static_cast<unsigned>(t.element_bytes);
    if (inner % 16 != 0) return "the inner side of the box is not a multiple of 16 bytes";
    if (t.swizzle != Swizzle::none && inner > static_cast<unsigned>(t.swizzle))
        return "the inner side of the box is wider than its swizzle";
    for (int axis = 0; axis < t.axes; ++axis) {
        if (t.size[axis] == 0 || t.size[axis] > uint64_t{1} << 32) return "an axis has 1 to 2^32 elements";
        if (t.box[axis] == 0 || t.box[axis] > 256) return "a side of a box has 1 to 256 elements";
        if (axis > 0 && (t.stride[axis] % 16 != 0 || t.stride[axis] >= uint64_t{1} << 40))
            return "a stride is not a multiple of 16 bytes below 2^40";
    }
    return nullptr;
}

#if defined(WEFT_EMULATOR)
struct TensorMap {
    TensorLayout layout;
};
#else
struct TensorMap {
    CUtensorMap opaque;
};
#endif

#if !defined(WEFT_EMULATOR)
namespace detail {

// The driver's own function, which the runtime finds: the library links no driver.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
    static const auto encoder = [] {
        void* function = nullptr;
        cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
        const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                                    12000, cudaEnableDefault, &found);
        const bool there = status == cudaSuccess && found == cudaDriverEntryPointSuccess;
        return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(there ? function : nullptr);
    }();
    return encoder;
}

inline CUtensorMapDataType element_type(int bytes) {
    return bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
           : bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                        : CU_TENSOR_MAP_DATA_TYPE_UINT32;
}

inline CUtensorMapSwizzle swizzle_mode(Swizzle swizzle) {
    return swizzle == Swizzle::bytes128  ? CU_TENSOR_MAP_SWIZZLE_128B
           : swizzle == Swizzle::bytes64 ? CU_TENSOR_MAP_SWIZZLE_64B
           : swizzle == Swizzle::bytes32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                         : CU_TENSOR_MAP_SWIZZLE_NONE;
}

inline CUtensorMapL2promotion promotion(Fetch fetch) {
    return fetch == Fetch::bytes128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
}

}  // namespace detail
#endif

// `op` is for messages. Throws weft::Error where the layout is unfit, or there is no driver that encodes it.
inline TensorMap tensor_map(const char* op, const TensorLayout& layout) {
    if (const char* why = unfit(layout)) throw Error(ErrorCode::unsupported, op, "", why);
#if defined(WEFT_EMULATOR)
    return {layout};
#else
    const auto encode = detail::tensor_map_encoder();
    if (encode == nullptr) throw Error(ErrorCode::cuda, op, "", "the driver has no cuTensorMapEncodeTiled");
    TensorMap map;
    const cuuint32_t steps[TensorLayout::kMostAxes] = {1, 1, 1, 1, 1};
    cuuint64_t sizes[TensorLayout::kMostAxes], strides[TensorLayout::kMostAxes] = {};
    for (int axis = 0; axis < layout.axes; ++axis) {
        sizes[axis] = layout.size[axis];
        if (axis > 0) strides[axis - 1] = layout.stride[axis];
    }
    const CUresult status =
        encode(&map.opaque, detail::element_type(layout.element_bytes), static_cast<cuuint32_t>(layout.axes),
               layout.data, sizes, strides, layout.box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
               detail::swizzle_mode(layout.swizzle), detail::promotion(layout.fetch),
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS)
        throw Error(ErrorCode::cuda, op, "", "cuTensorMapEncodeTiled failed: " + std::to_string(status));
    return map;
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
