// A module that registers no variant.
#include "impls/contract.hpp"
