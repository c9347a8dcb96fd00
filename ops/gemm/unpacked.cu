// gemm's codes of four bits unpacked: launch.
#include "kit/launch.h"
#include "ops/gemm/policy.h"
#include "ops/gemm/unpacked.cuh"
#include "ops/gemm/unpacked_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

UnpackOperand unpack_operand(const PackedOperand& from, const Tensor& to, std::int64_t to_stride) {
    const std::int64_t eights = gemm::ceil_div(from.length, 8), count = from.rows * eights;
    return {.from = from,
            .to = static_cast<char*>(to.data),
            .to_bytes = bytes(to.dtype, to_stride),
            .eights = kit::Divisor::of(eights),
            .count = static_cast<unsigned>(count),
            .blocks = static_cast<unsigned>(gemm::ceil_div(count, kUnpackThreads * kUnpackEights))};
}

}  // namespace

void launch_gemm_unpack(const Gemm& op, const Gemm& product, Context& context) {
    const gemm::Problem p = gemm::problem(op), to = gemm::problem(product);
    UnpackArguments args{};
    unsigned blocks = 0;
    int operands = 0;
    const auto add = [&](const PackedOperand& from, const Tensor& numbers, std::int64_t stride) {
        if (from.data == nullptr) return;
        args.operands[operands] = unpack_operand(from, numbers, stride);
        blocks += args.operands[operands++].blocks;
    };
    add(packed_operand(op.b, p.n, p.k, p.b.row, gemm::scales_of_b(op)), product.b, to.b.row);
    add(packed_operand(op.up, p.n, p.k, p.up.row, gemm::scales_of_up(op)), product.up, to.up.row);
    add(packed_operand(op.a, p.m, p.k, p.a_stride, gemm::scales_of_a(op)), product.a, to.a_stride);
    kit::with_one_of<kit::bf16, kit::half>(product.b.dtype, [&](auto* type) {
        kit::launch("gemm_unpack", unpack<std::remove_pointer_t<decltype(type)>>,
                    {.grid = blocks, .block = kUnpackThreads, .dependent = true}, context.stream(), args);
    });
}

}  // namespace weft::inline WEFT_TARGET
