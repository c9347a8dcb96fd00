// Devices: the table of known ones, and the one that is here.
#include "weft/device_info.h"

#include <map>
#include <mutex>

#include "core/cuda_api.h"
#include "core/known_devices.h"
#include "weft/error.h"

namespace weft {
namespace {

// Hopper's GPCs have room for clusters beyond the portable 8; other cards' are not known.
int most_blocks(int arch) { return arch == 90 ? 16 : arch > 90 && arch != 120 ? 8 : 1; }

DeviceInfo gpu(std::string name, int arch, int sms, int shared_block, int shared_sm, long l2_mib, double copy,
               double read, double half, double fp8, double fp32) {
    DeviceInfo d;
    d.name = std::move(name);
    d.type = DeviceType::cuda;
    d.arch = arch;
    d.sms = sms;
    d.shared_per_block = shared_block * 1024;
    d.shared_per_sm = shared_sm * 1024;
    d.l2_bytes = l2_mib << 20;
    d.max_cluster = most_blocks(arch);
    d.copy_tbps = copy;
    d.read_tbps = read;
    d.half_tflops = half;
    d.fp8_tflops = fp8;
    d.fp32_tflops = fp32;
    d.launch_us = 1.1;
    return d;
}

DeviceInfo host(DeviceType type) {
    DeviceInfo d;
    d.type = type;
    d.name = name(type);
    if (type == DeviceType::emulator) {  // a small Hopper
        d.arch = 90;
        d.sms = 4;
        d.shared_per_block = 227 * 1024;
        d.shared_per_sm = 228 * 1024;
        d.l2_bytes = 1 << 20;
        d.max_cluster = 8;
    }
    return d;
}

DeviceInfo query_cuda(int index) {
    cuda::Properties p = cuda::api().properties(index);  // throws where there is none
    DeviceInfo d;
    for (const KnownDevice& k : known_devices()) {
        if (p.name.find(k.marketing) != std::string::npos) {
            d = k.info;
            break;
        }
    }
    d.name = p.name;
    d.type = DeviceType::cuda;
    d.arch = p.arch;
    d.sms = p.sms;
    d.shared_per_block = p.shared_per_block;
    d.shared_per_sm = p.shared_per_sm;
    d.l2_bytes = p.l2_bytes;
    d.max_cluster = most_blocks(p.arch);
    return d;
}

}  // namespace

// H100 and H200: bandwidth and launch floor as probed (docs/design.md). All other figures are NVIDIA's data sheets
// (dense rates; fp8's that of 16 bits where there is no fp8): H100 and H200 Tensor Core GPU, A100 80GB PCIe, L40S,
// T4 (its half rate is fp16's), HGX B200, and the Ada and Blackwell GeForce architecture papers; shared memory by the
// CUDA programming guide's table of compute capabilities.
const std::vector<KnownDevice>& known_devices() {
    static const std::vector<KnownDevice> kKnown = {
        {"h200", "H200", gpu("NVIDIA H200", 90, 132, 227, 228, 60, 4.35, 4.35, 989, 1979, 67), true},
        {"h100", "H100", gpu("NVIDIA H100", 90, 132, 227, 228, 50, 3.06, 3.08, 989, 1979, 67), true},
        {"a100", "A100", gpu("NVIDIA A100", 80, 108, 163, 164, 40, 1.94, 1.94, 312, 312, 19.5)},
        {"l40s", "L40S", gpu("NVIDIA L40S", 89, 142, 99, 100, 96, 0.86, 0.86, 362, 733, 91.6)},
        {"rtx4090", "RTX 4090",
         gpu("NVIDIA GeForce RTX 4090", 89, 128, 99, 100, 72, 1.0, 1.0, 165, 330, 82.6)},
        {"t4", "Tesla T4", gpu("Tesla T4", 75, 40, 64, 64, 4, 0.32, 0.32, 65, 65, 8.1)},
        {"b200", "B200", gpu("NVIDIA B200", 100, 148, 227, 228, 126, 8.0, 8.0, 2250, 4500, 75)},
        {"rtx5090", "RTX 5090",
         gpu("NVIDIA GeForce RTX 5090", 120, 170, 99, 100, 96, 1.79, 1.79, 210, 419, 105)},
    };
    return kKnown;
}

const DeviceInfo& device_info(Device device) {
    static const DeviceInfo kHosts[2] = {host(DeviceType::cpu), host(DeviceType::emulator)};
    if (device.type == DeviceType::cpu) return kHosts[0];
    if (device.type == DeviceType::emulator) return kHosts[1];
    static std::mutex mutex;
    static std::map<int, DeviceInfo> cards;
    const std::scoped_lock lock(mutex);
    auto it = cards.find(device.index);
    if (it == cards.end()) it = cards.emplace(device.index, query_cuda(device.index)).first;
    return it->second;
}

const DeviceInfo* find_device(std::string_view name) {
    for (const KnownDevice& k : known_devices()) {
        if (k.key == name) return &k.info;
    }
    return nullptr;
}

std::vector<std::string> device_names() {
    std::vector<std::string> names;
    for (const KnownDevice& k : known_devices()) names.emplace_back(k.key);
    return names;
}

int cuda_device_count() { return cuda::api().device_count(); }

}  // namespace weft
