// nms: what generated cases don't say.
#include <gmock/gmock.h>

#include "ops/nms/nms.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Nms, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("nms boxes=fp32[5,3] scores=fp32[5] keep=int64[5] count=int32[1]"),
                HasSubstr("nms.boxes: expected"));
    EXPECT_THAT(rejection("nms boxes=fp32[5,4] scores=fp32[4] keep=int64[5] count=int32[1]"),
                HasSubstr("nms.scores: expected [n=5], got [4]"));
}

void kept(HostTensor& boxes, HostTensor& scores, HostTensor& keep, HostTensor& count, Device device) {
    run(Nms{.boxes = boxes.on(device),
            .scores = scores.on(device),
            .keep = keep.on(device),
            .count = count.on(device)});
}

// A chain of boxes, each of which overlaps the next: every second one is kept, and whether one is depends on all before
// it. A kernel whose threads read each other's verdicts while they are made loses some; it also gave back places in the
// sorted order in place of indices.
TEST(Nms, AChainOfOverlapsIsResolvedInOrder) {
    constexpr int kN = 300;
    for (const Device device : test::host_devices()) {
        HostTensor boxes(DType::fp32, {kN, 4}), scores(DType::fp32, {kN}), keep(DType::int64, {kN}),
            count(DType::int32, {1});
        for (int place = 0; place < kN; ++place) {
            const int i = place * 7 % kN;  // the order of scores is not that of indices
            boxes.set(i * 4 + 0, place * 0.25);
            boxes.set(i * 4 + 1, 0);
            boxes.set(i * 4 + 2, place * 0.25 + 1);
            boxes.set(i * 4 + 3, 1);
            scores.set(i, kN - place);
        }
        // Neighbours share 0.6 of their union, the next but one 1/3.
        kept(boxes, scores, keep, count, device);
        EXPECT_EQ(count[0], kN / 2);
        for (int i = 0; i < kN; ++i) ASSERT_EQ(keep[i], i < kN / 2 ? 2 * i * 7 % kN : -1) << i;
    }
}

// The first box of each kind covers the others of it, words of 64 boxes behind it. Of many kinds each thread that gathers
// has a box that is kept.
TEST(Nms, KeptBoxesCoverThoseFarBehindThem) {
    constexpr int kN = 1100;
    for (const int kinds : {3, 520}) {
        for (const Device device : test::host_devices()) {
            HostTensor boxes(DType::fp32, {kN, 4}), scores(DType::fp32, {kN}), keep(DType::int32, {kN}),
                count(DType::int32, {1});
            for (int i = 0; i < kN; ++i) {
                const int kind = i % kinds;
                boxes.set(i * 4 + 0, 2 * kind);
                boxes.set(i * 4 + 2, 2 * kind + 1);
                boxes.set(i * 4 + 3, 1);
                scores.set(i, kN - i);
            }
            kept(boxes, scores, keep, count, device);
            EXPECT_EQ(count[0], kinds);
            for (int i = 0; i < kN; ++i) ASSERT_EQ(keep[i], i < kinds ? i : -1) << i << " of " << kinds;
        }
    }
}

TEST(Nms, NoBoxesAndEmptyOnes) {
    for (const Device device : test::host_devices()) {
        HostTensor boxes(DType::fp32, {0, 4}), scores(DType::fp32, {0}), keep(DType::int32, {0}),
            count(DType::int32, {1}, {5});
        kept(boxes, scores, keep, count, device);
        EXPECT_EQ(count[0], 0);
        // Two boxes of no area at one place: 0/0 is no overlap.
        HostTensor points(DType::fp32, {2, 4}), equal(DType::fp32, {2}), both(DType::int32, {2});
        kept(points, equal, both, count, device);
        EXPECT_EQ(count[0], 2);
        EXPECT_EQ(both[1], 1);
    }
}

}  // namespace
}  // namespace weft
