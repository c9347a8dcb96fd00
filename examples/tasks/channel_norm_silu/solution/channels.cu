// Channels to unit length, a gain, SiLU, over [batch, channels, positions].
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>

namespace {

constexpr int kWidth = 8, kThreads = 256, kWarps = kThreads / 32;

struct Params {
    const __nv_bfloat16 *x, *gain;
    __nv_bfloat16* out;
    int64_t positions;
    int channels;
    float eps, root;
    bool aligned;
};

__device__ void load(const __nv_bfloat16* from, int count, bool aligned, __nv_bfloat16 (&to)[kWidth]) {
    if (aligned && count >= kWidth) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
        return;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = i < count ? from[i] : __float2bfloat16(0.0f);
}

__device__ void store(__nv_bfloat16* to, int count, bool aligned, const __nv_bfloat16 (&from)[kWidth]) {
    if (aligned && count >= kWidth) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
        return;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
        if (i < count) to[i] = from[i];
    }
}

// What     y = x / max(|x|, eps) * root * gain, |x| over the channels; out = y / (1 + exp(-y))
// Mapping  a warp holds kVectors vectors of 8 positions in 32 / kVectors channels at once; a thread keeps every
//          kLanes-th channel of its positions in registers, so that x is read once
// Traffic  x and out once: bound by memory
// Needs    channels <= kEach * kLanes; aligned: whole vectors of positions in every row
template <int kVectors, int kEach>
__global__ void __launch_bounds__(kThreads) channel_norm(const Params p) {
    constexpr int kOfWarp = 32 / kVectors, kLanes = kWarps * kOfWarp;
    __shared__ float partial[kWarps][kVectors * kWidth];
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int vector = lane % kVectors, first = warp * kOfWarp + lane / kVectors;
    const int64_t column = (static_cast<int64_t>(blockIdx.x) * kVectors + vector) * kWidth;
    const int64_t left = p.positions - column;
    const int count = left < 0 ? 0 : left > kWidth ? kWidth : static_cast<int>(left);
    const int64_t base = static_cast<int64_t>(blockIdx.y) * p.channels * p.positions + column;
    alignas(16) __nv_bfloat16 values[kEach][kWidth];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int channel = first + i * kLanes;
        load(p.x + base + channel * p.positions, channel < p.channels ? count : 0, p.aligned, values[i]);
    }
    float squares[kWidth] = {};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
            const float v = __bfloat162float(values[i][j]);
            squares[j] += v * v;
        }
    }
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
#pragma unroll
        for (int step = kVectors; step < 32; step *= 2)
            squares[j] += __shfl_xor_sync(0xffffffff, squares[j], step);
        if (lane < kVectors) partial[warp][vector * kWidth + j] = squares[j];
    }
    __syncthreads();
    float factor[kWidth];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) sum += partial[w][vector * kWidth + j];
        const float length = sqrtf(sum);
        factor[j] = p.root / (length < p.eps ? p.eps : length);  // NaN stays NaN
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int channel = first + i * kLanes;
        if (channel >= p.channels) break;
        const float gain = __bfloat162float(p.gain[channel]);
        alignas(16) __nv_bfloat16 result[kWidth];
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
            const float y = __bfloat162float(values[i][j]) * factor[j] * gain;
            result[j] = __float2bfloat16(y / (1.0f + expf(-y)));
        }
        store(p.out + base + channel * p.positions, count, p.aligned, result);
    }
}

template <int kVectors, int kEach>
void launch(const Params& p, int64_t batch, cudaStream_t stream) {
    constexpr int64_t kPositions = kVectors * kWidth;
    const dim3 grid(static_cast<unsigned>((p.positions + kPositions - 1) / kPositions),
                    static_cast<unsigned>(batch));
    channel_norm<kVectors, kEach><<<grid, kThreads, 0, stream>>>(p);
}

// The fewest channels a thread that hold them all.
template <int kVectors>
void launch_for(const Params& p, int64_t batch, cudaStream_t stream) {
    constexpr int kLanes = kWarps * 32 / kVectors;
    const int each = (p.channels + kLanes - 1) / kLanes;
    if (each <= 3) return launch<kVectors, 3>(p, batch, stream);
    if (each <= 6) return launch<kVectors, 6>(p, batch, stream);
    if (each <= 12) return launch<kVectors, 12>(p, batch, stream);
    TVM_FFI_THROW(ValueError) << "channel_norm_silu: " << p.channels << " channels, at most " << 12 * kLanes;
}

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView gain, double eps, tvm::ffi::TensorView out) {
    const DLDevice device = x.device();
    const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
    Params p{static_cast<const __nv_bfloat16*>(x.data_ptr()),
             static_cast<const __nv_bfloat16*>(gain.data_ptr()),
             static_cast<__nv_bfloat16*>(out.data_ptr()),
             x.size(2),
             static_cast<int>(x.size(1)),
             static_cast<float>(eps),
             sqrtf(static_cast<float>(x.size(1))),
             false};
    p.aligned = p.positions % kWidth == 0 &&
                (reinterpret_cast<uintptr_t>(p.x) | reinterpret_cast<uintptr_t>(p.out)) % 16 == 0;
    // Few positions: narrower blocks, so that there are enough of them.
    if (p.positions < 40000) return launch_for<2>(p, x.size(0), stream);
    launch_for<8>(p, x.size(0), stream);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)
