// softmax on the GPU and in the emulator: the policy and the launch.
#include "ops/softmax/softmax.h"

#include "kit/row_launch.h"
#include "ops/softmax/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr RowKernels kForms{
    .biased = false, .biased_fp8 = false, .residual = false, .fp8 = false, .any = true, .wide_outs = true};

MixedSoftmax bind(const Softmax& op) {
    MixedSoftmax p;
    kit::bind_rows(p.shape, p.places, op.x, {{&op.x, &p.in.x}, {&op.out, &p.out}});
    return p;
}

RowProblem problem(const Softmax& op, const MixedSoftmax& bound) {
    RowProblem rows = kit::row_problem(op.x.dtype, {&op.x}, {&op.out}, kForms,
                                       {.bias = false, .residual = false}, bound.shape.by);
    if (!rows.form.uniform && !rows.whole() && bound.shape.by == kit::RowsBy::strides && rows.rows >> 31 == 0)
        rows.form = {.uniform = true, .beside = true, .any = true, .bare = true};
    return rows;
}

void launch(const Softmax& op, Context& context) {
    constexpr double kLog2E = 1.4426950408889634;
    MixedSoftmax p = bind(op);
    const RowProblem rows = problem(op, p);
    const RowPlan plan = context.slot<RowPlans>().find(rows, context.info());
    kit::plan_shape(p.shape, rows, plan);
    p.in.keep = plan.keep;
    p.scale = static_cast<float>(static_cast<double>(op.scale) * kLog2E);
    kit::with_row_kernel<kForms>(
        op.x.dtype, rows, plan, [&](auto* type, auto width, auto vectors, auto form) {
            using T = std::remove_pointer_t<decltype(type)>;
            kit::launch("softmax", softmax_kernel<T, width(), vectors(), decltype(form)>,
                        kit::row_launch(plan, rows), context.stream(),
                        static_cast<const SoftmaxOf<decltype(form)>&>(p));
        });
}

const RegisterImplementations<Softmax> kKernels{
    kit::kTarget,
    {{"rows", [](const Softmax&, const DeviceInfo&) -> const char* { return nullptr; },
      [](const Softmax& op, const DeviceInfo& device) {
          return to_string(plan_rows(problem(op, bind(op)), device));
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
