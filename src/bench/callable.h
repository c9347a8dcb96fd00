// What the harness times: something that computes a case, from wherever it comes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace weft {

enum class Side { weft, baseline, noise };  // noise: a baseline once more, to be compared with itself

struct Callable {
    std::string name;  // an implementation with its configuration, or a library with its version
    Side side = Side::baseline;
    // Queues one call on operand set `set`, from the host: what eager time measures.
    std::function<void(std::size_t set)> call;
    // The name once more, after the first call: a library may have refused what it was chosen for. Absent: it stays.
    std::function<std::string()> taken;
    // Makes what queues `calls` calls at once, call i on set i modulo `sets`. Absent: `call`, captured.
    std::function<std::function<void()>(std::size_t sets, std::size_t calls)> record;
    // False for what works on a stream of its own: it has no device time, only the host's.
    bool recordable = true;
    // Copies a set's latest result into the set's outputs, where the callee returns memory of its own.
    std::function<void(std::size_t set)> deliver;
    // For what moves the case's bytes without computing it: why its last call on `set` was wrong, or nothing.
    // Absent: the result is compared with the case's reference.
    std::function<std::string(std::size_t set)> check;
};

}  // namespace weft
