// rms_norm's kernels of rows, in the emulator: what each kind of call runs in, and that its results are right.
#include <gmock/gmock.h>

#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

#if WEFT_HAS_EMULATOR
// Longer than the registers of a block: its blocks exchange sums once, or with a scale a row twice.
TEST(RmsNorm, RowsOfACluster) {
    test::expect_right("rms_norm x=fp32[1,32768] weight=fp32[32768] out=fp32[1,32768]", "rows",
                       "vectors=4x4 rows=1 cluster=8");
    test::expect_right(
        "rms_norm x=bf16[2,65536] weight=bf16[65536] residual=bf16[2,65536] residual_out=bf16[2,65536] "
        "out=fp8_e4m3[2,65536] token_scale=fp32[2]",
        "rows", "vectors=4x8 rows=1 cluster=8");
    test::expect_right("rms_norm x=bf16[2,16384] weight=fp32[16384] out=bf16[2,16384]", "rows",
                       "cluster=4 wide");
    test::expect_right("rms_norm x=bf16[2,65536] weight=fp32[65536] out=fp16[2,65536]", "rows",
                       "cluster=8 any");
    test::expect_right("rms_norm x=bf16[2,65536] weight=fp32[65536] out=int8[2,65536] token_scale=fp32[2]",
                       "rows", "cluster=8 beside");
    test::expect_right(
        "rms_norm x=fp32[2,65536] weight=fp32[65536] residual=bf16[2,65536] out=fp8_e4m3[2,65536] "
        "group_scale=fp32[2,512]",
        "rows", "cluster=8 mixed");
}
// Operands beside a row that are not stored as it is, are one element, lie elsewhere, or modulate what a weight has scaled,
// and rows that go to another dtype; one, two and four vectors a thread, the last of them not in every thread; each with
// what else such a call may ask for.
TEST(RmsNorm, OperandsBesideTheRow) {
    const struct {
        const char *line, *config;
    } kCalls[] = {
        {"rms_norm x=bf16[600,408] weight=fp32[408] bias=fp16[408] residual=bf16[600,408] gate=fp32[600,408] "
         "residual_out=bf16[600,408] out=bf16[600,408] weight_offset=1",
         "vectors=4x8"},
        {"rms_norm x=fp16[7,5000] weight=fp32[5000] out=fp8_e4m3[7,5000] token_scale=fp32[7]", "vectors=2x8"},
        {"rms_norm x=bf16[7,4104] mod_index=int64[7] mod_scale=bf16[5,4104] mod_shift=fp32[5,4104] "
         "out=bf16[7,4104]",
         "vectors=2x8"},
        {"rms_norm x=bf16[2,3,2048] weight=fp32[2048] mod_scale=bf16[2,1,2048] mod_shift=bf16[2,1,2048] "
         "out=fp8_e4m3[2,3,2048] scale=fp32[1]",
         "vectors=1x8"},
        {"rms_norm x=bf16[3,64] residual=bf16[3,64] gate=fp32[3,1] mod_scale=fp16[1] out=bf16[3,64]",
         "vectors=1x8"},
        {"rms_norm x=fp32[600,408] weight=fp32[408] residual=fp32[600,408] gate=fp16[408] "
         "residual_out=fp32[600,408] out=fp8_e4m3[600,408] token_scale=fp32[600]",
         "vectors=2x8"},
        {"rms_norm x=bf16[3,8200] weight=bf16[8200] mod_scale=bf16[8200] mod_shift=bf16[3,8200] "
         "out=bf16[3,8200] mod_offset=0 mod_tanh=true",
         "vectors=2x8"},
        {"rms_norm x=bf16[5,104] weight=bf16[104] residual=bf16[5,104] out=int8[5,104] scale=fp32[1]",
         "vectors=1x8"},
        {"rms_norm x=bf16[600,408] weight=fp32[408] bias=bf16[408] out=fp8_e5m2[600,408] "
         "token_scale=fp32[600]",
         "vectors=4x8"},
        {"rms_norm x=fp16[3,64] mod_scale=fp32[3,1] out=fp16[3,64] mod_offset=0.5 mod_tanh=true",
         "vectors=1x8"},
        {"rms_norm x=bf16[600,408] weight=bf16[408] bias=bf16[408] mod_scale=fp32[600,408] out=bf16[600,408] "
         "mod_tanh=true",
         "vectors=4x8"},
        {"rms_norm x=bf16[600,416] weight=fp32[416] bias=bf16[416] mod_shift=bf16[600,1] "
         "out=fp8_e4m3[600,416] token_scale=fp32[600] mod_scale2=fp32[416] out2=fp32[600,416] mod_tanh=true",
         "vectors=2x8"},
        {"rms_norm x=fp32[600,408] mod_scale=fp32[408] out=fp8_e5m2[600,408] group_scale=fp32[600,4] "
         "mod_scale2=bf16[600,408] mod_shift2=bf16[1] out2=fp32[600,408]",
         "vectors=2x8"},
        {"rms_norm x=bf16[7,4104] weight=bf16[4104] mod_scale=bf16[7,4104] out=fp4_e2m1[7,4104] "
         "swizzled_scale=fp8_e4m3[128,260] scale=fp32[1]",
         "vectors=2x8"},
    };
    for (const auto& [line, config] : kCalls) {
        test::expect_right(line, "rows", config);
        test::expect_right(line, "rows", "beside");
    }
}
// Weights of fp32 and nothing else that is not stored as the row is: with and without what may be there, one, two and four
// vectors a thread.
TEST(RmsNorm, WeightsOfFp32) {
    const struct {
        const char *line, *config;
    } kCalls[] = {
        {"rms_norm x=fp16[9,128] weight=fp32[128] out=fp16[9,128] weight_offset=1", "vectors=1x8"},
        {"rms_norm x=bf16[600,408] weight=fp32[408] residual=bf16[600,408] gate=bf16[408] "
         "residual_out=bf16[600,408] out=bf16[600,408]",
         "vectors=4x8"},
        {"rms_norm x=bf16[7,5000] weight=fp32[5000] residual=bf16[7,5000] out=@residual", "vectors=2x8"},
        {"rms_norm x=bf16[2,300,416] mod_scale=fp32[2,1,416] out=bf16[2,300,416]", "vectors=4x8"},
        {"rms_norm x=bf16[600,408] weight=fp32[408] out=bf16[600,408] out2=bf16[600,408]", "vectors=4x8"},
    };
    for (const auto& [line, config] : kCalls) {
        test::expect_right(line, "rows", config);
        test::expect_right(line, "rows", "wide");
    }
    test::expect_right("rms_norm x=bf16[9,128] weight=fp32[128] out=bf16[9,128] out2=fp16[9,128]", "rows",
                       "any");
}
// Rows whose x and residual differ in dtype, or that are no whole vectors, in pieces of every size and squads of both, in
// a warp, a block and a cluster; with a residual, a weight and a bias at most.
TEST(RmsNorm, AnyRowsWithLittleBeside) {
    const struct {
        const char *line, *config;
    } kCalls[] = {
        {"rms_norm x=bf16[3,64] weight=bf16[64] residual=fp32[3,64] out=bf16[3,64]", "vectors=1x8"},
        {"rms_norm x=bf16[9,128] weight=fp32[128] bias=fp32[128] out=bf16[9,128]", "vectors=1x8"},
        {"rms_norm x=fp32[600,904] weight=bf16[904] out=bf16[600,904]", "vectors=4x8"},
        {"rms_norm x=bf16[3,60] weight=fp32[60] out=bf16[3,60]", "vectors=1x8 rows=16 cluster=1 pieces=4"},
        {"rms_norm x=bf16[3,62] weight=fp16[62] out=fp32[3,62]", "vectors=1x8 rows=8 cluster=1 pieces=2"},
        {"rms_norm x=bf16[3,64] weight=fp32[64]+1 out=bf16[3,64]", "pieces=1"},
        {"rms_norm x=fp32[5,333]+1 out=fp16[5,333] residual=fp16[5,333] residual_out=@residual", "pieces=1"},
        {"rms_norm x=fp16[2,3,77] mod_scale=bf16[2,1,77] mod_shift=fp32[2,1,77] out=@x mod_offset=1",
         "pieces=1"},
        {"rms_norm x=bf16[7,1001] weight=bf16[1001] bias=fp32[1001] out=bf16[7,1001]", "vectors=1x8 rows=1"},
        {"rms_norm x=bf16[7,4001] weight=bf16[4001] bias=fp32[4001] out=bf16[7,4001]", "vectors=4x8 rows=1"},
        {"rms_norm x=bf16[1200,900] weight=bf16[900] out=bf16[1200,900]", "lanes=32 vectors=4x8"},
        {"rms_norm x=bf16[600,901] weight=bf16[901] residual=fp32[600,901] residual_out=fp32[600,901] "
         "out=bf16[600,901]",
         "vectors=4x8"},
        {"rms_norm x=bf16[3,40001] weight=fp32[40001] out=bf16[3,40001]", "cluster=8 pieces=1"},
    };
    for (const auto& call : kCalls) test::expect_right(call.line, "rows", call.config);
}
// Modulations and second outputs of such rows: of either output, of both and of none; a scale, a shift or both, one element
// or a row; asked for while threads meet, where there is no bias, or after it.
TEST(RmsNorm, AnyRowsThatAreModulatedOrStoredTwice) {
    const struct {
        const char *line, *config;
    } kCalls[] = {
        {"rms_norm x=fp16[9,128] weight=bf16[128] mod_shift=fp16[128] out=fp16[9,128]", "vectors=1x8"},
        {"rms_norm x=bf16[3,40] weight=bf16[40] mod_scale=fp32[3,40] mod_shift=fp16[40] out=bf16[3,40] "
         "mod_offset=1",
         "vectors=1x8"},
        {"rms_norm x=bf16[3,64] weight=bf16[64] mod_shift=fp32[1] out=fp32[3,64]", "vectors=1x8"},
        {"rms_norm x=bf16[3,64] weight=fp32[64] mod_scale=fp32[3,1] mod_shift=bf16[1] out=fp16[3,64]",
         "vectors=1x8"},
        {"rms_norm x=fp32[7,4104] weight=bf16[4104] bias=fp32[4104] mod_scale=bf16[1] out=bf16[7,4104]",
         "vectors=2x8"},
        {"rms_norm x=bf16[2,3,2048] mod_scale=bf16[2,1,2048] mod_shift=bf16[2,1,2048] out=bf16[2,3,2048] "
         "mod_scale2=fp32[2,1,2048] mod_shift2=fp32[2,1,2048] out2=fp16[2,3,2048]",
         "vectors=2x8"},
        {"rms_norm x=bf16[600,408] weight=bf16[408] mod_scale=bf16[600,408] out=bf16[600,408] "
         "mod_shift2=bf16[408] out2=fp32[600,408]",
         "vectors=4x8"},
        {"rms_norm x=bf16[600,901] weight=fp32[901] bias=bf16[901] mod_scale2=bf16[600,901] "
         "mod_shift2=bf16[1] out=fp16[600,901] out2=bf16[600,901]+3",
         "vectors=4x8 rows=4 cluster=1 pieces=1"},
        {"rms_norm x=bf16[3,62] weight=bf16[62] out=@x out2=fp32[3,62] mod_tanh=true", "pieces=2"},
        {"rms_norm x=bf16[3,60]+4 weight=bf16[60] mod_scale=bf16[60] mod_scale2=bf16[3,60] out=bf16[3,60] "
         "out2=bf16[3,60] mod_offset=0",
         "pieces=4"},
        {"rms_norm x=bf16[3,12296] weight=fp32[12296] mod_scale=bf16[12296] out=bf16[3,12296] "
         "out2=bf16[3,12296] mod_scale2=fp32[12296]",
         "cluster="},
    };
    for (const auto& call : kCalls) {
        test::expect_right(call.line, "rows", call.config);
        test::expect_right(call.line, "rows", "any");
    }
}
// Rows of 16 bits whose modulations follow the weight, or are picked by an index, all stored as the row is or all as fp32: one,
// two and four vectors a thread; either output modulated, both, or one by a scale alone; with what may be in front of the norm;
// rows of a cluster.
TEST(RmsNorm, RowsThatAreModulated) {
    const struct {
        const char *line, *config;
    } kCalls[] = {
        {"rms_norm x=bf16[3,64] weight=bf16[64] mod_scale=bf16[64] mod_shift=bf16[3,64] out=bf16[3,64] "
         "mod_scale2=bf16[3,64] out2=bf16[3,64]",
         "vectors=1x8 rows=16 cluster=1 modulated"},
        {"rms_norm x=fp16[9,128] weight=fp32[128] bias=fp32[128] mod_shift=fp32[9,128] out=@x",
         "vectors=1x8 rows=8 cluster=1 modulated wide"},
        {"rms_norm x=bf16[2,3,2048] mod_scale=bf16[2,1,2048] mod_shift=bf16[2,1,2048] out=bf16[2,3,2048] "
         "mod_scale2=bf16[2,1,2048] mod_shift2=bf16[2,1,2048] out2=bf16[2,3,2048]",
         "vectors=2x8 rows=1 cluster=1 modulated"},
        {"rms_norm x=bf16[7,2048] weight=fp32[2048] mod_index=int32[7] mod_scale=fp32[5,2048] "
         "mod_scale2=fp32[5,2048] out=bf16[7,2048] out2=bf16[7,2048]{2056,1}",
         "vectors=2x8 rows=1 cluster=1 modulated wide"},
        {"rms_norm x=bf16[7,4104] mod_index=int64[7] mod_scale=bf16[5,4104] mod_shift=bf16[5,4104] "
         "out=bf16[7,4104]",
         "vectors=4x8 rows=1 cluster=1 modulated"},
        {"rms_norm x=bf16[600,408] weight=bf16[408] residual=bf16[600,408] gate=bf16[600,408] "
         "residual_out=@residual mod_scale=bf16[600,408] mod_shift=bf16[408] out=@x weight_offset=1",
         "vectors=4x8 rows=8 cluster=1 modulated"},
        {"rms_norm x=fp16[600,408] weight=fp32[408] residual=fp16[600,408] mod_shift2=fp32[600,408] "
         "out=@residual out2=fp16[600,408] mod_offset=0",
         "vectors=4x8 rows=8 cluster=1 modulated wide"},
        {"rms_norm x=bf16[2,65536] weight=bf16[65536] mod_scale=bf16[65536] mod_shift2=bf16[2,65536] "
         "out=bf16[2,65536] out2=bf16[2,65536]",
         "vectors=4x8 rows=1 cluster=8 modulated"},
    };
    for (const auto& call : kCalls) test::expect_right(call.line, "rows", call.config);
}
// Where all is stored as the row is, a second output costs no more than its memory: one, two, four and eight vectors.
TEST(RmsNorm, RowsThatAreStoredTwice) {
    const struct {
        const char *line, *config;
    } kCalls[] = {
        {"rms_norm x=bf16[20,1000] weight=bf16[1000] residual=bf16[20,1000] out=@residual out2=bf16[20,1000]",
         "vectors=2x8"},
        {"rms_norm x=bf16[9,128] weight=bf16[128] out=bf16[9,128] out2=bf16[9,128]",
         "vectors=1x8 rows=8 cluster=1"},
        {"rms_norm x=fp32[7,4096] residual=fp32[7,4096] residual_out=@x out=@residual out2=fp32[7,4096]",
         "vectors=4x4 rows=1 cluster=1"},
        {"rms_norm x=fp16[600,1000] weight=fp16[1000] bias=fp16[1000] out=@x out2=fp16[600,1000]{1008,1}",
         "vectors=4x8 rows=4 cluster=1"},
        {"rms_norm x=bf16[3,65528] weight=bf16[65528] out=bf16[3,65528] out2=bf16[3,65528]",
         "vectors=8x8 rows=1 cluster=8"},
    };
    for (const auto& call : kCalls) test::expect_right(call.line, "rows", call.config);
}
// The same with all else that may be beside a row.
TEST(RmsNorm, AnyRowsWithMoreBeside) {
    for (const char* line : {
             "rms_norm x=bf16[2,3,4,512]{6144,512,1536,1} weight=fp32[512] out=bf16[2,3,4,512]",
             "rms_norm x=bf16[2,3,4,77]{924,77,231,1} weight=fp32[77] residual=fp16[2,3,4,77] gate=bf16[77] "
             "residual_out=@residual out=fp8_e4m3[2,3,4,77] scale=fp32[1]",
             "rms_norm x=fp32[5,88] residual=bf16[5,88] mod_index=int64[5] mod_scale=fp32[9,88] "
             "mod_scale2=fp32[9,88] "
             "out=fp16[5,88] out2=fp32[5,88]",
             "rms_norm x=bf16[9,62] weight=bf16[62] mod_scale=bf16[9,62] mod_shift=bf16[62] out=bf16[9,62] "
             "mod_tanh=true",
             "rms_norm x=bf16[3,1001] weight=bf16[1001] out=fp8_e4m3[3,1001] token_scale=fp32[3]",
             "rms_norm x=bf16[3,61]+1 weight=fp32[61] residual=fp32[3,61]+2 out=int8[3,61] "
             "token_scale=fp32[3]",
             "rms_norm x=bf16[3,62] weight=fp32[62] out=fp8_e5m2[3,62] scale=fp32[1]",
             "rms_norm x=bf16[3,8200] weight=bf16[8200] residual=fp32[3,8200] gate=fp32[3,1] "
             "out=bf16[3,8200] "
             "out2=bf16[3,8200] mod_shift=bf16[8200]",
         }) {
        test::expect_right(line, "rows", "any beside");
    }
}
// Codes with scales of groups of a row that is not stored alike, and rows that no registers hold, are mixed.
TEST(RmsNorm, WhatIsNotBesideTheRow) {
    for (const char* line : {
             "rms_norm x=bf16[3,12296] weight=fp32[12296] mod_scale=fp32[12296] out=bf16[3,12296] "
             "out2=bf16[3,12296] mod_scale2=fp32[12296] mod_tanh=true",
             "rms_norm x=fp32[3,64] weight=fp32[64] residual=bf16[3,64] out=fp8_e4m3[3,64] "
             "group_scale=fp32[3,1]",
             "rms_norm x=bf16[1,90001] weight=bf16[90001] mod_scale=bf16[90001] out=int8[1,90001] "
             "token_scale=fp32[1]",
         }) {
        test::expect_right(line, "rows", "mixed");
    }
}
// Many long rows fill a thread's registers, so that it asks for the weight late; the last threads have fewer vectors.
TEST(RmsNorm, RowsOfAClusterWhoseThreadsAreFull) {
    test::expect_right("rms_norm x=fp32[2,65532] out=fp32[2,65532]", "rows", "vectors=8x4 rows=1 cluster=8");
    test::expect_right("rms_norm x=bf16[3,65528] weight=bf16[65528] out=bf16[3,65528]", "rows",
                       "vectors=8x8 rows=1 cluster=8");
    test::expect_right(
        "rms_norm x=bf16[3,65528] weight=bf16[65528] residual=bf16[3,65528] residual_out=bf16[3,65528] "
        "out=fp8_e4m3[3,65528] token_scale=fp32[3]",
        "rows", "vectors=8x8 rows=1 cluster=8");
}
// Groups of columns in every kind of row: several of a warp, of blocks, of clusters, read again; whole vectors of 4 and
// 8 elements; and rows that are none, whose groups are found in a pass of their own.
TEST(RmsNorm, WritesScalesOfGroupsInEveryKindOfRow) {
    for (const char* line : {
             "rms_norm x=bf16[5,64] weight=bf16[64] out=fp8_e4m3[5,64] group_scale=fp32[5,1]",
             "rms_norm x=bf16[130,72] out=fp4_e2m1[130,72] swizzled_scale=fp8_e4m3[256,8] scale=fp32[1]",
             "rms_norm x=fp32[3,520] weight=bf16[520] out=fp8_e5m2[3,520] group_scale=fp32[3,5]{1,4}",
             "rms_norm x=fp16[3,4104] residual=fp16[3,4104] residual_out=@residual out=fp8_e4m3[3,4104] "
             "swizzled_scale=ue8m0[128,132]",
             "rms_norm x=bf16[1,40000] weight=fp32[40000] out=fp4_e2m1[1,40000] group_scale=ue8m0[1,1250]",
             "rms_norm x=bf16[1,262160] out=fp4_e2m1[1,262160] group_scale=fp8_e4m3[1,16385]",
             "rms_norm x=bf16[3,74] out=fp4_e2m1[3,74] group_scale=fp8_e4m3[3,5]",
             "rms_norm x=bf16[3,200]+1 out=fp8_e4m3[3,200] group_scale=fp32[3,2]",
         }) {
        EXPECT_EQ(verify(Case::parse(line), kEmulator).why, "") << line;
    }
}
#endif

}  // namespace
}  // namespace weft
