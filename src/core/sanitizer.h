// Which sanitizer watches this build. What each has to see differs, and so do the cases that it is given (CONTRIBUTING.md).
#pragma once

namespace weft {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSeesAddresses = true;
#else
inline constexpr bool kSeesAddresses = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kSeesRaces = true;
#else
inline constexpr bool kSeesRaces = false;
#endif
inline constexpr bool kSanitized = kSeesAddresses || kSeesRaces;

}  // namespace weft
