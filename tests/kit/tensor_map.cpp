// What the copy engine takes of a tensor, to the last number: the emulator has no other limits than those that are asked
// about, and a map that hardware refuses shows on a GPU alone.
#include <gmock/gmock.h>

#include <array>
#include <functional>

#include "kit/tensor_map.h"

namespace weft::inline WEFT_TARGET {
namespace {

using kit::Swizzle;
using kit::TensorLayout;
using testing::HasSubstr;
using testing::IsNull;

alignas(16) std::array<char, 32> memory;

TensorLayout layout() {
    TensorLayout fits{.data = memory.data(), .element_bytes = 2, .axes = 3};
    for (int axis = 0; axis < TensorLayout::kMostAxes; ++axis) {
        fits.size[axis] = 64;
        fits.stride[axis] = axis == 0 ? 2 : 128;
        fits.box[axis] = 8;
    }
    return fits;
}

// Why a layout does not fit that is as `change` leaves it; null where it does.
const char* why(const std::function<void(TensorLayout&)>& change) {
    TensorLayout changed = layout();
    change(changed);
    return unfit(changed);
}

TEST(TensorMaps, HaveTwoToFiveAxesOfOneToTwoToThe32Elements) {
    EXPECT_THAT(why([](TensorLayout&) {}), IsNull());
    for (const int axes : {2, 5}) EXPECT_THAT(why([=](TensorLayout& t) { t.axes = axes; }), IsNull());
    for (const int axes : {1, 6})
        EXPECT_THAT(why([=](TensorLayout& t) { t.axes = axes; }), HasSubstr("2 to 5 axes"));
    for (const int axis : {0, 2}) {
        const auto of_size = [=](std::uint64_t size) {
            return why([=](TensorLayout& t) { t.size[axis] = size; });
        };
        EXPECT_THAT(of_size(1), IsNull());
        EXPECT_THAT(of_size(std::uint64_t{1} << 32), IsNull());
        for (const std::uint64_t size : {std::uint64_t{0}, (std::uint64_t{1} << 32) + 1})
            EXPECT_THAT(of_size(size), HasSubstr("1 to 2^32 elements"));
    }
}

TEST(TensorMaps, HaveAddressesAndStridesOf16Bytes) {
    EXPECT_THAT(why([](TensorLayout& t) { t.data = memory.data() + 16; }), IsNull());
    EXPECT_THAT(why([](TensorLayout& t) { t.data = memory.data() + 8; }), HasSubstr("address"));
    for (const int axis : {1, 2}) {
        const auto of_stride = [=](std::uint64_t stride) {
            return why([=](TensorLayout& t) { t.stride[axis] = stride; });
        };
        EXPECT_THAT(of_stride((std::uint64_t{1} << 40) - 16), IsNull());
        for (const std::uint64_t stride : {std::uint64_t{136}, std::uint64_t{1} << 40})
            EXPECT_THAT(of_stride(stride), HasSubstr("multiple of 16 bytes below 2^40"));
    }
    EXPECT_THAT(why([](TensorLayout& t) { t.stride[3] = 8; }), IsNull()) << "it has no such axis";
}

TEST(TensorMaps, HaveBoxesOfWholeChunksWithinTheirSwizzle) {
    for (const int axis : {1, 2}) {
        const auto of_side = [=](std::uint32_t side) {
            return why([=](TensorLayout& t) { t.box[axis] = side; });
        };
        for (const std::uint32_t side : {1u, 256u}) EXPECT_THAT(of_side(side), IsNull());
        for (const std::uint32_t side : {0u, 257u})
            EXPECT_THAT(of_side(side), HasSubstr("1 to 256 elements"));
    }
    EXPECT_THAT(why([](TensorLayout& t) { t.box[0] = 12; }),
                HasSubstr("inner side of the box is not a multiple"));
    for (const Swizzle swizzle : {Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128}) {
        const auto widest = static_cast<std::uint32_t>(swizzle) / 2;
        const auto of_inner = [=](std::uint32_t elements) {
            return why([=](TensorLayout& t) { t.swizzle = swizzle, t.box[0] = elements; });
        };
        EXPECT_THAT(of_inner(widest), IsNull());
        EXPECT_THAT(of_inner(widest + 8), HasSubstr("wider than its swizzle"));
    }
    EXPECT_THAT(why([](TensorLayout& t) { t.box[0] = 256; }), IsNull()) << "without a swizzle";
}

TEST(TensorMaps, FetchLessAtOnceOfWhatOneBlockReads) {
    EXPECT_EQ(kit::fetch_for(1), kit::Fetch::bytes128);
    for (const std::int64_t readers : {2, 16}) EXPECT_EQ(kit::fetch_for(readers), kit::Fetch::bytes256);
    EXPECT_EQ(TensorLayout{}.fetch, kit::Fetch::bytes256) << "who reads it is not said";
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
