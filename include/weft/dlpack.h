// DLPack in and out, as templates over the official structs: include <dlpack/dlpack.h> (or tvm-ffi's copy)
// before use.
#pragma once

#include "weft/error.h"
#include "weft/tensor.h"

namespace weft {
namespace dlpack_code {  // DLDataTypeCode and DLDeviceType, by value
inline constexpr int kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6, kE4m3fn = 10, kE5m2 = 12,
                     kE8m0fnu = 14, kE2m1fn = 17;
inline constexpr int kCpuDevice = 1, kCudaDevice = 2, kCudaHostDevice = 3;
}  // namespace dlpack_code

// Throws invalid_argument (field `field` of op `op`) for a dtype, rank or device that weft has no word for.
template <class DLTensor>
Tensor from_dlpack(const DLTensor& in, const char* op = "", const char* field = "tensor") {
    namespace code = dlpack_code;
    struct Row {
        int code, bits, lanes;
        DType dtype;
    };
    constexpr Row kRows[] = {{code::kFloat, 32, 1, DType::fp32},     {code::kBfloat, 16, 1, DType::bf16},
                             {code::kFloat, 16, 1, DType::fp16},     {code::kE4m3fn, 8, 1, DType::fp8_e4m3},
                             {code::kE5m2, 8, 1, DType::fp8_e5m2},   {code::kInt, 8, 1, DType::int8},
                             {code::kInt, 32, 1, DType::int32},      {code::kInt, 64, 1, DType::int64},
                             {code::kUInt, 8, 1, DType::uint8},      {code::kBool, 8, 1, DType::uint8},
                             {code::kE2m1fn, 4, 2, DType::fp4_e2m1}, {code::kE8m0fnu, 8, 1, DType::ue8m0},
                             {code::kInt, 4, 2, DType::int4}};
    const Row* row = nullptr;
    for (const Row& r : kRows) {
        if (r.code == in.dtype.code && r.bits == in.dtype.bits && r.lanes == in.dtype.lanes) row = &r;
    }
    auto fail = [&](const std::string& what) -> Error {
        return {ErrorCode::invalid_argument, op, field, what};
    };
    if (row == nullptr)
        throw fail("DLPack dtype code " + std::to_string(in.dtype.code) + " with " +
                   std::to_string(in.dtype.bits) + " bits has no weft dtype");
    if (in.ndim > kMaxRank)
        throw fail("rank " + std::to_string(in.ndim) + " exceeds " + std::to_string(kMaxRank));
    Tensor out;
    out.dtype = row->dtype;
    const int device = static_cast<int>(in.device.device_type);
    if (device == code::kCpuDevice || device == code::kCudaHostDevice) {
        out.device = kCpu;
    } else if (device == code::kCudaDevice) {
        out.device = {DeviceType::cuda, static_cast<int>(in.device.device_id)};
    } else {
        throw fail("DLPack device type " + std::to_string(device) + " is not supported");
    }
    out.rank = in.ndim;
    out.data = static_cast<char*>(in.data) + in.byte_offset;
    const int pack = row->lanes;  // a packed pair is one DLPack element and two of weft's
    std::int64_t dense = 1;
    for (int i = in.ndim - 1; i >= 0; --i) {
        const bool last = i == in.ndim - 1;
        out.shape[i] = in.shape[i] * (last ? pack : 1);
        out.stride[i] = in.strides != nullptr ? in.strides[i] * (last ? 1 : pack) : dense;
        if (__builtin_mul_overflow(dense, out.shape[i], &dense)) throw fail("is too large");
    }
    return out;
}

// Fills `out`, whose shape and strides point into `shape` and `stride` (kMaxRank each).
template <class DLTensor>
void to_dlpack(const Tensor& in, DLTensor& out, std::int64_t* shape, std::int64_t* stride) {
    namespace code = dlpack_code;
    constexpr int kCode[kDTypeCount] = {code::kFloat, code::kBfloat, code::kFloat,   code::kE4m3fn,
                                        code::kE5m2,  code::kInt,    code::kInt,     code::kInt,
                                        code::kUInt,  code::kE2m1fn, code::kE8m0fnu, code::kInt};
    const int pack = bits(in.dtype) < 8 ? 8 / bits(in.dtype) : 1;
    out.data = in.data;
    out.byte_offset = 0;
    out.ndim = in.rank;
    out.dtype.code = static_cast<decltype(out.dtype.code)>(kCode[static_cast<int>(in.dtype)]);
    out.dtype.bits = static_cast<decltype(out.dtype.bits)>(bits(in.dtype));
    out.dtype.lanes = static_cast<decltype(out.dtype.lanes)>(pack);
    out.device.device_type = static_cast<decltype(out.device.device_type)>(
        in.device.type == DeviceType::cuda ? code::kCudaDevice : code::kCpuDevice);
    out.device.device_id = in.device.index;
    for (int i = 0; i < in.rank; ++i) {
        const bool last = i == in.rank - 1;
        shape[i] = in.shape[i] / (last ? pack : 1);
        stride[i] = in.stride[i] / (last ? 1 : pack);
    }
    out.shape = shape;
    out.strides = stride;
}

}  // namespace weft
