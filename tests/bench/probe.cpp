// The probe's reference, for the tests that measure it.
#include "tests/core/probe.h"

namespace weft::test {
namespace {

const RegisterReference<Probe> kReference{reference};

}  // namespace
}  // namespace weft::test
