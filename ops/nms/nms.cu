// nms on the GPU and in the emulator: policy and launches.
#include "ops/nms/nms.h"

#include "kit/launch.h"
#include "ops/nms/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr std::int64_t kMostBoxes = 65536;

unsigned words(const Nms& op) { return static_cast<unsigned>((op.boxes.dim(0) + kBits - 1) / kBits); }

void launch(const Nms& op, Context& context) {
    const auto n = static_cast<unsigned>(op.boxes.dim(0));
    NmsParams p{.boxes = op.boxes.as<const float>(),
                .scores = op.scores.data,
                .stride = op.boxes.stride[0],
                .scores_dtype = op.scores.dtype,
                .n = n,
                .words = words(op),
                .threshold = op.threshold,
                .order = nullptr,
                .covers = nullptr,
                .keep = op.keep.data,
                .keep_dtype = op.keep.dtype,
                .count = op.count.as<int>()};
    if (n > 0) {
        const std::size_t pairs = std::size_t{n} * p.words * sizeof(unsigned long long);
        auto* scratch = static_cast<char*>(context.scratch(pairs + n * sizeof(unsigned)));
        p.covers = reinterpret_cast<unsigned long long*>(scratch);
        p.order = reinterpret_cast<unsigned*>(scratch + pairs);
        kit::launch("nms_order", nms_order,
                    {.grid = dim3((n + kRankThreads - 1) / kRankThreads),
                     .block = dim3(kRankThreads),
                     .dependent = true},
                    context.stream(), p);
        kit::launch("nms_covers", nms_covers,
                    {.grid = dim3(p.words, p.words), .block = dim3(kBits), .dependent = true},
                    context.stream(), p);
    }
    kit::launch("nms_resolve", nms_resolve,
                {.block = dim3(kResolveThreads),
                 .dynamic_shared = p.words * (sizeof(unsigned long long) + sizeof(unsigned)),
                 .dependent = true},
                context.stream(), p);
}

const RegisterImplementations<Nms> kKernels{
    kit::kTarget,
    {{"pairs",
      +[](const Nms& op, const DeviceInfo&) -> const char* {
          return op.boxes.dim(0) <= kMostBoxes ? nullptr : "more than 65536 boxes";
      },
      +[](const Nms& op, const DeviceInfo&) {
          return "words=" + std::to_string(words(op)) + " of 64 boxes, resolved by one block";
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
