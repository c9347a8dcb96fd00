// What all of the verifier stands on: a loop on several threads, and numbers that follow from a seed.
#include "verify/parallel.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "verify/random.h"

namespace weft::test {
namespace {

using testing::ElementsAre;

TEST(Parallel, CallsEachPieceOnce) {
    for (const std::size_t threads : {0, 1, 2, 7}) {
        for (const std::size_t count : {0, 1, 2, 5, 300}) {
            std::vector<std::atomic<int>> calls(count + 1);
            parallel_for(count, threads, [&](std::size_t i) { ++calls[i]; });
            for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(calls[i], 1) << i << " of " << count;
            EXPECT_EQ(calls[count], 0);
        }
    }
}

std::set<std::thread::id> threads_of(std::size_t count, std::size_t threads) {
    std::mutex mutex;
    std::set<std::thread::id> ids;
    parallel_for(count, threads, [&](std::size_t) {
        {
            const std::scoped_lock lock(mutex);
            ids.insert(std::this_thread::get_id());
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
    return ids;
}

TEST(Parallel, RunsOnAsManyThreadsAsItIsGiven) {
    EXPECT_EQ(threads_of(60, 2).size(), 2u);
    EXPECT_EQ(threads_of(60, 3).size(), 3u);
    EXPECT_THAT(threads_of(6, 1), ElementsAre(std::this_thread::get_id()));
    EXPECT_THAT(threads_of(1, 4), ElementsAre(std::this_thread::get_id()));
    EXPECT_LE(threads_of(2, 4).size(), 2u);
    EXPECT_TRUE(threads_of(60, 2).contains(std::this_thread::get_id())) << "the caller works, too";
}

TEST(Parallel, ThrowsWhatAPieceThrewAfterAllHaveEnded) {
    for (const std::size_t threads : {1, 3}) {
        std::atomic<int> calls = 0;
        EXPECT_THROW(parallel_for(20, threads,
                                  [&](std::size_t i) {
                                      ++calls;
                                      if (i == 4) throw std::out_of_range("four");
                                  }),
                     std::out_of_range);
        EXPECT_GE(calls, 5);
        if (threads > 1) {
            EXPECT_EQ(calls, 20) << "the other pieces run all the same";
        }
    }
}

TEST(RandomNumbers, MixAsSplitmix64Does) {
    EXPECT_EQ(mix(0), 0xe220a8397b1dcdafu);
    EXPECT_EQ(mix(0x9e3779b97f4a7c15), 0x6e789e6aa1b965f4u);
    EXPECT_EQ(mix(2 * 0x9e3779b97f4a7c15), 0x06c45d188009454fu);
}

TEST(RandomNumbers, FollowFromSeedAndStream) {
    Random a(3, 4), b(3, 4), other_seed(4, 4), other_stream(3, 5);
    for (int i = 0; i < 50; ++i) {
        const std::uint64_t bits = a.bits();
        EXPECT_EQ(bits, b.bits());
        EXPECT_NE(bits, other_seed.bits());
        EXPECT_NE(bits, other_stream.bits());
    }
    std::set<std::uint64_t> firsts;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        for (std::uint64_t stream = 0; stream < 20; ++stream) firsts.insert(Random(seed, stream).bits());
    }
    EXPECT_EQ(firsts.size(), 400u);
    EXPECT_EQ(Random(5).bits(), Random(5, 0).bits());
    // Corpora and records name seeds: they mean the same in every version.
    EXPECT_EQ(Random(0).bits(), mix(mix(0 ^ mix(1))));
    EXPECT_EQ(Random(7, 2).bits(), mix(mix(7 ^ mix(3))));
}

TEST(RandomNumbers, AreSpreadEvenly) {
    Random random(1);
    std::array<int, 7> counts{};
    double sum = 0, least = 1, most = 0, normals = 0, squares = 0, beyond = 0;
    constexpr int kMany = 70'000;
    for (int i = 0; i < kMany; ++i) {
        ++counts[static_cast<std::size_t>(random.below(7))];
        const double uniform = random.uniform(), normal = random.normal();
        sum += uniform;
        least = std::min(least, uniform), most = std::max(most, uniform);
        normals += normal;
        squares += normal * normal;
        beyond += std::fabs(normal) > 1.959964 ? 1 : 0;
    }
    for (const int count : counts) EXPECT_NEAR(count, kMany / 7, 500);
    EXPECT_NEAR(sum / kMany, 0.5, 0.006);
    EXPECT_TRUE(least >= 0 && least < 0.001 && most < 1 && most > 0.999);
    EXPECT_NEAR(normals / kMany, 0, 0.02);
    EXPECT_NEAR(squares / kMany, 1, 0.03);
    EXPECT_NEAR(beyond / kMany, 0.05, 0.004);
}

TEST(RandomNumbers, PickAnyElement) {
    Random random(1);
    std::set<int> picked;
    const std::vector<int> of = {3, 5, 9};
    for (int i = 0; i < 60; ++i) picked.insert(random.pick(of));
    EXPECT_THAT(picked, ElementsAre(3, 5, 9));
}

}  // namespace
}  // namespace weft::test
