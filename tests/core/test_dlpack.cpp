// DLPack in and out, over structs with the layout of the standard's.
#include "weft/dlpack.h"

#include <gmock/gmock.h>

namespace weft {
namespace {

struct FakeDevice {
    int device_type, device_id;
};
struct FakeType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
struct FakeTensor {
    void* data;
    FakeDevice device;
    int ndim;
    FakeType dtype;
    std::int64_t* shape;
    std::int64_t* strides;
    std::uint64_t byte_offset;
};

TEST(DLPack, EveryDtypeComesBack) {
    for (int i = 0; i < kDTypeCount; ++i) {
        const auto dtype = static_cast<DType>(i);
        unsigned char memory[64];
        const Tensor in(memory, dtype, {2, 4}, {DeviceType::cuda, 3});
        FakeTensor packed{};
        std::int64_t shape[kMaxRank], stride[kMaxRank];
        to_dlpack(in, packed, shape, stride);
        const Tensor out = from_dlpack(packed);
        EXPECT_EQ(to_string(out), to_string(in));
        EXPECT_EQ(out.device, in.device);
        EXPECT_EQ(out.data, memory);
    }
}

TEST(DLPack, BooleansAreBytes) {
    bool memory[4] = {true, false, true, false};
    std::int64_t shape[] = {4};
    const FakeTensor mask{memory, {1, 0}, 1, {6, 8, 1}, shape, nullptr, 0};
    const Tensor out = from_dlpack(mask);
    EXPECT_EQ(out.dtype, DType::uint8);
    EXPECT_EQ(load_integer(out.dtype, out.data, 2), 1);
}

TEST(DLPack, StridesOffsetsAndDevices) {
    float memory[32];
    std::int64_t shape[] = {2, 3}, strides[] = {8, 1};
    FakeTensor in{memory, {1, 0}, 2, {2, 32, 1}, shape, strides, 8};
    EXPECT_EQ(to_string(from_dlpack(in)), "fp32[2,3]{8,1}");
    EXPECT_EQ(from_dlpack(in).data, memory + 2);
    in.strides = nullptr;
    EXPECT_EQ(to_string(from_dlpack(in)), "fp32[2,3]");
    in.device.device_type = 3;  // pinned host memory
    EXPECT_EQ(from_dlpack(in).device, kCpu);
    in.ndim = 0;
    EXPECT_EQ(from_dlpack(in).numel(), 1);
}

TEST(DLPack, PackedPairsCountElements) {
    unsigned char memory[32];
    std::int64_t shape[] = {2, 4}, strides[] = {4, 1};
    const FakeTensor in{memory, {1, 0}, 2, {17, 4, 2}, shape, strides, 0};
    EXPECT_EQ(to_string(from_dlpack(in)), "fp4_e2m1[2,8]");
}

TEST(DLPack, WhatWeftHasNoWordForIsRefused) {
    std::int64_t shape[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const auto message = [&](FakeTensor in) {
        try {
            from_dlpack(in, "gemm", "a");
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    EXPECT_EQ(message({nullptr, {1, 0}, 1, {2, 64, 1}, shape, nullptr, 0}),
              "gemm.a: DLPack dtype code 2 with 64 bits has no weft dtype");
    EXPECT_EQ(message({nullptr, {7, 0}, 1, {2, 32, 1}, shape, nullptr, 0}),
              "gemm.a: DLPack device type 7 is not supported");
    EXPECT_EQ(message({nullptr, {1, 0}, 7, {2, 32, 1}, shape, nullptr, 0}), "gemm.a: rank 7 exceeds 6");
}

}  // namespace
}  // namespace weft
