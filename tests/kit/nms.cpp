// nms' last kernel with more words of boxes than threads: a case of so many boxes would take the emulator minutes, for the two kernels
// before it look at each pair.
#include "../emulator/support.h"

#include <numeric>

// The kernels before it are there too, and are not run.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "ops/nms/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Emulator;

TEST_F(Emulator, NmsResolvesMoreWordsOfBoxesThanItHasThreads) {
    if (test::kAsan || test::kTsan) GTEST_SKIP() << "it is of values alone";
    constexpr unsigned kWords = kResolveThreads + 2, kBoxes = kWords * kBits - 3;
    std::vector<unsigned> order(kBoxes);
    std::iota(order.rbegin(), order.rend(), 0u);
    // The first box covers the last one, and the first of the second word all but one of a word beyond as many as there are threads.
    std::vector<unsigned long long> covers(std::size_t{kBoxes} * kWords, 0);
    covers[std::size_t{kWords - 1} * kBoxes] = 1ull << 60;
    covers[std::size_t{kResolveThreads} * kBoxes + kBits] = ~2ull;
    std::vector<int> keep(kBoxes);
    int count = 0;
    NmsParams p{};
    p.n = kBoxes;
    p.words = kWords;
    p.order = order.data();
    p.covers = covers.data();
    p.keep = keep.data();
    p.keep_dtype = DType::int32;
    p.count = &count;
    kit::launch("nms_resolve", nms_resolve,
                {.block = kResolveThreads,
                 .dynamic_shared = kWords * (sizeof(unsigned long long) + sizeof(unsigned))},
                Stream{}, p);
    std::vector<int> expected;
    for (unsigned i = 0; i < kBoxes; ++i) {
        const bool covered = i / kBits == kResolveThreads && i % kBits != 1;
        if (!covered && i != (kWords - 1) * kBits + 60) expected.push_back(static_cast<int>(order[i]));
    }
    EXPECT_EQ(count, static_cast<int>(expected.size()));
    expected.resize(kBoxes, -1);
    EXPECT_EQ(keep, expected);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
