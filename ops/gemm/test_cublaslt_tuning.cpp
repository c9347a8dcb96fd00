// How cuBLASLt's candidates are timed: in graphs, over copies of the weights, those near the best again.
#if WEFT_HAS_CUBLASLT
#include <limits>
#include <set>

#include "ops/gemm/test_library.h"

namespace weft {
namespace {

using test::FakeCuda;
using test::kFakeDevice;
using test::library;
using test::Product;

constexpr std::size_t kWorkspace = std::size_t{64} << 20;

// What a candidate's measurements say: one product, and then the rounds of a graph, the last one for ever.
struct Clock {
    double once = 9;
    std::vector<double> rounds;
    std::size_t next = 0;
};

struct GemmCublasltTuning : test::WithCublaslt {
    GemmCublasltTuning() {
        library.noted = true;
        context->set_tuning(true);
        FakeCuda::state().time_us = [this] {
            Clock& clock = clocks[library.multiplied.back()];
            if (!FakeCuda::calls().back().starts_with("launch_graph")) return clock.once;
            return clock.rounds[std::min(clock.next++, clock.rounds.size() - 1)];
        };
    }
    // Candidates by what their rounds say; the chosen one.
    std::uint64_t race(std::vector<std::vector<double>> rounds, double once = 200) {
        clocks.clear();
        library.offered = static_cast<int>(rounds.size());
        for (std::size_t i = 0; i < rounds.size(); ++i) clocks[i + 1] = {once, std::move(rounds[i])};
        return chosen();
    }
    std::uint64_t chosen() {
        context.emplace(kFakeDevice);
        context->set_tuning(true);
        FakeCuda::calls().clear();
        EXPECT_EQ(how(product(1000)), "timed");
        const auto times = std::count(FakeCuda::calls().begin(), FakeCuda::calls().end(), "time on 1");
        timed = static_cast<int>(times) / 5;
        EXPECT_EQ(times % 5, 0) << "one product, and four rounds";
        context->set_tuning(false);
        gemm::cublaslt_launch(product(1000), *context);
        return library.multiplied.back();
    }
    // Of a problem whose weights have n · k elements of bf16, with an L2 of so many bytes.
    void time_weights(std::int64_t n, std::int64_t k, long l2_bytes) {
        library.products.clear();
        FakeCuda::state().allocated.clear();
        FakeCuda::calls().clear();
        context.emplace(kFakeDevice);
        info = device_info(kFakeDevice);
        info.l2_bytes = l2_bytes;
        context->set_info(info);
        context->set_tuning(true);
        clocks[1].rounds = {1};
        library.offered = 1;
        Gemm op = product(1 << 17);
        op.a.shape[1] = k;
        op.b = Tensor(memory.data(), DType::bf16, {n, k}, kFakeDevice);
        op.out.shape[1] = n;
        EXPECT_EQ(how(op), "timed");
    }

    std::map<std::uint64_t, Clock> clocks;
    int timed = 0;  // candidates, each time that one was
    DeviceInfo info;
};

TEST_F(GemmCublasltTuning, AGraphHoldsAsManyProductsAsLast400Microseconds) {
    const auto products = [&](double once) {
        clocks[1] = {once, {1}};
        library.offered = 1;
        library.products.clear();
        chosen();
        return library.products.size() - 1;  // and the one that was asked for
    };
    // The warm-up and the race: each loads the kernel, times one product, and fills a graph.
    EXPECT_EQ(products(1000), 2u * (2 + 2));
    EXPECT_EQ(products(200), 2u * (2 + 2));
    EXPECT_EQ(products(19.09), 2u * (2 + 20));
    EXPECT_EQ(products(8.4), 2u * (2 + 47));
    EXPECT_EQ(products(8.3), 2u * (2 + 48));
    EXPECT_EQ(products(0.1), 2u * (2 + 48));
}

TEST_F(GemmCublasltTuning, WhatCountsIsTheTimeOfOneProduct) {
    library.offered = 2;
    clocks[1] = {200, {20}};
    clocks[2] = {100, {32}};
    EXPECT_EQ(chosen(), 2u);
}

TEST_F(GemmCublasltTuning, TheBestOfFourRoundsCounts) {
    EXPECT_EQ(race({{10}, {12, 12, 12, 9}, {12, 12, 12, 12, 1}}), 2u);
    EXPECT_EQ(timed, 1 + 3) << "the others are not near";
    EXPECT_EQ(race({{12}, {9, 15, 15, 15, 9}}), 2u);
}

TEST_F(GemmCublasltTuning, ThoseNearTheBestAreTimedAgainInTurn) {
    EXPECT_EQ(race({{100}, {104}, {106}}), 1u);
    EXPECT_EQ(timed, 1 + 3 + 3 * 3);
    EXPECT_EQ(race({{104}, {109}, {100}}), 3u);
    EXPECT_EQ(timed, 1 + 3 + 3 * 2);
    EXPECT_EQ(race({{216}, {200}}), 2u);
    EXPECT_EQ(timed, 1 + 2 + 3 * 2) << "8 % are near";
    EXPECT_EQ(race({{200}, {200}, {200}}), 1u) << "of equals the favourite";
    EXPECT_EQ(race({{217}, {200}}), 2u);
    EXPECT_EQ(timed, 1 + 2);
}

TEST_F(GemmCublasltTuning, TheLaterRoundsDecide) {
    const std::vector<double> lucky = {101, 101, 101, 101, 107}, settled = {106, 106, 106, 106, 104};
    EXPECT_EQ(race({{200}, lucky, settled}), 3u);
    // 104 once, and 110 after that.
    const std::vector<double> hot = {104, 104, 104, 104, 104, 104, 104, 104, 110};
    EXPECT_EQ(race({{105}, hot}), 2u);
}

TEST_F(GemmCublasltTuning, WhatFailsIsNotChosen) {
    clocks[1].rounds = {8};
    clocks[2].rounds = {7};
    clocks[3].rounds = {1};
    library.broken = 3;
    EXPECT_EQ(chosen(), 2u);
    library.offered = 1;
    library.broken = 1;
    context.emplace(kFakeDevice);
    context->set_tuning(true);
    EXPECT_EQ(how(product(1000)), "its heuristic knows no algorithm for this product that rounds once");
}

TEST_F(GemmCublasltTuning, WithoutMemoryTheFavouriteIsTaken) {
    clocks[1].rounds = {8};
    clocks[2].rounds = {7};
    library.offered = 2;
    FakeCuda::state().full = true;
    EXPECT_EQ(chosen(), 1u);
}

TEST_F(GemmCublasltTuning, CandidatesAreAskedForUnderThreeLimitsOfWorkspaceAndTimedOnce) {
    EXPECT_EQ(race({{10}, {20}}), 1u);
    EXPECT_EQ(timed, 1 + 2);
    ASSERT_EQ(library.preferences.size(), 3u);
    const auto asked = [](std::size_t i) {
        const auto& preference = library.preferences[i];
        return std::pair(preference.attributes.at(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
                         preference.wanted);
    };
    EXPECT_EQ(asked(0), std::pair(std::int64_t{kWorkspace}, 12));
    EXPECT_EQ(asked(1), std::pair(std::int64_t{kWorkspace / 8}, 6));
    EXPECT_EQ(asked(2), std::pair(std::int64_t{0}, 6));
}

TEST_F(GemmCublasltTuning, AWorkspaceIsThereWhileItIsTimedAndAfterwards) {
    EXPECT_EQ(race({{20}, {10}}), 2u);
    for (const Product& p : library.products) {
        EXPECT_TRUE(p.has_workspace || p.algorithm != 2);
        EXPECT_EQ(p.workspace, p.algorithm == 2 ? 4096u : 0u);
    }
}

// So that no product finds its weights in L2.
TEST_F(GemmCublasltTuning, WeightsAreCopiesInTurn) {
    static_cast<std::uint16_t*>(memory.data())[0] = 0x1234;
    library.reads_weights = true;
    const auto copies = [&](std::int64_t n, std::int64_t k, long l2_bytes, std::size_t pitch) {
        time_weights(n, k, l2_bytes);
        std::vector<const void*> order;
        for (const Product& p : library.products) {
            EXPECT_EQ(p.weight, 0x1234);
            order.push_back(p.a);
        }
        const std::size_t count = std::set(order.begin(), order.end()).size() - 1;
        EXPECT_EQ(order[0], memory.data());
        for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], order[i % (count + 1)]);
        for (std::size_t i = 1; i <= count; ++i)
            EXPECT_EQ(order[i], static_cast<const char*>(order[1]) + (i - 1) * pitch);
        EXPECT_EQ(FakeCuda::state().allocated[0], kWorkspace);
        EXPECT_EQ(FakeCuda::state().allocated.size() > 1 ? FakeCuda::state().allocated[1] : 0, count * pitch);
        return count;
    };
    EXPECT_EQ(copies(500, 501, 3 << 19, 501248), 6u);
    EXPECT_EQ(copies(512, 512, 3 << 19, 512 * 1024), 6u) << "already a multiple of 256";
    EXPECT_EQ(copies(500, 501, 0, 501248), 4u) << "twice a megabyte where L2 is not known";
    EXPECT_EQ(copies(8, 8, 60 << 20, 256), 64u);
    EXPECT_EQ(copies(2048, 2048, 1 << 20, 8 << 20), 0u);
}

TEST_F(GemmCublasltTuning, AResidualIsNotWrittenOver) {
    for (const bool in_place : {false, true}) {
        library.products.clear();
        FakeCuda::state().allocated.clear();
        context.emplace(kFakeDevice);
        context->set_tuning(true);
        clocks[1].rounds = {1};
        library.offered = 1;
        Gemm op = product(1000);
        op.residual = op.out;
        if (!in_place) op.residual.data = static_cast<char*>(op.out.data) + (1 << 20);
        how(op);
        for (const Product& p : library.products) {
            EXPECT_EQ(p.c, op.residual.data);
            EXPECT_EQ(p.d != op.out.data, in_place);
        }
        EXPECT_EQ(FakeCuda::state().allocated.size(), in_place ? 3u : 2u);
        EXPECT_EQ(FakeCuda::state().allocated.back() == 1000 * 512 * 2, in_place);
        gemm::cublaslt_launch(op, *context);
        EXPECT_EQ(library.products.back().d, op.out.data);
    }
}

TEST_F(GemmCublasltTuning, WhatADescriptionPointsToIsThereWhileItIsTimed) {
    clocks[1].rounds = {1};
    library.offered = 1;
    Gemm op = product(1000);
    op.bias = Tensor(static_cast<char*>(memory.data()) + 4096, DType::bf16, {512}, kFakeDevice);
    EXPECT_EQ(how(op), "timed");
    ASSERT_FALSE(library.products.empty());
    for (const Product& p : library.products)
        EXPECT_EQ(p.attributes.at(CUBLASLT_MATMUL_DESC_BIAS_POINTER),
                  reinterpret_cast<std::int64_t>(op.bias.data));
}

TEST_F(GemmCublasltTuning, QueuedWorkIsWaitedForFirst) {
    FakeCuda::calls().clear();
    clocks[1].rounds = {1};
    library.offered = 1;
    how(product(1000));
    const auto first = [](const char* what) {
        return std::find(FakeCuda::calls().begin(), FakeCuda::calls().end(), what) -
               FakeCuda::calls().begin();
    };
    EXPECT_LT(first("synchronize on 1"), first("copy on 1"));
    EXPECT_LT(first("copy on 1"), first("time on 1"));
    const auto graphs = std::count(FakeCuda::calls().begin(), FakeCuda::calls().end(), "launch_graph on 1");
    EXPECT_EQ(graphs, 2 * (1 + 4)) << "each graph once before it is timed";
}

}  // namespace
}  // namespace weft
#endif
