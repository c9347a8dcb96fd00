// Least times by a device's rates, and the file of choices that were timed.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "weft/error.h"
#include "weft/plans.h"
#include "weft/roofline.h"

namespace weft {
namespace {

using testing::HasSubstr;

DeviceInfo device() {
    DeviceInfo info;
    info.copy_tbps = 2, info.read_tbps = 4;
    info.half_tflops = 500, info.fp8_tflops = 1000, info.fp32_tflops = 50;
    info.launch_us = 1.5;
    return info;
}

Work work(double bytes, double flops, DType math) {
    Work work;
    work.bytes = bytes, work.flops = flops, work.math = math;
    return work;
}

TEST(Floors, AreTheLongestOfMovingComputingAndLaunching) {
    EXPECT_DOUBLE_EQ(floor_us(work(4e9, 0, DType::bf16), device()), 1000)
        << "by the better of two bandwidths";
    EXPECT_DOUBLE_EQ(floor_us(work(1, 5e12, DType::bf16), device()), 10000);
    EXPECT_DOUBLE_EQ(floor_us(work(1, 5e12, DType::fp16), device()), 10000);
    EXPECT_DOUBLE_EQ(floor_us(work(1, 5e12, DType::fp8_e4m3), device()), 5000);
    EXPECT_DOUBLE_EQ(floor_us(work(1, 5e12, DType::fp8_e5m2), device()), 5000);
    EXPECT_DOUBLE_EQ(floor_us(work(1, 5e12, DType::int8), device()), 5000);
    EXPECT_DOUBLE_EQ(floor_us(work(1, 5e12, DType::fp32), device()), 100000);
    EXPECT_DOUBLE_EQ(floor_us(work(1, 1, DType::bf16), device()), 1.5);
    DeviceInfo copies = device();
    copies.read_tbps = 1;
    EXPECT_DOUBLE_EQ(floor_us(work(4e9, 0, DType::bf16), copies), 2000);
}

TEST(Floors, AreNoneWhereARateIsNotKnown) {
    DeviceInfo unknown = device();
    unknown.fp8_tflops = 0;
    EXPECT_EQ(floor_us(work(4e9, 1, DType::fp8_e4m3), unknown), 0);
    EXPECT_GT(floor_us(work(4e9, 1, DType::bf16), unknown), 0);
    EXPECT_DOUBLE_EQ(floor_us(work(1, 5e12, DType::int8), unknown), 5000) << "int8 is older than fp8";
    Work partly = work(4e9, 0, DType::bf16);
    partly.at_most = true;
    EXPECT_EQ(floor_us(partly, device()), 0);
    unknown.copy_tbps = unknown.read_tbps = 0;
    EXPECT_EQ(floor_us(work(4e9, 1, DType::bf16), unknown), 0);
}

struct PlansFile : testing::Test {
    ~PlansFile() override { std::filesystem::remove(path); }
    std::string refusal(const std::string& text) const {
        std::ofstream(path) << text;
        try {
            Plans::read(path);
            return "read";
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::io);
            return e.what();
        }
    }
    const std::string path =
        std::filesystem::temp_directory_path() / ("weft_plans_" + std::to_string(getpid()) + ".json");
};

TEST_F(PlansFile, IsReadAsItWasWritten) {
    Plans plans;
    plans.set("library 1 on a card", "m=1 n=2", "the third");
    plans.set("library 2 on a card", "m=1 n=2", "the first");
    plans.write(path);
    const Plans again = Plans::read(path);
    ASSERT_NE(again.find("library 1 on a card", "m=1 n=2"), nullptr);
    EXPECT_EQ(*again.find("library 1 on a card", "m=1 n=2"), "the third");
    EXPECT_EQ(*again.find("library 2 on a card", "m=1 n=2"), "the first");
    EXPECT_EQ(again.find("library 1 on a card", "m=1 n=3"), nullptr);
    EXPECT_EQ(again.find("library 3 on a card", "m=1 n=2"), nullptr);
}

TEST_F(PlansFile, ThatCannotBeWrittenIsAnError) {
    EXPECT_THROW(Plans().write("/dev/full"), Error) << "nothing fits in it";
    EXPECT_THROW(Plans().write(path + "/plans.json"), Error) << "there is no such folder";
}

TEST_F(PlansFile, OfAnotherFormatIsRefused) {
    for (const char* text : {"", "{", "[]", "{}", R"({"plans":{}})",
                             R"({"format":"weft plans 2","plans":{}})", R"({"format":1,"plans":{}})"}) {
        EXPECT_THAT(refusal(text), HasSubstr(path + ": is not a file of `weft tune`")) << text;
    }
    EXPECT_THAT(refusal(R"({"format":"weft plans 1"})"), HasSubstr(path));
    EXPECT_THAT(refusal(R"({"format":"weft plans 1","plans":{"a":1}})"), HasSubstr(path));
    EXPECT_EQ(refusal(R"({"format":"weft plans 1","plans":{}})"), "read");
    std::filesystem::remove(path);
    EXPECT_THROW(Plans::read(path), Error);
}

}  // namespace
}  // namespace weft
