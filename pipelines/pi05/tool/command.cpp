// `weft run pi05-encoder`: the prefix encoder on a checkpoint.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/pipeline.h"
#include "core/json_text.h"
#include "pipelines/pi05/session.h"
#include "pipelines/pi05/tool/report.h"

namespace weft {
namespace {

struct Arguments {
    std::string checkpoint, image = "assets/coffee.ppm", out, device = "cpu", dtype = "bf16",
                            precision = "full";
    std::vector<std::int64_t> prompt;
    std::int64_t prompt_count = 16, views = 1, layers = 0, crop = 0;
    int repeats = 0;
    std::vector<std::string> avoid;
    bool json = false;
};

Arguments& arguments() {
    static Arguments parsed;
    return parsed;
}

void declare(cli::CommandLine& line) {
    Arguments& a = arguments() = {};  // of a command line before, in one process, nothing stays
    line.add("--checkpoint", &a.checkpoint,
             "safetensors file, folder or index, with transformers' Gemma names")
        .required();
    line.add("--image", &a.image, "a binary PPM").with_default();
    line.add("--views", &a.views, "how many cameras show it").with_default();
    line.add("--crop", &a.crop, "use the centre square of so many pixels (0: the whole image)");
    line.add("--prompt", &a.prompt, "token ids").by_comma();
    line.add("--prompt-tokens", &a.prompt_count, "without --prompt: so many made-up ids").with_default();
    line.add("--layers", &a.layers, "run only the first layers (0: all)");
    line.add("--device", &a.device, "where").one_of({"cpu", "emulator", "cuda"});
    line.add("--dtype", &a.dtype, "of weights and activations").one_of({"fp32", "bf16", "fp16"});
    line.add("--precision", &a.precision, "of the layers' GEMMs").one_of({"full", "fp8"});
    line.add("--avoid", &a.avoid, "implementations to leave out, such as cublaslt").by_comma();
    line.add("--repeats", &a.repeats, "time so many replays");
    line.add("--out", &a.out, "write embeddings and output (fp32) to this safetensors file");
    line.add("--json", &a.json, "print the result as JSON");
}

SessionOptions options(const Arguments& a) {
    SessionOptions o;
    o.checkpoint = a.checkpoint;
    o.image = a.image;
    o.out = a.out;
    o.device.type = a.device == "cuda"       ? DeviceType::cuda
                    : a.device == "emulator" ? DeviceType::emulator
                                             : DeviceType::cpu;
    o.dtype = *parse_dtype(a.dtype);
    o.precision = a.precision == "fp8" ? Precision::fp8 : Precision::full;
    o.views = a.views;
    o.layers = a.layers;
    o.crop = a.crop;
    o.prompt = a.prompt.empty() ? made_up_prompt(a.prompt_count) : a.prompt;
    o.avoid = a.avoid;
    o.repeats = a.repeats;
    return o;
}

int run() {
    const Arguments& a = arguments();
    const SessionResult result =
        run_session(options(a), [](const std::string& phase) { fmt::print(stderr, "{}\n", phase); });
    if (a.json) {
        fmt::print("{}\n", json_text(to_json(result), 1));
    } else {
        print_report(result);
    }
    return 0;
}

const cli::RegisterPipeline kEncoder{{
    .name = "pi05-encoder",
    .description = "Pi0.5's prefix encoder (Gemma-2B) over a photograph's patches and a prompt",
    .options = declare,
    .run = run,
    .help = "Examples:\n"
            "  weft make-checkpoint --layers 2 gemma.safetensors\n"
            "  weft run pi05-encoder --checkpoint gemma.safetensors --crop 56\n"
            "  weft run pi05-encoder --checkpoint gemma.safetensors --device cuda --precision fp8 --views 3 "
            "--prompt-tokens 200 --repeats 100\n",
}};

}  // namespace
}  // namespace weft
