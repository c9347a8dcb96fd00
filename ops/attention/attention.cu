// Attention: parameters of a call, launches, the list of implementations.
#include <algorithm>
#include <limits>

#include "kit/launch.h"
#include "ops/attention/kernel.cuh"
#include "ops/attention/wgmma_kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

using attention::Config;
using attention::Problem;

// Configurations that this context chose before: the choice costs more than a launch.
class AttentionPlans {
   public:
    const Config& get(const Problem& problem, const DeviceInfo& device) {
        const auto mixed = static_cast<std::size_t>(problem.heads * 31 + problem.rows * 7 + problem.keys * 3 +
                                                    problem.head_dim + problem.window.left);
        Entry& entry = entries_[mixed % 32];
        if (!entry.known || !(entry.problem == problem) || entry.sms != device.sms) {
            entry = {problem, attention::choose(problem, device), device.sms, true};
        }
        return entry.config;
    }

   private:
    struct Entry {
        Problem problem;
        Config config;
        int sms = 0;
        bool known = false;
    };
    Entry entries_[32];
};

AttentionStrides strides(const Tensor& t, int token, int head) {
    return {t.stride[0], t.stride[token], t.stride[head]};
}

// Whole 16-byte chunks at 16-byte addresses, whatever the row?
bool vectors(const Tensor& t) { return t.dim(3) % 8 == 0 && kit::rows_aligned(t, 8); }

void set_options(AttentionParams& p, const Attention& op, const attention::Window& window) {
    constexpr double kLog2E = 1.44269504088896341;
    p.window_left = static_cast<int>(window.left), p.window_right = static_cast<int>(window.right);
    if (op.key_limits)
        p.key_limits = op.key_limits.as<std::int32_t>(), p.limits_stride = op.key_limits.stride[0];
    if (op.sinks) p.sinks = op.sinks.as<float>();
    p.capped = op.softcap > 0;
    p.scale_log2 = (p.capped ? op.softcap : op.softmax_scale()) * static_cast<float>(kLog2E);
    if (p.capped) {  // finite, so that a score of zero stays zero
        p.cap_factor = static_cast<float>(std::min<double>(2 * kLog2E * op.softmax_scale() / op.softcap,
                                                           std::numeric_limits<float>::max()));
    }
}

// But for what a configuration says.
AttentionParams parameters(const Attention& op, const Problem& problem, int block_rows, int splits) {
    AttentionParams p = {};
    p.q = op.q.data, p.k = op.k.data, p.v = op.v.data, p.out = op.out.data;
    p.q_stride = strides(op.q, 1, 2), p.k_stride = strides(op.k, 1, 2);
    p.v_stride = strides(op.v, 1, 2), p.out_stride = strides(op.out, 1, 2);
    if (op.lse) p.lse = op.lse.as<float>(), p.lse_stride = strides(op.lse, 2, 1);
    if (op.kv_lengths) p.kv_lengths = op.kv_lengths.as<std::int32_t>();
    if (op.key_mask) p.key_mask = op.key_mask.as<std::uint8_t>(), p.mask_stride = op.key_mask.stride[0];
    p.rows = static_cast<int>(problem.rows);
    p.block_rows = block_rows;
    p.row_blocks = (p.rows + block_rows - 1) / block_rows;
    p.splits = splits;
    p.q_tokens = static_cast<int>(op.q.dim(1)), p.kv_tokens = static_cast<int>(op.k.dim(1));
    p.kv_heads = static_cast<int>(op.k.dim(2)), p.group = static_cast<int>(op.q.dim(2) / op.k.dim(2));
    p.head_dim = static_cast<int>(op.q.dim(3));
    p.causal = problem.window.right == 0;
    set_options(p, op, problem.window);
    p.vector_q = vectors(op.q), p.vector_k = vectors(op.k), p.vector_v = vectors(op.v),
    p.vector_out = vectors(op.out);
    return p;
}

template <class T, bool kOptions>
void launch_flash(const AttentionParams& p, const Config& config, unsigned blocks, Stream stream) {
    const kit::LaunchShape shape{.grid = blocks,
                                 .block = static_cast<unsigned>(config.threads()),
                                 .dynamic_shared = static_cast<std::size_t>(config.shared_bytes())};
    constexpr const char* kName = "attention_flash";
    switch (config.tile.head_dim) {
        case 64: return kit::launch(kName, attention_flash<T, 64, kOptions>, shape, stream, p);
        case 80: return kit::launch(kName, attention_flash<T, 80, kOptions>, shape, stream, p);
        case 128: return kit::launch(kName, attention_flash<T, 128, kOptions>, shape, stream, p);
        default: return kit::launch(kName, attention_flash<T, 256, kOptions>, shape, stream, p);
    }
}

void launch_attention(const Attention& op, Context& context) {
    const Problem problem(op);
    const Config& config = context.slot<AttentionPlans>().get(problem, context.info());
    AttentionParams p = parameters(op, problem, config.rows(), config.splits);
    p.row_warps = config.row_warps, p.groups = config.groups, p.slots = config.slots;
    const std::int64_t rows = problem.heads * problem.rows;
    if (config.splits > 1) {
        const auto floats = static_cast<std::size_t>(config.splits * rows * (problem.head_dim + 1));
        p.partial = static_cast<float*>(context.scratch(floats * sizeof(float)));
        p.partial_lse = p.partial + config.splits * rows * problem.head_dim;
    }
    const bool bf16 = op.q.dtype == DType::bf16;
    const auto blocks = static_cast<unsigned>(attention::blocks(problem, config));
    const auto launch = attention::has_options(op)
                            ? (bf16 ? launch_flash<kit::bf16, true> : launch_flash<kit::half, true>)
                            : (bf16 ? launch_flash<kit::bf16, false> : launch_flash<kit::half, false>);
    launch(p, config, blocks, context.stream());
    if (config.splits > 1) {
        const kit::LaunchShape shape{
            .grid = static_cast<unsigned>((rows + 3) / 4), .block = 128, .dependent = true};
        kit::launch("attention_merge", bf16 ? attention_merge<kit::bf16> : attention_merge<kit::half>, shape,
                    context.stream(), p, problem.heads);
    }
}

std::string config_text(const Attention& op, const DeviceInfo& device) {
    return attention::to_string(attention::choose(Problem(op), device));
}

// Boxes of 64 columns by some heads of some tokens.
kit::TensorMap box_map(const Tensor& t, int heads, int tokens) {
    kit::TensorLayout layout{
        .data = t.data, .element_bytes = 2, .axes = 4, .swizzle = kit::Swizzle::bytes128};
    const int axes[] = {3, 2, 1, 0};
    const int box[] = {WgmmaTile::kColumns, heads, tokens, 1};
    for (int i = 0; i < 4; ++i) {
        const auto size = static_cast<std::uint64_t>(t.dim(axes[i]));
        layout.size[i] = size;
        // One element is never stepped over, whatever its stride.
        layout.stride[i] = size > 1 ? 2 * static_cast<std::uint64_t>(t.stride[axes[i]]) : 16;
        layout.box[i] = static_cast<std::uint32_t>(box[i]);
    }
    return kit::tensor_map("attention", layout);
}

template <class T, bool kOptions>
void launch_wgmma_as(const AttentionParams& p, const Attention& op, const attention::WgmmaConfig& config,
                     unsigned blocks, Stream stream) {
    const kit::TensorMap q = box_map(op.q, p.group, config.rows / p.group);
    const kit::TensorMap k = box_map(op.k, 1, config.tile.keys()), v = box_map(op.v, 1, config.tile.keys());
    const kit::LaunchShape shape{.grid = blocks,
                                 .block = WgmmaTile::kThreads,
                                 .cluster = static_cast<unsigned>(config.splits),
                                 .dynamic_shared = static_cast<std::size_t>(config.tile.shared_bytes()),
                                 .dependent = true};
    constexpr const char* kName = "attention_wgmma";
    switch (config.tile.head_dim) {
        case 64: return kit::launch(kName, attention_wgmma<T, 64, kOptions>, shape, stream, p, q, k, v);
        case 128: return kit::launch(kName, attention_wgmma<T, 128, kOptions>, shape, stream, p, q, k, v);
        default: return kit::launch(kName, attention_wgmma<T, 256, kOptions>, shape, stream, p, q, k, v);
    }
}

void launch_wgmma(const Attention& op, Context& context) {
    const Problem problem(op);
    const attention::WgmmaConfig config = attention::choose_wgmma(problem, context.info());
    const AttentionParams p = parameters(op, problem, config.rows, config.splits);
    const bool bf16 = op.q.dtype == DType::bf16;
    const auto blocks = static_cast<unsigned>(attention::blocks(problem, config));
    const auto launch = attention::has_options(op)
                            ? (bf16 ? launch_wgmma_as<kit::bf16, true> : launch_wgmma_as<kit::half, true>)
                            : (bf16 ? launch_wgmma_as<kit::bf16, false> : launch_wgmma_as<kit::half, false>);
    launch(p, op, config, blocks, context.stream());
}

std::string wgmma_text(const Attention& op, const DeviceInfo& device) {
    return attention::to_string(attention::choose_wgmma(Problem(op), device));
}

const RegisterImplementations<Attention> kKernels{
    kit::kTarget,
    {{"flash_wgmma", attention::decline_wgmma, wgmma_text, launch_wgmma},
     {"flash_mma", attention::decline, config_text, launch_attention}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
