// Messages of errors.
#include "weft/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Errors, ComposeOpFieldAndMessage) {
    EXPECT_STREQ(Error(ErrorCode::cuda, "gemm", "a", "is wrong").what(), "gemm.a: is wrong");
    EXPECT_STREQ(Error(ErrorCode::cuda, "gemm", "", "is wrong").what(), "gemm: is wrong");
    EXPECT_STREQ(Error(ErrorCode::cuda, "", "a", "is wrong").what(), "a: is wrong");
    EXPECT_STREQ(Error(ErrorCode::io, "", "", "is wrong").what(), "is wrong");
    EXPECT_STREQ(name(ErrorCode::emulator_fault), "emulator fault");
}

}  // namespace
}  // namespace weft
