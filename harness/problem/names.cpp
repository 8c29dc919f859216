// The words for what a variant is.
#include "harness/problem/registry.hpp"

#include <stdexcept>

namespace clusterbench {

std::string_view to_string(Family family) {
  return family == Family::kmeans ? "kmeans" : "fcm";
}

std::string_view to_string(Device device) {
  switch (device) {
  case Device::cpu:
    return "cpu";
  case Device::gpu:
    return "gpu";
  case Device::multi_gpu:
    return "multi_gpu";
  case Device::mpi:
    return "mpi";
  case Device::mpi_gpu:
    return "mpi_gpu";
  }
  throw std::logic_error("unknown device");
}

std::string_view to_string(Arithmetic arithmetic) {
  switch (arithmetic) {
  case Arithmetic::as_data:
    return "as data";
  case Arithmetic::tf32:
    return "tf32";
  case Arithmetic::bf16:
    return "bf16";
  case Arithmetic::f16:
    return "f16";
  }
  throw std::logic_error("unknown arithmetic");
}

std::string_view to_string(Multiplier multiplier) {
  switch (multiplier) {
  case Multiplier::fma:
    return "fma";
  case Multiplier::tensor_tf32:
    return "tensor tf32";
  case Multiplier::tensor_f16:
    return "tensor f16";
  }
  throw std::logic_error("unknown multiplier");
}

std::string_view to_string(Precision precision) {
  return precision == Precision::f32 ? "f32" : "f64";
}

} // namespace clusterbench
