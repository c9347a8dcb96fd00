// Attention: the launches of flash_mma, and the list of implementations.
#include "kit/launch.h"
#include "ops/attention/arguments.cuh"
#include "ops/attention/decode_launch.h"
#include "ops/attention/fp8_launch.h"
#include "ops/attention/kernel.cuh"
#include "ops/attention/wgmma.h"
#include "ops/attention/wgmma_launch.h"
#include "ops/attention/wide_launch.h"
#include "ops/attention/widen_launch.h"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

using attention::Config;
using attention::Problem;

// Configurations that this context chose before: a choice costs as much as a good part of a launch.
template <class Chosen, Chosen (*kChoose)(const Problem&, const DeviceInfo&)>
class AttentionPlans {
   public:
    const Chosen& get(const Problem& problem, const DeviceInfo& device) {
        const auto mixed = static_cast<std::size_t>(problem.heads * 31 + problem.rows * 7 + problem.keys * 3 +
                                                    problem.head_dim + problem.window.left);
        Entry& entry = entries_[mixed % 32];
        if (!entry.known || !(entry.problem == problem) || entry.sms != device.sms) {
            entry = {problem, kChoose(problem, device), device.sms, true};
        }
        return entry.config;
    }

   private:
    struct Entry {
        Problem problem;
        Chosen config;
        int sms = 0;
        bool known = false;
    };
    Entry entries_[32];
};
using MmaPlans = AttentionPlans<Config, attention::choose>;
using DecodePlans = AttentionPlans<attention::DecodeConfig, attention::choose_decode>;

template <class T, bool kOptions, bool kRagged>
void launch_flash(const AttentionParams& p, const Config& config, unsigned blocks, Stream stream) {
    const kit::LaunchShape shape{.grid = blocks,
                                 .block = static_cast<unsigned>(config.threads()),
                                 .dynamic_shared = static_cast<std::size_t>(config.shared_bytes())};
    constexpr const char* kName = "attention_flash";
    switch (config.tile.head_dim) {
        case 64: return kit::launch(kName, attention_flash<T, 64, kOptions, kRagged>, shape, stream, p);
        case 80: return kit::launch(kName, attention_flash<T, 80, kOptions, kRagged>, shape, stream, p);
        case 128: return kit::launch(kName, attention_flash<T, 128, kOptions, kRagged>, shape, stream, p);
        default: return kit::launch(kName, attention_flash<T, 256, kOptions, kRagged>, shape, stream, p);
    }
}

void merge_partials(const AttentionParams& p, bool bf16, Context& context) {
    const std::int64_t rows = static_cast<std::int64_t>(p.heads) * p.rows;
    const kit::LaunchShape shape{
        .grid = static_cast<unsigned>((rows + 3) / 4), .block = 128, .dependent = true};
    kit::launch("attention_merge", bf16 ? attention_merge<kit::bf16> : attention_merge<kit::half>, shape,
                context.stream(), p);
}

// A call in splits: launch(memory for their results, behind `bytes` of scratch; those), then their merge.
template <class Launch>
void launch_merged(const Attention& op, const Problem& problem, int rows, int splits, Context& context,
                   Launch launch, std::size_t bytes = 0) {
    AttentionParams p = parameters(op, problem, rows, splits);
    char* memory = static_cast<char*>(context.scratch(bytes + partial_bytes(p)));
    set_partials(p, memory + bytes);
    launch(p.partial, memory);
    merge_partials(p, op.out.dtype == DType::bf16, context);
}

// The same of flash_wgmma's tiles where `bytes` are prepared for them, in splits or not.
template <class Launch>
void launch_prepared(const Attention& op, const attention::WgmmaConfig& config, std::size_t bytes,
                     Context& context, Launch launch) {
    if (!config.merged()) return launch(nullptr, static_cast<char*>(context.scratch(bytes)));
    launch_merged(op, Problem(op), config.rows, config.splits, context, launch, bytes);
}

void launch_attention(const Attention& op, Context& context) {
    const Problem problem(op);
    const Config& config = context.slot<MmaPlans>().get(problem, context.info());
    AttentionParams p = parameters(op, problem, config.rows(), config.splits);
    p.row_warps = config.row_warps, p.groups = config.groups, p.slots = config.slots;
    if (config.splits > 1) set_partials(p, context.scratch(partial_bytes(p)));
    const bool bf16 = op.q.dtype == DType::bf16;
    const auto blocks = static_cast<unsigned>(attention::blocks(problem, config));
    const auto launch = [&](auto as_bf16, auto as_half) {
        (bf16 ? as_bf16 : as_half)(p, config, blocks, context.stream());
    };
    if (problem.ragged) {
        launch(launch_flash<kit::bf16, true, true>, launch_flash<kit::half, true, true>);
    } else if (problem.options) {
        launch(launch_flash<kit::bf16, true, false>, launch_flash<kit::half, true, false>);
    } else {
        launch(launch_flash<kit::bf16, false, false>, launch_flash<kit::half, false, false>);
    }
    if (config.splits > 1) merge_partials(p, bf16, context);
}

void launch_wgmma(const Attention& op, Context& context) {
    const Problem problem(op);
    const attention::WgmmaConfig config = attention::choose_wgmma(problem, context.info());
    if (!config.merged()) return launch_attention_wgmma(op, config, nullptr, nullptr, context);
    launch_merged(op, problem, config.rows, config.splits, context, [&](float* partials, char*) {
        launch_attention_wgmma(op, config, partials, nullptr, context);
    });
}

attention::WgmmaConfig widened_config(const Attention& op, const DeviceInfo& device) {
    Problem problem(attention::Widened(op, nullptr).op);
    problem.options = true;  // factors are one
    return attention::choose_wgmma(problem, device);
}

void launch_widened(const Attention& op, Context& context) {
    const attention::WgmmaConfig config = widened_config(op, context.info());
    const std::size_t bytes = attention::Widened(op, nullptr).bytes;
    launch_prepared(op, config, bytes, context, [&](float* partials, char* memory) {
        const attention::Widened widened(op, memory);
        launch_attention_widen(op, widened, context);
        launch_attention_wgmma(widened.op, config, partials, widened.factors, context);
    });
}

void launch_fp8(const Attention& op, Context& context) {
    const attention::WgmmaConfig config = attention::choose_wgmma(Problem(op), context.info());
    const std::size_t bytes = attention::TransposedValues(op, nullptr).bytes;
    launch_prepared(op, config, bytes, context, [&](float* partials, char* memory) {
        launch_attention_fp8(op, config, attention::TransposedValues(op, memory), partials, context);
    });
}

void launch_decode(const Attention& op, Context& context) {
    const Problem problem(op);
    const attention::DecodeConfig config = context.slot<DecodePlans>().get(problem, context.info());
    if (!config.merged()) return launch_attention_decode(op, config, nullptr, context);
    launch_merged(op, problem, attention::DecodeTile::kRows, config.splits, context,
                  [&](float* partials, char*) { launch_attention_decode(op, config, partials, context); });
}

void launch_wide(const Attention& op, Context& context) {
    const Problem problem(op);
    const attention::WideConfig config = attention::choose_wide(problem, context.info());
    if (config.splits == 1) return launch_attention_wide(op, config, nullptr, context);
    launch_merged(op, problem, config.tile.rows(), config.splits, context,
                  [&](float* partials, char*) { launch_attention_wide(op, config, partials, context); });
}

std::string wide_text(const Attention& op, const DeviceInfo& device) {
    return attention::to_string(attention::choose_wide(Problem(op), device));
}

std::string config_text(const Attention& op, const DeviceInfo& device) {
    return attention::to_string(attention::choose(Problem(op), device));
}

std::string wgmma_text(const Attention& op, const DeviceInfo& device) {
    return attention::to_string(attention::choose_wgmma(Problem(op), device));
}

std::string widened_text(const Attention& op, const DeviceInfo& device) {
    return attention::to_string(widened_config(op, device)) + ", of codes made into 16 bits";
}

std::string fp8_text(const Attention& op, const DeviceInfo& device) {
    return wgmma_text(op, device) + ", products of fp8";
}

std::string decode_text(const Attention& op, const DeviceInfo& device) {
    return attention::to_string(attention::choose_decode(Problem(op), device));
}

const RegisterImplementations<Attention> kKernels{
    kit::kTarget,
    {{"flash_decode", attention::decline_decode, decode_text, launch_decode},
     {"flash_wgmma", attention::decline_wgmma, wgmma_text, launch_wgmma},
     {"flash_fp8", attention::decline_fp8, fp8_text, launch_fp8},
     {"flash_widened", attention::decline_widened, widened_text, launch_widened},
     {"flash_mma", attention::decline, config_text, launch_attention},
     {"flash_wide", attention::decline_wide, wide_text, launch_wide}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
